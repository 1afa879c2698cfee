"""The theory of encoded sentences: over widths, temperatures and labels, and with some of the heads."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float, Int8

import statmech_attention as sma
from attention_book.comparison import block_share
from attention_book.experiments.encoded_inputs import EncodedProblem
from attention_book.measures import centred_alignment
from attention_book.pruning import (
    greedy_order,
    head_drops,
    normalised_by_layer,
    path_contributions,
    path_covariance,
    predictor_contributions,
    predictor_vectors,
    pruning_curve,
    taylor_importance,
)
from statmech_attention.model.accuracy import right
from statmech_attention.pruning.evidence import head_evidence, order_parameters_left
from statmech_attention.pruning.heads import kept_heads, removal_order
from statmech_attention.theory.kernels import kernel
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.saddle_point import solve, solve_sweep
from statmech_attention.theory.scores import DEFINITIONS, head_scores, path_heads
from statmech_attention.theory.solution import Solution
from statmech_attention.training import train_weights

TOLERANCE = 1e-5  # of the action's gradient: head scores are right to 1e-6 then, to 1.5e-3 at 1e-4
EVIDENCE = "evidence lost"
_ROUGH = 1e-2  # of the action's gradient, for evidence lost: right to 0.01 then, of several nats


def hits(problem: EncodedProblem, order_parameter, temperature: float) -> tuple[Float[np.ndarray, " sentences"], ...]:
    """Correctness of the mean predictor (9) on every validation and on every test sentence."""
    vectors = predictor_vectors(Problem(problem.train, problem.labels, temperature=temperature), order_parameter)
    both = (problem.validation, problem.validation_labels), (problem.test, problem.test_labels)
    return tuple(right(np.einsum("epi,pi->e", one.values, vectors, optimize=True), labels) for one, labels in both)


def halves(right) -> Int8[np.ndarray, "..."]:
    """Twice the correctness: 2 for an output that is right, 0 for a wrong one, 1 for an undecided one."""
    return np.round(2 * np.asarray(right)).astype(np.int8)


def swept(problem: EncodedProblem, widths: Sequence[float], temperatures: Sequence[float]) -> Solution:
    """Saddle points, from the widest to the narrowest."""
    options: dict[str, Any] = {"widths": widths, "temperatures": temperatures, "tolerance": TOLERANCE, "throw": False}
    return solve_sweep(Problem(problem.train, problem.labels), **options)


def grid(problem: EncodedProblem, widths: Sequence[float], temperatures: Sequence[float]) -> xr.Dataset:
    """Accuracy, evidence, head scores and shares of blocks over widths, also infinite, and temperatures.

    `right` has the `halves` of every test sentence, by which accuracies are paired.
    """
    sweep, both = swept(problem, widths, temperatures), ("width", "temperature")
    layers, shape = sweep.problem.attentioned.layers, (len(widths), len(temperatures))
    on_validation, on_test = np.zeros(shape), np.zeros((*shape, len(problem.test_labels)))
    scores = np.zeros((len(DEFINITIONS), *shape, sum(sweep.problem.attentioned.chain.heads)))
    shares = np.zeros((len(layers), *shape))
    for place in np.ndindex(shape):
        overlap = sweep.order_parameter[place]
        temperature = float(temperatures[place[1]])
        seen, on_test[place] = hits(problem, overlap, temperature)
        on_validation[place] = seen.mean()
        scores[:, *place] = [head_scores(overlap, layers=layers, definition=one) for one in DEFINITIONS]
        shares[:, *place] = [block_share(overlap, layers=layers, layer=layer + 1).value for layer in range(len(layers))]
    return xr.Dataset(
        {
            "accuracy": (both, on_test.mean(axis=-1)),
            "validation_accuracy": (both, on_validation),
            "right": ((*both, "sentence"), halves(on_test)),
            "log_evidence": (both, np.asarray(sma.log_evidence(sweep))),
            "score": (("definition", *both, "head"), scores.astype(np.float32)),
            "block_share": (("layer", *both), shares),
            **{name: (both, np.asarray(getattr(sweep, name))) for name in ("gradient_norm", "steps", "outcome")},
        },
        {"width": list(widths), "temperature": list(temperatures), "definition": list(DEFINITIONS)},
    )


def by_labels(problem: EncodedProblem, width: float, temperatures: Sequence[float]) -> float:
    """Test accuracy at one width, infinity included, at the temperature of the largest evidence."""
    sweep = swept(problem, [width], temperatures)[0]
    best = int(jnp.argmax(sma.log_evidence(sweep)))
    return float(hits(problem, sweep.order_parameter[best], float(temperatures[best]))[1].mean())


def score_of_heads(
    problem: EncodedProblem, solution: Solution, norms, encoder_layers, *, evidence: bool
) -> dict[str, Float[np.ndarray, " heads"]]:
    """All scores of heads, the largest for the head that is kept longest.

    The last three use labels of validation sentences. Taylor importances are normalised within
    `encoder_layers`, the encoder's numbers of heads.
    """
    train, layers, overlap = problem.train, problem.train.layers, solution.order_parameter
    on_train, on_validation = (
        np.asarray(predictor_contributions(solution.problem, inputs, overlap)) for inputs in (train, problem.validation)
    )
    taylor = taylor_importance(on_train, problem.labels, layers=layers)
    order = greedy_order(on_validation, problem.validation_labels, layers=layers)
    greedy = np.full(sum(train.chain.heads), float(len(order)))
    greedy[order] = np.arange(len(order))
    found = {
        "both": head_scores(overlap, layers=layers, definition="both"),
        "either": head_scores(overlap, layers=layers, definition="either"),
        "weighted": head_scores(overlap * path_covariance(train), layers=layers, definition="both"),
        "alignment": alignments(problem),
        "Taylor": taylor,
        "Taylor by layer": normalised_by_layer(taylor, layers=encoder_layers),
        "weight norm": norms,
        "Taylor, validation": taylor_importance(on_validation, problem.validation_labels, layers=layers),
        "leave one out": head_drops(on_validation, problem.validation_labels, layers=layers).mean,
        "greedy": greedy,
    }
    if evidence:
        found[EVIDENCE] = head_evidence(solution.problem, start=solution, tolerance=_ROUGH, throw=False).lost
    return {name: np.asarray(values) for name, values in found.items()}


def selected(
    problem: EncodedProblem,
    *,
    width: int,
    temperature: float,
    sizes: Sequence[int],
    random: int,
    seed: int,
    steps: int,
    encoder_layers,
    known: Mapping[str, Float[np.ndarray, " heads"]],
) -> xr.Dataset:
    """All scores of heads, and the accuracy of the heads kept in their order and in random ones.

    `learned` is that of the theory solved again on the heads kept, `masked` with the other heads
    cut out of its predictor, `trained_masked` with them cut out of a trained network.
    """
    layers = problem.train.layers
    learned = Problem(problem.train, problem.labels, width=width, temperature=temperature)
    solution = solve(learned, tolerance=TOLERANCE, throw=False)
    network = train_weights(learned, key=jax.random.key(seed), steps=steps)
    norms = np.concatenate([np.linalg.norm(layer, axis=(1, 2)) for layer in network.weights.values])
    scores = score_of_heads(problem, solution, norms, encoder_layers, evidence=EVIDENCE not in known) | dict(known)
    draws, count = np.random.default_rng(seed), sum(problem.train.chain.heads)
    everything = scores | {f"random {number}": draws.random(count) for number in range(random)}
    orders = {name: removal_order(values, layers=layers) for name, values in everything.items()}
    own = predictor_contributions(learned, problem.test, solution.order_parameter)
    contributions = {"": np.asarray(own), "trained_": np.asarray(path_contributions(network.weights, problem.test))}
    solved = [[learned_again(problem, solution, order[: count - size]) for size in sizes] for order in orders.values()]
    refitted = np.array(solved)
    found: dict[str, tuple] = {"learned": (("order", "kept"), refitted.mean(axis=-1))}
    found["learned_right"] = (("order", "kept", "sentence"), halves(refitted))
    for name, parts in contributions.items():
        curves = [pruning_curve(parts, problem.test_labels, order, layers=layers).mean for order in orders.values()]
        found[f"{name}masked"] = (("order", "removed"), np.array(curves, np.float32))
        found[f"{name}drop"] = ("head", head_drops(parts, problem.test_labels, layers=layers).mean)
    return xr.Dataset(
        {
            **found,
            "head_score": (("criterion", "head"), np.array([*scores.values()], np.float32)),
            "trained_gradient_norm": float(network.gradient_norm),
            "chosen_temperature": temperature,
        },
        {"order": list(orders), "kept": list(sizes), "criterion": list(scores)},
    )


def learned_again(problem: EncodedProblem, solution: Solution, removed) -> Float[np.ndarray, " test"]:
    """Correctness on each test sentence without some heads, values refitted."""
    smaller = problem.keep_heads(kept_heads(problem.train.layers, removed))
    start, own = order_parameters_left(solution, removed), solution.problem.replace(attentioned=smaller.train)
    found = solve(own, start=start, tolerance=TOLERANCE, throw=False)
    return hits(smaller, found.order_parameter, float(solution.problem.temperature))[1]


def alignments(problem: EncodedProblem) -> Float[np.ndarray, " heads"]:
    """Centred alignment of the training labels with the GP kernel of each head's own paths."""
    through = path_heads(problem.train.layers).T
    kernels = (kernel(problem.train, problem.train, np.diag(one)) for one in through)
    return np.array([float(centred_alignment(gram, problem.labels)) for gram in kernels])
