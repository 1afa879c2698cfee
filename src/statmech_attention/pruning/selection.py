"""Selection of an encoder's heads, or blocks, from its attention, gates and labelled examples alone."""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.model import TokenInputs
from statmech_attention.pruning.fits import Fit, along_paths, at_infinite_width, on_tokens
from statmech_attention.pruning.heads import head_indices, removal_order
from statmech_attention.theory import Problem
from statmech_attention.theory.kernels.regression import Estimate, hit
from statmech_attention.theory.problem import need_examples, need_problem


class SelectedHeads(NamedTuple):
    r"""Heads to keep, and the accuracy to expect of them.

    Attributes:
        kept: their numbers, counted through the network as in `head_indices`, the highest score
            first.
        scores: of all heads, over the largest size of one. Where none is positive no head helps, and those
            that harm least are kept.
        accuracy: with the heads kept and values refitted, on examples used neither to choose nor to
            fit.
        accuracy_of_all: the same with all heads.
        difference: `accuracy` minus `accuracy_of_all`, paired: both are of the same examples.
        majority: share of the largest class, the accuracy of a constant guess.
        kept_in_folds: share of the folds in which each head was kept, `(all heads,)`.
        temperature: $T$ at which the scores were computed.
        heads: layer and number of every head, both from 0; those of the heads kept are `heads[kept]`.
    """

    kept: Int[np.ndarray, " kept"]
    scores: Float[np.ndarray, " heads"]
    accuracy: Estimate
    accuracy_of_all: Estimate
    difference: Estimate
    majority: float
    kept_in_folds: Float[np.ndarray, " heads"]
    temperature: float
    heads: Int[np.ndarray, "heads 2"]


def select_heads(
    problem: Problem,
    *,
    keep: int,
    components: int | None = None,
    folds: int = 4,
    seed: int = 0,
    definition: str | None = None,
    groups: int = 1,
) -> SelectedHeads:
    r"""Select the heads that count most in the order parameter of a network on this attention.

    A head's score is that of `head_scores` at the saddle point (11), with values and readout of the
    network (1) to (4) learned from these labels; at infinite width all scores are equal. Features
    are principal components of $\xi^\pi$, see `fitted_features`. The heads are chosen on all
    examples; the accuracy is estimated by cross-validation, with temperature, heads, features and
    values chosen and fitted on the other folds.

    On `token_inputs` a head's score is what it is worth, see `head_worth`, at the width of the problem or, without
    one, at infinite width; scale and, unless it is given, temperature are those of the largest evidence there.

    Where the action has several minima, all of this is of the one on the prior's branch, that of
    `solve`; `minima` tells whether another is lower.

    Args:
        problem: a `Problem` with a width, such as 10. Without a temperature, that of the largest
            evidence is taken from 0.01, 0.03, .., 3. All heads of an encoder may be in one layer:
            `Problem(np.einsum("ehk,ekd->ehd", columns, inputs), labels, width=10, layers=(heads,))`
            with the attention `(examples, heads, keys)` of the token read out. Labels are +1 or -1,
            or `(examples, outputs)`, the largest of an example for its class. Tokens need no width.
        keep: number of heads to keep, of all layers together.
        components: along paths $N_0$, number of features, or as many as there are; 64 by default.
        folds: number of folds, each with equal shares of the classes.
        seed: of the folds.
        definition: of the score. With paths as in `head_scores`, but by default "both": where values
            are learned again, it is the one that was tried (the book's page on the encoder). Everywhere
            "derivative", the default on tokens, or "removal", the evidence lost without the head.
        groups: heads side by side that are kept together, by the sum of their scores: under grouped queries
            those that share keys and values, so that they can be cut out of the matrices.

    Raises:
        ValueError: labels of one class.
        NotConverged: as `solve`, if no temperature converged.

    Warns:
        UserWarning: no head has a positive worth.

    Source: the score is that of Tiberi et al. (2024), section 4.2; selection before training is
    ours.
    """
    problem = need_examples(need_problem(problem, tokens=True), "folds")
    if problem.projected:
        raise ValueError("problem: wanted attentioned_inputs or token_inputs, got what a projection sees. Give tokens.")
    tokens = isinstance(problem.attentioned, TokenInputs)
    problem = need_problem(problem, *(() if tokens else ("width",)), tokens=tokens)
    heads = problem.attentioned.chain.heads
    keep = checks.whole("keep", keep, most=sum(heads))
    fit = _fit(problem, tokens, components, definition)

    def kept(scores):
        return _kept(scores, keep, problem.layers, groups)

    return _selected(problem, fit, kept, folds, seed, head_indices(layers=problem.layers))


def select_blocks(
    problem: Problem, *, keep: int, folds: int = 4, seed: int = 0, definition: str = "derivative"
) -> SelectedHeads:
    r"""Select the feed-forward blocks that are worth most at infinite width, as `select_heads` does on `token_inputs`.

    A block that is left out has no weights: what enters it leaves it. Scale and, unless it is given, temperature are
    those of the largest evidence.

    Args:
        problem: of `token_inputs` with `Gated` layers, without a width. Labels as in `select_heads`.
        keep: number of blocks to keep.
        folds, seed: as in `select_heads`.
        definition: "derivative" in the block's gate, or "removal", the evidence lost without the block.

    Returns:
        As `select_heads`, for blocks counted from the first layer up; their numbers within a layer are -1.

    Raises:
        ValueError: no layer with gates, or a finite width, at which nothing is said of blocks.
    """
    problem = need_examples(need_problem(problem, tokens=True), "folds")
    if problem.projected or not isinstance(problem.attentioned, TokenInputs):
        raise ValueError("problem: wanted token_inputs, whose blocks have gates, got others. Give tokens.")
    if problem.width is not None and np.isfinite(float(problem.architecture.unit)):
        raise ValueError("problem: wanted infinite width, got a finite one. Leave the width out.")
    fit = at_infinite_width(problem, definition, blocks=True)
    places = [place for place, layer in enumerate(problem.attentioned.chain.layers) if layer.gates]
    keep = checks.whole("keep", keep, most=len(places))
    numbers = np.stack([places, np.full(len(places), -1)], axis=1)
    return _selected(problem, fit, lambda scores: np.argsort(-scores, kind="stable")[:keep], folds, seed, numbers)


def _selected(problem: Problem, fit: Fit, chosen: Callable, folds: int, seed: int, numbers) -> SelectedHeads:
    """Scores on all examples, with the accuracy of what they choose by cross-validation."""
    classes = _classes(problem)
    folds = checks.whole("folds", folds, 2, len(classes) // 2)
    place = _folds(classes, folds, np.random.default_rng(checks.whole("seed", seed, 0)))
    outputs, times = np.zeros((2, *problem.labels.shape)), np.zeros(len(numbers))
    for fold in range(folds):
        train, test = np.flatnonzero(place != fold), np.flatnonzero(place == fold)
        whole = fit(train)
        kept = chosen(whole.scores())
        outputs[0, test] = fit(train, kept).outputs(test)
        outputs[1, test] = whole.outputs(test)
        times[kept] += 1 / folds
    hits = hit(outputs, np.asarray(problem.labels))
    few, every, apart = map(_mean, (*hits, hits[0] - hits[1]))
    whole = fit(np.arange(len(classes)))
    scores = whole.scores()
    kept = chosen(scores)
    if not scores.max() > 0:
        what = "block" if np.all(numbers[:, 1] < 0) else "head"
        warnings.warn(
            f"No {what} has a positive worth: the labels are no less likely without any one. The {len(kept)} kept harm "
            "least.",
            stacklevel=3,
        )
    scores = scores / (np.abs(scores).max() or 1.0)
    majority = float(np.bincount(classes).max() / len(classes))
    return SelectedHeads(kept, scores, few, every, apart, majority, times, whole.temperature, numbers)


def _fit(problem: Problem, tokens: bool, components: int | None, definition: str | None) -> Fit:
    """Choose how networks are fitted and heads scored."""
    if not tokens:
        components = 64 if components is None else checks.whole("components", components)
        return along_paths(problem, components, "both" if definition is None else definition)
    if components is not None:
        raise ValueError("components: wanted along paths alone, where features are principal components. Leave it out.")
    finite = problem.width is not None and np.isfinite(float(problem.architecture.unit))
    return (on_tokens if finite else at_infinite_width)(problem, "derivative" if definition is None else definition)


def _kept(scores, keep: int, layers, groups: int) -> Int[np.ndarray, " kept"]:
    """The numbers of the heads with the highest scores, but at least as many of every layer as it needs."""
    order = removal_order(scores, layers=layers, groups=groups)
    if keep < len(scores) - len(order):
        raise ValueError(f"keep: wanted at least {len(scores) - len(order)} heads, one of every layer, got {keep}.")
    if (len(scores) - keep) % groups:
        raise ValueError(f"keep: wanted whole groups of {groups} heads, got {keep}.")
    kept = np.setdiff1d(np.arange(len(scores)), order[: len(scores) - keep])
    return kept[np.argsort(-scores[kept], kind="stable")]


def _mean(hits: Float[np.ndarray, " examples"]) -> Estimate:
    return Estimate(np.mean(hits), np.std(hits, ddof=1) / math.sqrt(len(hits)))


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
