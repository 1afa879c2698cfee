"""Selection of an encoder's heads from its attention matrices and labelled examples alone."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.model import AttentionedInputs, TokenInputs
from statmech_attention.pruning.features import Features, fitted_features
from statmech_attention.pruning.heads import keep_heads
from statmech_attention.pruning.token_selection import DEFINITIONS, Gates, kept_of
from statmech_attention.theory import Problem, Solution, head_scores, log_evidence, solve, solve_sweep
from statmech_attention.theory.problem import need_examples, need_problem
from statmech_attention.theory.regression import Estimate, hit
from statmech_attention.theory.solution import raise_unless_converged

TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_TOLERANCE = 1e-5  # of the action's gradient: scores of real heads were right to seven digits then


class SelectedHeads(NamedTuple):
    r"""Heads to keep, and the accuracy to expect of them.

    Attributes:
        kept: their numbers, counted through the network as in `head_indices`, the highest score
            first.
        scores: of all heads, the largest 1.
        accuracy: with the heads kept and values refitted, on examples used neither to choose nor to
            fit.
        accuracy_of_all: the same with all heads.
        difference: `accuracy` minus `accuracy_of_all`, paired: both are of the same examples.
        majority: share of the largest class, the accuracy of a constant guess.
        kept_in_folds: share of the folds in which each head was kept, `(all heads,)`.
        temperature: $T$ at which the scores were computed.
    """

    kept: Int[np.ndarray, " kept"]
    scores: Float[np.ndarray, " heads"]
    accuracy: Estimate
    accuracy_of_all: Estimate
    difference: Estimate
    majority: float
    kept_in_folds: Float[np.ndarray, " heads"]
    temperature: float


def select_heads(
    problem: Problem,
    *,
    keep: int,
    directions: int = 64,
    folds: int = 4,
    seed: int = 0,
    definition: str | None = None,
) -> SelectedHeads:
    r"""Select the heads that count most in the order parameter of a network on this attention.

    A head's score is that of `head_scores` at the saddle point (11), with values and readout of the
    network (1) to (4) learned from these labels; at infinite width all scores are equal. Features
    are principal components of $\xi^\pi$, see `fitted_features`. The heads are chosen on all
    examples; the accuracy is estimated by cross-validation, with temperature, heads, features and
    values chosen and fitted on the other folds.

    Of a problem of `token_inputs` a head's score is what it is worth to the kernel of infinite width,
    see `head_worth`; scale and, unless it is given, temperature are those of the largest evidence.

    Where the action has several minima, all of this is of the one on the prior's branch, that of
    `solve`; `minima` tells whether another is lower.

    Args:
        problem: a `Problem` with a width, such as 10. Without a temperature, that of the largest
            evidence is taken from 0.01, 0.03, .., 3. All heads of an encoder may be in one layer:
            `Problem(np.einsum("ehk,ekd->ehd", columns, inputs), labels, width=10, layers=(heads,))`
            with the attention `(examples, heads, keys)` of the token read out. Labels are +1 or -1,
            or `(examples, outputs)`, the largest of an example for its class. Tokens need no width.
        keep: number of heads to keep, of all layers together.
        directions: $N_0$, number of features, or as many as there are.
        folds: number of folds, each with equal shares of the classes.
        seed: of the folds.
        definition: of the score. With paths as in `head_scores`, but by default "both": where values
            are learned again, it is the one that was tried (the book's page on the encoder). Of
            tokens "derivative", the default, or "removal", the evidence lost without the head.

    Raises:
        ValueError: labels of one class.
        NotConverged: as `solve`, if no temperature converged.

    Source: the score is that of Tiberi et al. (2024), section 4.2; selection before training is
    ours.
    """
    problem = need_examples(need_problem(problem, tokens=None), "folds")
    tokens = isinstance(problem.attentioned, TokenInputs)
    problem = need_problem(problem, *(() if tokens else ("width",)), tokens=tokens)
    classes, heads = _classes(problem), problem.attentioned.chain.heads
    keep = checks.whole("keep", keep, most=sum(heads))
    directions, folds = checks.whole("directions", directions), checks.whole("folds", folds, 2, len(classes) // 2)
    place = _folds(classes, folds, np.random.default_rng(checks.whole("seed", seed, 0)))
    outputs, times = np.zeros((2, *problem.labels.shape)), np.zeros(sum(heads))
    gates = Gates(problem, definition or DEFINITIONS[0]) if tokens else None
    for fold in range(folds):
        if gates is None:
            held = _held_out(problem, place == fold, keep, directions, definition or "both")
        else:
            held = _held_out_tokens(gates, place == fold, keep)
        kept, outputs[:, place == fold] = held
        times[kept] += 1 / folds
    hits = hit(outputs, np.asarray(problem.labels))
    hits = np.concatenate([hits, hits[:1] - hits[1:]])
    few, every, apart = (Estimate(np.mean(one), np.std(one, ddof=1) / math.sqrt(len(one))) for one in hits)
    if gates is None:
        fitted, _ = _fitted(problem, directions)
        scores, temperature = _scores(fitted, definition or "both"), float(fitted.problem.temperature)
    else:
        scores, temperature = gates.scores(np.arange(len(classes)))
        scores = scores / scores.max()
    kept = kept_of(scores, keep, problem.layers)
    majority = float(np.bincount(classes).max() / len(classes))
    return SelectedHeads(kept, scores, few, every, apart, majority, times, temperature)


def _fitted(problem: Problem, directions: int) -> tuple[Solution, Features]:
    """The saddle point on principal components, at the temperature given or that of the largest evidence."""
    examples, paths, width = problem.attentioned.values.shape
    features = fitted_features(problem.attentioned, min(directions, width, examples * paths - 1))
    problem = problem.replace(attentioned=features.of(problem.attentioned))
    if problem.temperature is not None:
        return solve(problem, tolerance=_TOLERANCE), features
    options: Any = {"temperatures": TEMPERATURES, "tolerance": _TOLERANCE, "throw": False}
    found = solve_sweep(problem, widths=[problem.width], **options)[0]
    evidence = np.where(found.converged, log_evidence(found), -np.inf)
    best = found[int(np.argmax(evidence))]
    raise_unless_converged(best)
    return best, features


def _scores(fitted: Solution, definition: str) -> Float[np.ndarray, " heads"]:
    return np.asarray(head_scores(fitted.order_parameter, layers=fitted.problem.layers, definition=definition))


def _held_out_tokens(gates: Gates, tested, keep: int) -> tuple:
    """As `_held_out`, without paths."""
    train, test = np.flatnonzero(~tested), np.flatnonzero(tested)
    kept = kept_of(gates.scores(train)[0], keep, gates.inputs.layers)
    return kept, np.stack([gates.outputs(train, test, kept), gates.outputs(train, test)])


def _held_out(problem: Problem, tested, keep: int, directions: int, definition: str) -> tuple:
    """The heads that the other examples choose, and the outputs for the tested ones, with these heads and with all."""
    seen, labels = problem.attentioned, np.asarray(problem.labels)
    train = problem.replace(attentioned=AttentionedInputs(seen.values[~tested], seen.layers), labels=labels[~tested])
    test = AttentionedInputs(seen.values[tested], seen.layers)
    whole, features = _fitted(train, directions)
    kept = np.sort(kept_of(_scores(whole, definition), keep, problem.layers))
    fewer, components = _fitted(keep_heads(train, kept), directions)
    few = fewer.predict(components.of(keep_heads(test, kept))).mean
    return kept, np.stack([few, whole.predict(features.of(test)).mean])


def _folds(classes, folds: int, random) -> Int[np.ndarray, " examples"]:
    """Random folds, with equal shares of every class."""
    order = random.permutation(len(classes))
    place = np.empty(len(classes), int)
    place[order[np.argsort(classes[order], kind="stable")]] = np.arange(len(classes)) % folds
    return place


def _classes(problem: Problem) -> Int[np.ndarray, " examples"]:
    """Numbers of the examples' classes, at least two of them."""
    labels = np.asarray(problem.labels)
    checks.labels(labels, len(labels), signs=labels.ndim == 1, axes=labels.shape[1:])
    classes = (labels > 0).astype(int) if labels.ndim == 1 else labels.argmax(axis=1)
    if len(np.unique(classes)) < 2:
        raise ValueError("labels: wanted at least two classes to tell apart, got one.")
    return classes
