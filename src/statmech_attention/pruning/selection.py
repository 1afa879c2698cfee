"""Which heads to keep of an encoder of one's own, from its attention matrices and labelled examples alone."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.arguments import Attention, Layers, Number, Numbers, PerLayer, Readouts
from statmech_attention.layers.chains import Chain
from statmech_attention.layers.outputs import Outputs
from statmech_attention.model.accuracy import Estimate, right
from statmech_attention.model.features import fitted_features
from statmech_attention.model.layouts import matrices_from
from statmech_attention.model.padding import padded
from statmech_attention.model.paths import AttentionedInputs, attentioned_inputs
from statmech_attention.pruning.heads import kept_heads
from statmech_attention.pruning.importance import head_scores
from statmech_attention.pruning.removal import removal_order
from statmech_attention.theory.saddle_point import solve

_TOLERANCE = 1e-5  # of the action's gradient: scores of real heads were right to seven digits then


class SelectedHeads(NamedTuple):
    """Heads to keep, and what to expect of them.

    Attributes:
        kept: their numbers, counted through the network as in `head_indices`, the highest score first.
        scores: of all heads, the largest 1.
        accuracy: with the heads kept, values learned anew, on examples that neither chose them nor were learned from.
        accuracy_of_all: the same with all heads.
    """

    kept: Int[np.ndarray, " kept"]
    scores: Float[np.ndarray, " heads"]
    accuracy: Estimate
    accuracy_of_all: Estimate


def select_heads(
    inputs: Numbers,
    attention: Attention,
    labels: Numbers,
    *,
    width: PerLayer = 10,
    temperature: Number | Sequence[Number] = 0.1,
    layers: Layers | None = None,
    readout: Readouts = "first",
    seed: int = 0,
    keep: int,
    directions: int = 64,
    folds: int = 4,
    definition: str = "both",
    layout: str = "key_query",
    mask: Numbers | None = None,
) -> SelectedHeads:
    r"""The heads that count most in the order parameter of a network of finite width on this attention.

    The network is (1) to (4), with the tokens and the attention matrices given here: values and readout are what the theory
    learns, so that the question is which heads serve these labels, not which ones the encoder's own values use. A head's
    score is $\sum_{\pi\pi'} |U^{\pi\pi'}|$ over pairs of paths through it, see `head_scores`, at the saddle point (11). At infinite
    width all heads have the same. Features are principal components of $\xi^\pi$, scaled so that width and temperature mean
    the same everywhere, see `fitted_features`.

    The accuracy is that of examples held out: they are dealt into folds, and for each of these heads are chosen, features
    fitted and values learned on the others alone. The heads returned are chosen on all examples.

    Args:
        inputs: `(examples, tokens, features)`, the tokens that enter: as a rule the output of the encoder's embedding layer.
        attention: one array `(examples, heads, keys, queries)` for every layer of the network, columns summing to one; all
            heads of an encoder may stand side by side in one layer.
        labels: `(examples,)`, +1 or -1; or `(examples, outputs)`, the largest of an example that of its class.
        width: $N$, see `solve`.
        temperature: $T$.
        layers: layers, where they are not of heads alone, as in `(SkipHeads(12), SkipHeads(12))`.
        readout: the token read out, as for `attentioned_inputs`.
        seed: of the deal.
        keep: how many heads to keep, of all layers together.
        directions: $N_0$, number of features; as many as there are where these are fewer.
        folds: how many parts the examples are dealt into.
        definition: which pairs of paths count, as for `head_scores`.
        layout: "query_key" for attention `(examples, heads, queries, keys)`, as PyTorch and Hugging Face have it.
        mask: `(examples, tokens)`, true where there is a token, false on padding; see `attention_matrices`.

    Returns:
        `SelectedHeads`. 72 heads in one layer and 500 sentences of 33 tokens took 51 s on one core. Of heads side by side
        `divmod(kept, 12)` says the encoder's layer and head.

    Raises:
        ValueError: shapes that do not fit, labels of another form, columns of attention that do not sum to one, numbers out
            of range.
        NotConverged: as `solve`; try a higher temperature.

    Source: the score is that of Tiberi et al. (2024), section 4.2; ours is to select by it before training.
    """
    inputs, mask = padded(inputs, mask)
    # Else a shift of the inputs would not be one of what is seen of them.
    attention = matrices_from("attention", attention, layout, mask, softmax=True)
    labels = checks.known("labels", labels, "examples outputs" if checks.axes(labels) == 2 else "examples")
    if layers is None and labels.ndim == 2:
        layers = (*(layer.shape[1] for layer in attention), Outputs(labels.shape[1]))
    seen = attentioned_inputs(inputs, attention, readout=readout, layers=layers, mask=mask)
    chain, examples = seen.chain, len(seen.values)
    labels = np.asarray(checks.labels(labels, examples, signs=labels.ndim == 1, axes=chain.readout.axes))
    keep, folds = checks.whole("keep", keep), checks.whole("folds", folds, 2)
    _check_numbers(chain, keep, folds, examples)
    problem = _Problem(
        keep, definition, checks.whole("directions", directions), {"width": width, "temperature": temperature}
    )

    place = np.random.default_rng(checks.whole("seed", seed, 0)).permutation(examples) % folds
    outputs = np.zeros((2, *labels.shape))
    for fold in range(folds):
        learned, held_out = np.flatnonzero(place != fold), np.flatnonzero(place == fold)
        train, test = (AttentionedInputs(seen.values[chosen], seen.layers) for chosen in (learned, held_out))
        outputs[:, held_out], nearby = problem.predictions(train, test, labels[learned])
    hits = right(outputs, labels)
    error = hits.std(axis=1, ddof=1) / math.sqrt(examples)
    scores, removed = problem.selected(problem.solution(seen, labels, nearby)[0])
    kept = np.setdiff1d(np.arange(len(scores)), removed)
    return SelectedHeads(
        kept[np.argsort(-scores[kept], kind="stable")],
        scores,
        Estimate(hits[0].mean(), error[0]),
        Estimate(hits[1].mean(), error[1]),
    )


class _Problem(NamedTuple):
    """What is the same for all folds."""

    keep: int
    definition: str
    directions: int
    options: dict

    def solution(self, seen: AttentionedInputs, labels, start=None):
        """The theory on training examples, and the features that they are given in."""
        examples, paths, width = seen.values.shape
        features = fitted_features(seen, min(self.directions, width, examples * paths - 1))
        return solve(features.of(seen), labels, start=start, tolerance=_TOLERANCE, **self.options), features

    def selected(self, solution):
        """Scores of all heads, and the numbers of those that go."""
        heads = solution.attentioned.layers
        scores = np.asarray(head_scores(solution.order_parameter, layers=heads, definition=self.definition))
        return scores, removal_order(scores, layers=heads)[: len(scores) - self.keep]

    def predictions(self, train: AttentionedInputs, test: AttentionedInputs, labels):
        """Outputs on test examples with the heads that the training examples choose and with all, and the order parameters."""
        whole, features = self.solution(train, labels)
        kept = kept_heads(train.layers, self.selected(whole)[1])
        smaller, fewer = self.solution(train.keep_heads(kept), labels)
        pairs = ((smaller, fewer.of(test.keep_heads(kept))), (whole, features.of(test)))
        return np.stack([solution.predict(inputs).mean for solution, inputs in pairs]), whole.order_parameters


def _check_numbers(chain: Chain, keep: int, folds: int, examples: int) -> None:
    fewest, every = sum(layer.fewest for layer in chain.layers), sum(chain.heads)
    if not max(fewest, 1) <= keep <= every:
        raise ValueError(
            f"keep: wanted {max(fewest, 1)} to {every} heads, one at least of every layer without a skip, got {keep}."
        )
    if examples < 2 * folds:
        raise ValueError(
            f"folds: wanted at least two examples in each of {folds} folds, got {examples} examples in all."
        )
