"""Which heads to keep of a network on an encoder's attention: orders by all scores, and the accuracy of what they keep."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from attention_book.experiments.encoded_grid import TOLERANCE, Problem, halves, hits
from statmech_attention.pruning.evidence import head_evidence, order_parameters_left
from statmech_attention.pruning.heads import kept_heads
from statmech_attention.pruning.importance import normalised_by_layer, path_covariance, taylor_importance
from statmech_attention.pruning.removal import (
    greedy_order,
    head_drops,
    path_contributions,
    pruning_curve,
    removal_order,
)
from statmech_attention.theory.kernels import centred_alignment, kernel
from statmech_attention.theory.predictor import predictor_contributions
from statmech_attention.theory.saddle_point import solve
from statmech_attention.theory.scores import head_scores, path_heads
from statmech_attention.theory.solution import Solution
from statmech_attention.training import train_weights

EVIDENCE = "evidence lost"
# Scores of a head, from the training sentences alone, and with the validation sentences.
BY_TRAINING = (
    "both",
    "either",
    "weighted",
    EVIDENCE,
    "alignment",
    "Taylor",
    "Taylor by layer",
    "weight norm",
)
BY_VALIDATION = ("Taylor, validation", "leave one out", "greedy")
_ROUGH = 1e-2  # of the action's gradient, for evidence lost: right to 0.01 then, of several nats


class Trained(NamedTuple):
    """A network of all heads that gradient descent trained on the same inputs.

    Attributes:
        norms: Frobenius norms of the heads' values.
        contributions: of every path to the outputs on test sentences.
        gradient_norm: see `training.TrainedWeights`.
    """

    norms: Float[np.ndarray, " heads"]
    contributions: Float[np.ndarray, "test paths"]
    gradient_norm: float


def trained(problem: Problem, width: int, temperature: float, seed: int, steps: int) -> Trained:
    """Gradient descent on all weights of (8).

    Args:
        problem: `Problem`.
        width: $N$.
        temperature: $T$.
        seed: of the initial weights.
        steps: of the descent.

    Returns:
        `Trained`.
    """
    found = train_weights(
        problem.train, problem.labels, width=width, temperature=temperature, key=jax.random.key(seed), steps=steps
    )
    norms = np.concatenate([np.linalg.norm(layer, axis=(1, 2)) for layer in found.weights.values])
    return Trained(norms, np.asarray(path_contributions(found.weights, problem.test)), float(found.gradient_norm))


def score_of_heads(
    problem: Problem, solution: Solution, norms, layers, *, evidence: bool
) -> dict[str, Float[np.ndarray, " heads"]]:
    """All scores, the largest for the head that is kept longest; "greedy" has the step at which a head goes.

    Args:
        problem: `Problem`.
        solution: of the whole network.
        norms: of the heads' values in a trained network.
        layers: numbers of heads that Taylor importances are normalised within, the encoder's layers.
        evidence: whether to solve without each head, for the evidence lost.

    Returns:
        By name, `(all heads,)`.
    """
    train, heads, overlap = problem.train, problem.train.heads, solution.order_parameter
    heat, width = float(solution.temperature), float(solution.width[0])
    on_train, on_validation = (
        np.asarray(predictor_contributions(train, problem.labels, inputs, overlap, temperature=heat))
        for inputs in (train, problem.validation)
    )
    taylor = taylor_importance(on_train, problem.labels, heads=heads)
    order = greedy_order(on_validation, problem.validation_labels, heads=heads)
    greedy = np.full(sum(train.chain.heads), float(len(order)))
    greedy[order] = np.arange(len(order))
    found = {
        "both": head_scores(overlap, heads=heads, definition="both"),
        "either": head_scores(overlap, heads=heads, definition="either"),
        "weighted": head_scores(overlap * path_covariance(train), heads=heads, definition="both"),
        "alignment": alignments(problem),
        "Taylor": taylor,
        "Taylor by layer": normalised_by_layer(taylor, heads=layers),
        "weight norm": norms,
        "Taylor, validation": taylor_importance(on_validation, problem.validation_labels, heads=heads),
        "leave one out": head_drops(on_validation, problem.validation_labels, heads=heads).mean,
        "greedy": greedy,
    }
    if evidence:
        found[EVIDENCE] = head_evidence(
            train, problem.labels, width=width, temperature=heat, start=solution, tolerance=_ROUGH, throw=False
        ).lost
    return {name: np.asarray(values) for name, values in found.items()}


def curves(
    problem: Problem,
    solution: Solution,
    orders: dict[str, Int[np.ndarray, " removals"]],
    sizes: Sequence[int],
    contributions: dict[str, Float[np.ndarray, "test paths"]],
) -> xr.Dataset:
    """Test accuracy against the number of heads kept, heads removed in given orders.

    Args:
        problem: `Problem`.
        solution: of the whole network.
        orders: by name, numbers of heads, the first to go first.
        sizes: numbers of heads kept, for values that are learned again.
        contributions: by name, of the paths to outputs on test sentences, which heads are cut out of.

    Returns:
        Over orders: `learned`, the accuracy of the theory solved again on the heads kept, `learned_right` with the `halves` of every
        sentence, and by the names of the contributions the accuracy with the other heads cut out, at any number of heads.
    """
    heads, count = problem.train.heads, sum(problem.train.chain.heads)
    rows: dict[str, list] = {name: [] for name in contributions}
    solved = []
    for order in orders.values():
        solved.append([learned_again(problem, solution, order[: count - size]) for size in sizes])
        for name, parts in contributions.items():
            rows[name].append(pruning_curve(parts, problem.test_labels, order, heads=heads).mean)
    learned, masked = np.array(solved), ("order", "removed")
    return xr.Dataset(
        {
            "learned": (("order", "kept"), learned.mean(axis=-1)),
            "learned_right": (("order", "kept", "sentence"), halves(learned)),
            **{name: (masked, np.array(row, np.float32)) for name, row in rows.items()},
        },
        {"order": list(orders), "kept": list(sizes)},
    )


def selected(
    problem: Problem,
    *,
    width: int,
    temperature: float,
    sizes: Sequence[int],
    random: int,
    seed: int,
    steps: int,
    layers,
    known: Mapping[str, Float[np.ndarray, " heads"]],
) -> xr.Dataset:
    """All of it, at one width and temperature.

    Args:
        problem: `Problem`.
        width: $N$.
        temperature: $T$.
        sizes: numbers of heads kept.
        random: how many random orders.
        seed: of them, and of the trained network.
        steps: of its training.
        layers: as for `score_of_heads`.
        known: scores that need not be computed; of them only the evidence lost is asked for.

    Returns:
        A dataset over heads, orders and numbers of heads kept.
    """
    train, test, heads = problem.train, problem.test, problem.train.heads
    solution = solve(train, problem.labels, width=width, temperature=temperature, tolerance=TOLERANCE, throw=False)
    network = trained(problem, width, temperature, seed, steps)
    scores = score_of_heads(problem, solution, network.norms, layers, evidence=EVIDENCE not in known) | dict(known)
    draws = np.random.default_rng(seed)
    everything = scores | {f"random {number}": draws.random(sum(train.chain.heads)) for number in range(random)}
    orders = {name: removal_order(values, heads=heads) for name, values in everything.items()}
    overlap = solution.order_parameter
    own = np.asarray(predictor_contributions(train, problem.labels, test, overlap, temperature=temperature))
    contributions = {"masked": own, "trained_masked": network.contributions}
    return curves(problem, solution, orders, sizes, contributions).assign(
        head_score=(("criterion", "head"), np.array([*scores.values()], np.float32)),
        criterion=list(scores),
        drop=("head", head_drops(own, problem.test_labels, heads=heads).mean),
        trained_drop=("head", head_drops(network.contributions, problem.test_labels, heads=heads).mean),
        trained_gradient_norm=network.gradient_norm,
        chosen_temperature=temperature,
    )


def learned_again(problem: Problem, solution: Solution, removed) -> Float[np.ndarray, " test"]:
    """How far each test sentence is right without some heads, order parameters and values learned again.

    Args:
        problem: of the whole network.
        solution: its own, which the smaller network's starts from.
        removed: numbers of heads.

    Returns:
        `(test,)`.
    """
    smaller = problem.keep_heads(kept_heads(problem.train.heads, removed))
    width, temperature = float(solution.width[0]), float(solution.temperature)
    found = solve(
        smaller.train,
        problem.labels,
        width=width,
        temperature=temperature,
        start=order_parameters_left(solution, removed),
        tolerance=TOLERANCE,
        throw=False,
    )
    return hits(smaller, found.order_parameter, temperature)[1]


def alignments(problem: Problem) -> Float[np.ndarray, " heads"]:
    """Centred alignment of the training labels with the kernel of each head's own paths, at the Gaussian-process limit."""
    through = path_heads(problem.train.heads).T
    kernels = (kernel(problem.train, problem.train, np.diag(one)) for one in through)
    return np.array([float(centred_alignment(gram, problem.labels)) for gram in kernels])
