"""Importance of heads: the score of section 4.2 of Tiberi et al. (2024), and scores of other authors."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.model.attention import Attention
from statmech_attention.model.layouts import check_attending, matrices_from
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.heads import head_indices
from statmech_attention.pruning.removal import checked_contributions
from statmech_attention.theory.scores import path_heads


@checks.objects
def path_covariance(attentioned: AttentionedInputs) -> Float[Array, "paths paths"]:
    r"""$B_{\pi\pi'} = \frac{1}{P N_0} \sum_\mu (\xi^\pi_\mu - \bar\xi^\pi) \cdot (\xi^{\pi'}_\mu - \bar\xi^{\pi'})$.

    The trace of the centred path-path kernels over examples. A pair of paths weighs
    $U^{\pi\pi'} B_{\pi\pi'}$ in the kernel (10), so that `head_scores` of this product measures a
    head's effect on the kernel.

    Args:
        attentioned: `AttentionedInputs` of at least two examples.

    Returns:
        `(paths, paths)`.

    Raises:
        ValueError: a single example.
    """
    examples, _, features = attentioned.values.shape
    if examples < 2:
        raise ValueError(f"attentioned: wanted at least two examples, got {examples}.")
    centred = attentioned.values - jnp.mean(attentioned.values, axis=0, keepdims=True)
    return jnp.einsum("epi,eqi->pq", centred, centred) / (examples * features)


def taylor_importance(
    contributions: ArrayLike, labels: ArrayLike, *, layers: Layers, signed: bool = False, bias: float = 0.0
) -> Float[np.ndarray, " heads"]:
    r"""$I_{l,h} = \frac1P \sum_\mu | \partial (f_\mu - y_\mu)^2 / \partial g |$ with a gate $g$ on a head's output, at $g = 1$.

    $\partial f_\mu / \partial g$ is the sum of the contributions of all paths through the head.

    Args:
        contributions: as in `masked_outputs`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`, over which the squared errors are
            summed.
        layers: number of heads in every layer.
        signed: return $-\frac1P \sum_\mu \partial (f_\mu - y_\mu)^2 / \partial g$ instead, the rise
            of the error to first order when the gate closes.
        bias: of the readout.

    Returns:
        `(all heads,)`.

    Source: Michel et al. (2019), with the squared error for their loss.
    """
    contributions, layers = checked_contributions(contributions, layers)
    labels = np.asarray(checks.labels(labels, len(contributions), axes=layers.readout.axes))
    residual = contributions.sum(axis=1) + checks.number("bias", bias) - labels
    through = np.moveaxis(contributions, 1, -1) @ path_heads(layers)
    slope = 2 * (residual[..., None] * through).reshape(len(labels), -1, through.shape[-1]).sum(axis=1)
    return -slope.mean(axis=0) if signed else np.abs(slope).mean(axis=0)


def normalised_by_layer(scores: ArrayLike, *, layers: Layers) -> Float[np.ndarray, " heads"]:
    r"""Scores normalised within each layer, $I_{l,h} / (\sum_{h'} I_{l,h'}^2)^{1/2}$.

    Args:
        scores: `(all heads,)`, in the order of `head_indices`.
        layers: number of heads in every layer.

    Returns:
        `(all heads,)`; scores of a layer that are all zero stay zero.

    Source: Michel et al. (2019), for Taylor importance.
    """
    scores = np.asarray(checks.array("scores", scores, "heads"))
    layer = head_indices(layers)[:, 0]
    checks.same("scores", "scores", len(scores), "the network's heads", len(layer))
    lengths = np.sqrt(np.bincount(layer, scores**2))
    return scores / np.where(lengths > 0, lengths, 1.0)[layer]


def head_confidence(
    attention: Attention, *, layout: str = "key_query", mask: ArrayLike | None = None
) -> Float[np.ndarray, " heads"]:
    r"""The mean over queries and examples of a head's largest attention weight, $\max_s \Omega^{(l,h)}_{st}$.

    Args:
        attention: one array `(examples, heads, keys, queries)` for every layer with heads.
        layout: as in `attention_matrices`.
        mask: `(examples, tokens)`, true for a token; queries on padding do not count.

    Returns:
        `(all heads,)`, between one over the number of keys and 1.

    Raises:
        ValueError: other shapes, NaN or infinity, another layout, a token that attends to nothing.

    Source: Voita et al. (2019), section 4, who leave the end-of-sentence token out.
    """
    mask = None if mask is None else checks.known("mask", mask, "examples tokens", bool)
    matrices = matrices_from("attention", attention, layout, mask)
    for number, layer in enumerate(matrices, start=1):
        check_attending(f"attention of layer {number}", layer, mask)
    largest = [np.asarray(layer).max(axis=2) for layer in matrices]
    # Padding has none, so that a sum over all queries is one over tokens.
    queries = [layer[:, 0].size if mask is None else mask.sum() for layer in largest]
    return np.concatenate([layer.sum(axis=(0, 2)) / count for layer, count in zip(largest, queries, strict=True)])
