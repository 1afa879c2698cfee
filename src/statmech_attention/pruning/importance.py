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
from statmech_attention.theory.scores import DEFINITIONS, head_scores, path_heads

__all__ = [
    "DEFINITIONS",
    "head_confidence",
    "head_scores",
    "normalised_by_layer",
    "path_covariance",
    "taylor_importance",
]


@checks.objects
def path_covariance(attentioned: AttentionedInputs) -> Float[Array, "paths paths"]:
    r"""$B_{\pi\pi'} = \frac{1}{P N_0} \sum_\mu (\xi^\pi_\mu - \bar\xi^\pi) \cdot (\xi^{\pi'}_\mu - \bar\xi^{\pi'})$.

    The size of the centred path-path kernels: the trace of $C_{\pi\pi'}$ over examples, without what all examples have in
    common. A pair of paths weighs $U^{\pi\pi'} B_{\pi\pi'}$ in the kernel (10), so that `head_scores` of this product
    asks what the head does to the kernel, not only to its coefficients.

    Args:
        attentioned: `AttentionedInputs` of at least two examples.

    Returns:
        `(paths, paths)`.

    Raises:
        ValueError: one example alone.
    """
    examples, _, features = attentioned.values.shape
    if examples < 2:
        raise ValueError(f"attentioned: wanted at least two examples, got {examples}.")
    centred = attentioned.values - jnp.mean(attentioned.values, axis=0, keepdims=True)
    return jnp.einsum("epi,eqi->pq", centred, centred) / (examples * features)


def taylor_importance(
    contributions: ArrayLike, labels: ArrayLike, *, layers: Layers, signed: bool = False, bias: float = 0.0
) -> Float[np.ndarray, " heads"]:
    r"""Gradient of the squared error with respect to a gate on a head's output, at gate 1.

    $I_{l,h} = \frac1P \sum_\mu \left| \frac{\partial}{\partial g} (f_\mu - y_\mu)^2 \right|$ with
    $\frac{\partial f_\mu}{\partial g}$ the sum of the contributions of all paths through the head.

    Args:
        contributions: the result of `path_contributions`, `(examples, paths)`, or `(examples, paths, outputs)`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`, over which the squared errors are summed.
        layers: number of heads in every layer.
        signed: instead the rise of the mean squared error to first order when the gate closes,
            $-\frac1P \sum_\mu \partial (f_\mu - y_\mu)^2 / \partial g$.
        bias: of the readout.

    Returns:
        `(all heads,)`.

    Raises:
        ValueError: shapes that do not fit each other, NaN or infinity.

    Source: Michel et al. (2019), with the squared error for their loss.
    """
    contributions, layers = checked_contributions(contributions, layers)
    labels = np.asarray(checks.labels(labels, len(contributions), axes=layers.readout.axes))
    residual = contributions.sum(axis=1) + checks.number("bias", bias) - labels
    through = np.moveaxis(contributions, 1, -1) @ path_heads(layers)
    slope = 2 * (residual[..., None] * through).reshape(len(labels), -1, through.shape[-1]).sum(axis=1)
    return -slope.mean(axis=0) if signed else np.abs(slope).mean(axis=0)


def normalised_by_layer(scores: ArrayLike, *, layers: Layers) -> Float[np.ndarray, " heads"]:
    r"""Scores over the root of the sum of squares of their layer, $I_{l,h} / (\sum_{h'} I_{l,h'}^2)^{1/2}$.

    Args:
        scores: `(all heads,)`, in the order of `head_indices`.
        layers: number of heads in every layer, or layers of other kinds among them.

    Returns:
        `(all heads,)`; those of a layer whose scores are all zero stay zero.

    Raises:
        ValueError: another number of scores than heads, NaN or infinity.

    Source: Michel et al. (2019), who normalise Taylor importance so before they compare heads of different layers.
    """
    scores = np.asarray(checks.array("scores", scores, "heads"))
    layer = head_indices(layers)[:, 0]
    checks.same("scores", "scores", len(scores), "the network's heads", len(layer))
    lengths = np.sqrt(np.bincount(layer, scores**2))
    return scores / np.where(lengths > 0, lengths, 1.0)[layer]


def head_confidence(
    attention: Attention, *, layout: str = "key_query", mask: ArrayLike | None = None
) -> Float[np.ndarray, " heads"]:
    r"""Confidence of a head: the mean over queries and examples of $\max_s \Omega^{(l,h)}_{st}$, without labels.

    Args:
        attention: matrices, one array `(examples, heads, keys, queries)` for every layer that has heads.
        layout: "query_key" for matrices as PyTorch and Hugging Face have them; see `attention_matrices`.
        mask: `(examples, tokens)`, true where there is a token; padding asks for nothing.

    Returns:
        `(all heads,)`, between one over the number of keys and 1.

    Raises:
        ValueError: something else than arrays of that shape, NaN or infinity, another layout than said, a token that attends to
            nothing.

    Source: Voita et al. (2019), section 4, who leave the end-of-sentence token out; there is none here.
    """
    mask = None if mask is None else checks.booleans("mask", mask, "examples tokens")
    matrices = matrices_from("attention", attention, layout, mask)
    for number, layer in enumerate(matrices, start=1):
        check_attending(f"attention of layer {number}", layer, mask)
    largest = [np.asarray(layer).max(axis=2) for layer in matrices]
    # Padding has none, so that a sum over all queries is one over tokens.
    queries = [layer[:, 0].size if mask is None else mask.sum() for layer in largest]
    return np.concatenate([layer.sum(axis=(0, 2)) / count for layer, count in zip(largest, queries, strict=True)])
