"""Selection of an encoder's heads from its attention matrices and labelled examples alone."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.layers.chains import Chain
from statmech_attention.model.accuracy import Estimate, right
from statmech_attention.model.features import fitted_features
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.heads import kept_heads, removal_order
from statmech_attention.theory.kernel_weights import kernel_weights
from statmech_attention.theory.predictor import predict
from statmech_attention.theory.problem import Problem, need_examples, need_problem
from statmech_attention.theory.saddle_point import solve
from statmech_attention.theory.scores import head_scores

METHODS = ("theory", "kernel weights")
_TOLERANCE = 1e-5  # of the action's gradient: scores of real heads were right to seven digits then


class SelectedHeads(NamedTuple):
    """Heads to keep, and the accuracy to expect of them.

    Attributes:
        kept: their numbers, counted through the network as in `head_indices`, the highest score
            first.
        scores: of all heads, the largest 1.
        accuracy: with the heads kept and values refitted, on examples used neither to choose nor to
            fit.
        accuracy_of_all: the same with all heads.
        difference: `accuracy` minus `accuracy_of_all`, paired: both are of the same examples.
        kept_in_folds: share of the folds in which each head was kept, `(all heads,)`.
    """

    kept: Int[np.ndarray, " kept"]
    scores: Float[np.ndarray, " heads"]
    accuracy: Estimate
    accuracy_of_all: Estimate
    difference: Estimate
    kept_in_folds: Float[np.ndarray, " heads"]


def select_heads(
    problem: Problem,
    *,
    keep: int,
    directions: int = 64,
    folds: int = 4,
    seed: int = 0,
    definition: str = "both",
    method: str = "theory",
) -> SelectedHeads:
    r"""Select the heads that count most in the order parameter of a network on this attention.

    Values and readout of the network (1) to (4) are learned, so heads are judged by these labels,
    not by an encoder's own values. A head's score is $\sum_{\pi\pi'} |U^{\pi\pi'}|$ over pairs of
    paths through it, see `head_scores`, at the saddle point (11), or of `kernel_weights`; at
    infinite width all scores are equal. Features are principal components of $\xi^\pi$ without their means, see
    `fitted_features`, so columns of the attention should sum to one.

    The accuracy is estimated by cross-validation, with heads, features and values fitted on the
    other folds. The heads returned are chosen on all examples.

    Args:
        problem: a `Problem` with width and temperature, such as 10 and 0.1. Its inputs come from
            `attentioned_inputs`: as a rule an encoder's embedded tokens and its attention, all
            heads in one layer or layer by layer. Labels are +1 or -1, or `(examples, outputs)`, the
            largest of an example for its class.
        keep: number of heads to keep, of all layers together.
        directions: $N_0$, number of features, or as many as there are.
        folds: number of folds.
        seed: of the folds.
        definition: as in `head_scores`.
        method: "theory", the saddle point at the problem's width and temperature; "kernel weights",
            one weight per path and the temperature of the largest evidence, without a width.

    Returns:
        `SelectedHeads`. 72 heads in one layer and 500 sentences of 33 tokens took 51 s on one core.
        Of heads in one layer `divmod(kept, 12)` gives the encoder's layer and head.

    Raises:
        ValueError: no `Problem`, labels of another form, numbers out of range, inputs that are the
            same in all examples or seen through all heads.
        NotConverged: as `solve`; try a higher temperature.

    Source: the score is that of Tiberi et al. (2024), section 4.2; selection before training is
    ours.
    """
    checks.choice("method", method, METHODS)
    problem = need_problem(problem, *(("width", "temperature") if method == "theory" else ()))
    need_examples(problem, "folds")
    seen, labels = problem.attentioned, np.asarray(problem.labels)
    chain, examples = seen.chain, len(labels)
    checks.labels(labels, examples, signs=labels.ndim == 1, axes=chain.readout.axes)
    keep, folds = checks.whole("keep", keep), checks.whole("folds", folds, 2)
    _check_numbers(chain, keep, folds, examples)
    _check_inputs(np.asarray(seen.values))
    selection = _Selection(problem, keep, definition, method, checks.whole("directions", directions))

    place = np.random.default_rng(checks.whole("seed", seed, 0)).permutation(examples) % folds
    outputs, times = np.zeros((2, *labels.shape)), np.zeros(sum(chain.heads))
    for fold in range(folds):
        learned, held_out = np.flatnonzero(place != fold), np.flatnonzero(place == fold)
        train, test = (AttentionedInputs(seen.values[chosen], seen.layers) for chosen in (learned, held_out))
        outputs[:, held_out], nearby, gone = selection.predictions(train, test, labels[learned])
        times += ~np.isin(np.arange(len(times)), gone)
    hits = right(outputs, labels)
    hits = np.concatenate([hits, hits[:1] - hits[1:]])
    error = hits.std(axis=1, ddof=1) / math.sqrt(examples)
    scores, removed = selection.selected(*selection.fitted(seen, labels, nearby)[:2])
    kept = np.setdiff1d(np.arange(len(scores)), removed)
    few, every, apart = (Estimate(hit.mean(), one) for hit, one in zip(hits, error, strict=True))
    return SelectedHeads(
        kept[np.argsort(-scores[kept], kind="stable")],
        scores,
        few,
        every,
        apart,
        times / folds,
    )


class _Selection(NamedTuple):
    """The settings that all folds share."""

    problem: Problem
    keep: int
    definition: str
    method: str
    directions: int

    def fitted(self, seen: AttentionedInputs, labels, start=None):
        """The problem on training examples, its order parameter, all of them to start from, and the features."""
        examples, paths, width = seen.values.shape
        features = fitted_features(seen, min(self.directions, width, examples * paths - 1))
        problem = self.problem.replace(attentioned=features.of(seen), labels=labels)
        if self.method == "theory":
            found = solve(problem, start=start, tolerance=_TOLERANCE)
            return problem, found.order_parameter, found.order_parameters, features
        weighted = kernel_weights(problem.replace(temperature=None))
        return problem.replace(temperature=weighted.temperature), weighted.order_parameter, None, features

    def selected(self, problem: Problem, order_parameter):
        """Scores of all heads, and the numbers of those that go."""
        scores = np.asarray(head_scores(order_parameter, layers=problem.layers, definition=self.definition))
        return scores, removal_order(scores, layers=problem.layers)[: len(scores) - self.keep]

    def predictions(self, train: AttentionedInputs, test: AttentionedInputs, labels):
        """Test outputs with the heads that training examples choose and with all; order parameters; heads gone."""
        whole, overlap, start, features = self.fitted(train, labels)
        removed = self.selected(whole, overlap)[1]
        kept = kept_heads(train.layers, removed)
        smaller, fewer, _, own = self.fitted(train.keep_heads(kept), labels)
        both = (smaller, own.of(test.keep_heads(kept)), fewer), (whole, features.of(test), overlap)
        return np.stack([predict(*one).mean for one in both]), start, removed


def _check_numbers(chain: Chain, keep: int, folds: int, examples: int) -> None:
    fewest, every = sum(layer.fewest for layer in chain.layers), sum(chain.heads)
    if not max(fewest, 1) <= keep <= every:
        raise ValueError(f"keep: wanted {max(fewest, 1)} to {every} heads, one per layer without a skip, got {keep}.")
    if examples < 2 * folds:
        raise ValueError(f"folds: wanted at least two examples in each of {folds} folds, got {examples}.")


def _check_inputs(values) -> None:
    """Refuse attentioned inputs that tell nothing of an example, or nothing of a head."""
    alike = [("in all examples", values[:1])] + [("through all heads", values[:, :1])] * (values.shape[1] > 1)
    for where, one in alike:
        if np.all(np.abs(values - one) <= 1e-12 * np.abs(values).max()):
            raise ValueError(
                f"problem: wanted attentioned inputs that differ, got the same {where}. Under causal attention the "
                "first token sees itself alone: pass readout='last' or 'mean' to attentioned_inputs."
            )
