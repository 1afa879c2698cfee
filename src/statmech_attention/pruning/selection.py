"""Selection of an encoder's heads from its attention matrices and labelled examples alone."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.layers import Chain
from statmech_attention.model import AttentionedInputs, Estimate, fitted_features
from statmech_attention.model.accuracy import right
from statmech_attention.pruning.heads import kept_heads, removal_order
from statmech_attention.theory import (
    Problem,
    Solution,
    head_scores,
    kernel_regression,
    kernel_weights,
    log_evidence,
    solve,
    solve_sweep,
)
from statmech_attention.theory.problem import need_examples, need_problem
from statmech_attention.theory.scores import path_heads
from statmech_attention.theory.solution import raise_unless_converged

METHODS = ("theory", "kernel weights")
TEMPERATURES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_TOLERANCE = 1e-5  # of the action's gradient: scores of real heads were right to seven digits then
_TIED = 1e-4  # difference of scores, of which the largest is 1


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
        kept_in_folds: share of the folds in which each head was kept, `(all heads,)`.
        temperature: $T$ at which the scores were computed.
        tied: numbers of the heads whose scores are equal, within 1e-4, where the heads kept end: they
            were told apart by their numbers alone. Empty if the cut is clear.
        p: $(1 + n_\ge) / (1 + n)$, with the number $n_\ge$ of $n$ permutations of the labels for which
            the whole selection is at least as accurate; NaN without permutations.
    """

    kept: Int[np.ndarray, " kept"]
    scores: Float[np.ndarray, " heads"]
    accuracy: Estimate
    accuracy_of_all: Estimate
    difference: Estimate
    kept_in_folds: Float[np.ndarray, " heads"]
    temperature: float
    tied: Int[np.ndarray, " tied"]
    p: float


def select_heads(
    problem: Problem,
    *,
    keep: int,
    directions: int = 64,
    folds: int = 4,
    seed: int = 0,
    definition: str = "both",
    method: str = "theory",
    permutations: int = 0,
) -> SelectedHeads:
    r"""Select the heads that count most in the order parameter of a network on this attention.

    Values and readout of the network (1) to (4) are learned, so heads are judged by these labels,
    not by an encoder's own values. A head's score is $\sum_{\pi\pi'} |U^{\pi\pi'}|$ over pairs of
    paths through it, see `head_scores`, at the saddle point (11), or of `kernel_weights`; at
    infinite width all scores are equal. Features are principal components of $\xi^\pi$ without their means, see
    `fitted_features`, so columns of the attention should sum to one.

    The accuracy is estimated by cross-validation, with temperature, heads, features and values
    chosen and fitted on the other folds. The heads returned are chosen on all examples.

    Args:
        problem: a `Problem` with a width, such as 10. Without a temperature, that of the largest
            evidence is taken from 0.01, 0.03, .., 3, again for every fold and for the heads kept.
            Its inputs come from `attentioned_inputs`: as a rule an encoder's embedded tokens and its
            attention, all heads in one layer or layer by layer. In one layer the columns
            `(examples, heads, keys)` of the token read out are enough:
            `Problem(np.einsum("ehk,ekd->ehd", columns, inputs), labels, width=10, layers=(heads,))`.
            Labels are +1 or -1, or `(examples, outputs)`, the largest of an example for its class.
        keep: number of heads to keep, of all layers together.
        directions: $N_0$, number of features, or as many as there are.
        folds: number of folds, each with equal shares of the classes.
        seed: of the folds and permutations.
        definition: as in `head_scores`.
        method: "theory", the saddle point at the problem's width; "kernel weights", one weight per
            path by evidence, without a width. With all heads in one layer kernel weights were the
            more accurate on real sentences; the heads that they keep were no better.
        permutations: $n$, of the labels, each of which takes as long as the selection; 19 can give
            $p = 0.05$.

    Returns:
        `SelectedHeads`. Of heads in one layer `divmod(kept, 12)` gives the encoder's layer and head.
        72 heads in one layer and 500 sentences take a minute on one core per temperature.

    Raises:
        ValueError: no `Problem`, labels of another form, numbers out of range, inputs that are the
            same through all heads, or in all examples through one of them.
        NotConverged: as `solve`, if no temperature converged.

    Source: the score is that of Tiberi et al. (2024), section 4.2; selection before training is
    ours.
    """
    checks.choice("method", method, METHODS)
    problem = need_problem(problem, *(("width",) if method == "theory" else ()))
    need_examples(problem, "folds")
    seen, labels = problem.attentioned, np.asarray(problem.labels)
    chain, examples = seen.chain, len(labels)
    checks.labels(labels, examples, signs=labels.ndim == 1, axes=chain.readout.axes)
    keep, folds = checks.whole("keep", keep), checks.whole("folds", folds, 2)
    _check_numbers(chain, keep, folds, examples)
    _check_inputs(seen)
    selection = _Selection(problem, keep, definition, method, checks.whole("directions", directions), folds)
    permutations = checks.whole("permutations", permutations, 0)
    random = np.random.default_rng(checks.whole("seed", seed, 0))
    outputs, times = selection.held_out(seen, labels, random)
    hits = right(outputs, labels)
    hits = np.concatenate([hits, hits[:1] - hits[1:]])
    error = hits.std(axis=1, ddof=1) / math.sqrt(examples)
    as_good = 0
    for _ in range(permutations):
        mixed = labels[random.permutation(examples)]
        as_good += right(selection.held_out(seen, mixed, random)[0][0], mixed).mean() >= hits[0].mean()
    fitted, overlap, _ = selection.fitted(seen, labels)
    scores, removed = selection.selected(fitted, overlap)
    kept = np.setdiff1d(np.arange(len(scores)), removed)
    few, every, apart = (Estimate(hit.mean(), one) for hit, one in zip(hits, error, strict=True))
    return SelectedHeads(
        kept[np.argsort(-scores[kept], kind="stable")],
        scores,
        few,
        every,
        apart,
        times / folds,
        float(fitted.temperature),
        _tied(scores, kept, removed),
        (1 + as_good) / (1 + permutations) if permutations else math.nan,
    )


class _Selection(NamedTuple):
    """The settings that all folds share."""

    problem: Problem
    keep: int
    definition: str
    method: str
    directions: int
    folds: int

    def fitted(self, seen: AttentionedInputs, labels):
        """The problem on training examples, with its temperature, its order parameter, and the features."""
        examples, paths, width = seen.values.shape
        features = fitted_features(seen, min(self.directions, width, examples * paths - 1))
        problem = self.problem.replace(attentioned=features.of(seen), labels=labels)
        if self.method == "theory":
            found = _most_evident(problem)
            return found.problem, found.order_parameter, features
        weighted = kernel_weights(problem)
        return problem.replace(temperature=weighted.temperature), weighted.order_parameter, features

    def selected(self, problem: Problem, order_parameter):
        """Scores of all heads, and the numbers of those that go."""
        scores = np.asarray(head_scores(order_parameter, layers=problem.layers, definition=self.definition))
        return scores, removal_order(scores, layers=problem.layers)[: len(scores) - self.keep]

    def held_out(self, seen: AttentionedInputs, labels, random):
        """Outputs for every example, with the heads kept and with all; in how many folds each head was kept."""
        outputs, times = np.zeros((2, *labels.shape)), np.zeros(sum(seen.chain.heads))
        place = _folds(labels, self.folds, random)
        for fold in range(self.folds):
            learned, rest = np.flatnonzero(place != fold), np.flatnonzero(place == fold)
            train, test = (AttentionedInputs(seen.values[chosen], seen.layers) for chosen in (learned, rest))
            outputs[:, rest], gone = self._predictions(train, test, labels[learned])
            times += ~np.isin(np.arange(len(times)), gone)
        return outputs, times

    def _predictions(self, train: AttentionedInputs, test: AttentionedInputs, labels):
        """Test outputs with the heads that training examples choose and with all; the heads gone."""
        whole, overlap, features = self.fitted(train, labels)
        removed = self.selected(whole, overlap)[1]
        kept = kept_heads(train.layers, removed)
        smaller, fewer, own = self.fitted(train.keep_heads(kept), labels)
        both = (smaller, own.of(test.keep_heads(kept)), fewer), (whole, features.of(test), overlap)
        return np.stack([kernel_regression(one, overlap).predict(test).mean for one, test, overlap in both]), removed


def _folds(labels, folds: int, random) -> Int[np.ndarray, " examples"]:
    """Random folds, with equal shares of every class."""
    order = random.permutation(len(labels))
    classes = labels if labels.ndim == 1 else labels.argmax(axis=1)
    place = np.empty(len(labels), int)
    place[order[np.argsort(classes[order], kind="stable")]] = np.arange(len(labels)) % folds
    return place


def _most_evident(problem: Problem) -> Solution:
    """The saddle point at the problem's temperature, or at that of the largest evidence."""
    if problem.temperature is not None:
        return solve(problem, tolerance=_TOLERANCE)
    options: Any = {"temperatures": TEMPERATURES, "tolerance": _TOLERANCE, "throw": False, "progress": False}
    found = solve_sweep(problem, widths=[problem.width], **options)[0]
    evidence = np.where(found.converged, log_evidence(found), -np.inf)
    best = found[int(np.argmax(evidence))]
    raise_unless_converged(best)
    return best


def _tied(scores, kept, removed) -> Int[np.ndarray, " tied"]:
    """Heads on both sides of the cut whose scores are the same."""
    if not len(removed):
        return np.array([], int)
    equal = np.flatnonzero(np.abs(scores - scores[removed].max()) <= _TIED)
    return equal if np.isin(equal, kept).any() else equal[:0]


def _check_numbers(chain: Chain, keep: int, folds: int, examples: int) -> None:
    fewest, every = sum(layer.fewest for layer in chain.layers), sum(chain.heads)
    if not max(fewest, 1) <= keep <= every:
        raise ValueError(f"keep: wanted {max(fewest, 1)} to {every} heads, one per layer without a skip, got {keep}.")
    if examples < 2 * folds:
        raise ValueError(f"folds: wanted at least two examples in each of {folds} folds, got {examples}.")


def _check_inputs(seen: AttentionedInputs) -> None:
    """Refuse attentioned inputs that tell nothing of an example through some head, or nothing of a head."""
    values = np.asarray(seen.values)
    least = 1e-12 * np.abs(values).max()
    hint = (
        "Under causal attention the first token sees itself alone: pass readout='last' or 'mean' to attentioned_inputs."
    )
    if values.shape[1] > 1 and np.all(np.abs(values - values[:, :1]) <= least):
        raise ValueError(f"problem: wanted attentioned inputs that differ, got the same through all heads. {hint}")
    alike = np.all(np.abs(values - values[:1]) <= least, axis=(0, 2))
    blind = np.flatnonzero(alike @ path_heads(seen.layers) == path_heads(seen.layers).sum(axis=0))
    if len(blind):
        raise ValueError(
            f"problem: wanted attentioned inputs that differ, got the same in all examples through heads "
            f"{blind.tolist()}. {hint} Or leave these heads out."
        )
