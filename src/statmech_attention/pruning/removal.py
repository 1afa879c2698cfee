r"""Cost of removing heads, from the contributions of the paths alone; the network is not run again.

Without some heads the output is $\sum_\pi c^\pi \prod_l g_{l,h_l}$ with the path contributions
$c^\pi$ and $g_{l,h} = \sqrt{H_l / H'_l}$ where head $h$ is one of the $H'_l$ that are left in layer
$l$, 0 where it is not. Along a skip connection the factor is 1.
"""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers, chain
from statmech_attention.model.accuracy import Estimate, right
from statmech_attention.model.network import Weights, path_vectors
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.heads import different_heads, head_indices, path_gates, whole_and_without_each


@checks.objects
def path_contributions(network: Any, attentioned: AttentionedInputs) -> Float[Array, "examples paths *outputs"]:
    r"""Contribution of each path to the output, $v^\pi \cdot \xi^\pi(x)$, the terms of (5).

    Args:
        network: `Weights`, or an object of your own with `vectors_for(attentioned)` and
            `offsets`, which are added.
        attentioned: the attentioned inputs of this network's attention and readout.

    Returns:
        `(examples, paths)`, or `(examples, paths, outputs)`; the sum over paths is the output
        without the readout's bias.

    Raises:
        ValueError: heads or features that do not fit each other, something else than a network.
    """
    if isinstance(network, Weights):
        vectors, offsets = path_vectors(network, attentioned), None
    elif hasattr(network, "vectors_for"):
        vectors, offsets = network.vectors_for(attentioned), network.offsets
    else:
        raise ValueError(f"network: wanted Weights or a trained network, got {type(network).__name__}.")
    contributions = jnp.einsum("epi,p...i->ep...", attentioned.values, vectors)
    return contributions if offsets is None else contributions + jnp.asarray(offsets, contributions.dtype)[None]


def masked_outputs(
    contributions: ArrayLike, kept: ArrayLike, *, layers: Layers, bias: float = 0.0
) -> Float[np.ndarray, "networks examples *outputs"]:
    r"""Outputs of the network with only some of its heads, with the $1/\sqrt{H_l}$ of the heads left.

    Args:
        contributions: of `path_contributions`, `(examples, paths)`, or
            `(examples, paths, outputs)`.
        kept: `(networks, all heads)` booleans; a layer without heads lets nothing through.
        layers: number of heads in every layer.
        bias: of the readout, unchanged by the removal.

    Returns:
        `(networks, examples)`, or `(networks, examples, outputs)`.
    """
    contributions, layers = checked_contributions(contributions, layers)
    kept = checks.known("kept", kept, "networks heads", bool)
    checks.same("kept", "columns", kept.shape[1], "the network's heads", sum(layers.heads))
    return _gated(contributions, layers, kept, bias)


def head_drops(contributions: ArrayLike, labels: ArrayLike, *, layers: Layers, bias: float = 0.0) -> Estimate:
    """Drop of the accuracy when one head is removed, for every head.

    Args:
        contributions, layers, bias: as in `masked_outputs`.
        labels: `(examples,)`, +1 or -1; or `(examples, outputs)`, the largest of an example for its
            class.

    Returns:
        `Estimate`, each `(all heads,)`; positive for a useful head. Without the only head of a
        layer all outputs are zero and the accuracy is 1/2, or one over the number of outputs.

    Raises:
        ValueError: as `masked_outputs`, or labels other than +1 and -1.
    """
    contributions, layers = checked_contributions(contributions, layers)
    labels = _labels(labels, len(contributions), layers)
    hits = right(_gated(contributions, layers, whole_and_without_each(layers), bias), labels)
    return _estimate(hits[:1] - hits[1:])


def removal_order(scores: ArrayLike, *, layers: Layers) -> Int[np.ndarray, " removals"]:
    """Order of removal by increasing score, the first of equal scores first, but no layer's last head.

    Args:
        scores: `(all heads,)`.
        layers: number of heads in every layer.

    Returns:
        Numbers of heads: all but one of every layer, and all of a layer with a skip.
    """
    layers = chain(layers)
    scores = np.asarray(checks.array("scores", scores, "heads"))
    checks.same("scores", "scores", len(scores), "the network's heads", sum(layers.heads))
    layer, left, order = head_indices(layers)[:, 0], list(layers.heads), []
    for number in np.argsort(scores, kind="stable"):
        if left[layer[number]] > layers.layers[layer[number]].fewest:
            left[layer[number]] -= 1
            order.append(number)
    return np.array(order, int)


def pruning_curve(
    contributions: ArrayLike, labels: ArrayLike, order: ArrayLike | Sequence[int], *, layers: Layers, bias: float = 0.0
) -> Estimate:
    """Accuracy against the number of heads removed.

    Args:
        contributions, labels, layers, bias: as in `head_drops`.
        order: numbers of heads, the first to go first.

    Returns:
        `Estimate`, each `(removals + 1,)`, the whole network first.

    Raises:
        ValueError: as `head_drops`; a head that is not there or named twice.
    """
    contributions, layers = checked_contributions(contributions, layers)
    labels, removed = _labels(labels, len(contributions), layers), different_heads("order", order, layers)
    kept = np.ones((len(removed) + 1, sum(layers.heads)), bool)
    for removals, number in enumerate(removed, start=1):
        kept[removals:, number] = False
    return _estimate(right(_gated(contributions, layers, kept, bias), labels))


def _gated(contributions, layers, kept, bias: float) -> Float[np.ndarray, "networks examples *outputs"]:
    return np.tensordot(path_gates(layers, kept), contributions, axes=(1, 1)) + checks.number("bias", bias)


def _estimate(samples: Float[np.ndarray, "... examples"]) -> Estimate:
    count = samples.shape[-1]
    spread = samples.std(axis=-1, ddof=1) if count > 1 else np.full(samples.shape[:-1], np.nan)
    return Estimate(samples.mean(axis=-1), spread / math.sqrt(count))


def checked_contributions(contributions, layers) -> tuple[Float[np.ndarray, "..."], Chain]:
    """Contributions `(examples, paths)`, or with an axis of outputs, and the chain of layers."""
    layers = chain(layers)
    axes = "examples paths outputs" if layers.readout.axes else "examples paths"
    contributions = checks.array("contributions", contributions, axes, double=True)
    paths = f"the paths of layers={layers.spelled}"
    checks.same("contributions", "the paths axis", contributions.shape[1], paths, layers.paths)
    if layers.readout.axes:
        outputs = contributions.shape[2]
        checks.same("contributions", "the outputs axis", outputs, "the network's outputs", layers.outputs)
    return np.asarray(contributions), layers


def _labels(labels, examples: int, layers: Chain):
    axes = layers.readout.axes
    return np.asarray(checks.labels(labels, examples, signs=not axes, axes=axes))
