r"""An encoder like BERT, layer by layer.

Post-norm. Layer $l$ takes tokens $x_t$ to

    x'_t = n( x_t + W_o [ sum_s v^h_s Omega^h_{st} ]_h + b_o ),    Omega^h_{st} = softmax_s( k^h_s . q^h_t / sqrt(d) )
    x''_t = n'( x'_t + W_2 (g_t * u_t) + b_2 ),                    u_t = W_1 x'_t + b_1,   g_t = Phi(u_t)

with $n(x) = \gamma\, r\,(x - \bar x) + \beta$, $r = (\mathrm{Var}\,x + \epsilon)^{-1/2}$, and gelu
written as a gate: $u\,\Phi(u)$. For fixed attention $\Omega$, scales $r$ and gates $g$ all of it is
linear in $x$, up to constants.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


class Affine(NamedTuple):
    """A matrix, outputs before inputs, and a bias; or the gain and the bias of a norm."""

    weight: Float[Array, "..."]
    bias: Float[Array, "..."]


class LayerWeights(NamedTuple):
    """Weights of all layers, each array with the layers in front."""

    query: Affine
    key: Affine
    value: Affine
    output: Affine
    attention_norm: Affine
    inner: Affine
    outer: Affine
    output_norm: Affine


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Encoder:
    """Weights and settings of an encoder like BERT."""

    words: Float[Array, "vocabulary width"]
    positions: Float[Array, "positions width"]
    kind: Float[Array, " width"]  # added to all tokens; BERT adds another vector to the second of two sentences
    norm: Affine  # of the embedding layer
    layers: LayerWeights
    heads: int = field(metadata={"static": True})  # per layer, before any is removed
    epsilon: float = field(metadata={"static": True})  # added to the variance in a norm

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.layers.query.weight)


def embedded(encoder: Encoder, ids: Int[Array, "examples tokens"]) -> Float[Array, "examples tokens width"]:
    """Return the embedding layer's output: the sum of words and positions, normalised."""
    together = encoder.words[ids] + encoder.positions[None, : ids.shape[1]] + encoder.kind[None, None]
    return _norm(encoder.norm, together, encoder.epsilon)[0]


def through_layers(
    encoder: Encoder,
    embeddings: Float[Array, "examples tokens width"],
    mask: Bool[Array, "examples tokens"],
    head_gates: Float[Array, "layers heads"] | None = None,
) -> tuple[
    Float[Array, "layers examples tokens width"],
    Float[Array, "layers examples heads tokens tokens"],
    Float[Array, "layers examples 2 tokens"],
    Float[Array, "layers examples tokens width"],
]:
    """Return outputs, attention (key before query), scales of both norms and inputs of the blocks, of all layers."""

    def layer(hidden, given):
        hidden, *others = _layer(encoder, *given, hidden, mask)
        return hidden, (hidden, *others)

    return jax.lax.scan(layer, embeddings, (encoder.layers, head_gates))[1]


def mean_token(
    hidden: Float[Array, "examples tokens width"], mask: Bool[Array, "examples tokens"]
) -> Float[Array, "examples width"]:
    """Return the mean over a sentence's tokens, scaled to length 1."""
    counted = mask.astype(hidden.dtype)[..., None]
    mean = jnp.sum(hidden * counted, axis=1) / jnp.sum(counted, axis=1)
    return mean / jnp.linalg.norm(mean, axis=-1, keepdims=True)


def _layer(encoder, weights, head_gates, hidden, mask):
    size = hidden.shape[-1] // encoder.heads  # of a head, of which some may have been removed
    query, key, value = (_heads(_affine(each, hidden), size) for each in (weights.query, weights.key, weights.value))
    attention = _attention(query, key, mask)
    context = jnp.einsum("eshd,ehst->ethd", value, attention)
    if head_gates is not None:
        context = context * head_gates[None, None, :, None]
    heads_out = _affine(weights.output, context.reshape(*hidden.shape[:2], -1))
    middle, before = _norm(weights.attention_norm, hidden + heads_out, encoder.epsilon)
    units = _affine(weights.inner, middle)
    block_out = _affine(weights.outer, jax.scipy.stats.norm.cdf(units) * units)
    hidden, after = _norm(weights.output_norm, middle + block_out, encoder.epsilon)
    return hidden, attention, jnp.stack([before, after], axis=1), middle


def unit_gates(inner: Affine, middle: Float[Array | np.ndarray, "*batch width"]) -> Float[Array, "*batch units"]:
    r"""Gates $\Phi(u)$ of a block's units, from what enters it."""
    return jax.scipy.stats.norm.cdf(middle @ inner.weight.T + inner.bias)


def _attention(query, key, mask):
    logits = jnp.einsum("eshd,ethd->ehst", key, query) / query.shape[-1] ** 0.5
    return jax.nn.softmax(jnp.where(mask[:, None, :, None], logits, -jnp.inf), axis=-2)


def _heads(values, size: int):
    return values.reshape(*values.shape[:2], values.shape[2] // size, size)


def _affine(affine: Affine, values):
    return values @ affine.weight.T + affine.bias[None, None]


def _norm(norm: Affine, values, epsilon: float):
    """Return normalised tokens, and the scale of each."""
    centred = values - jnp.mean(values, axis=-1, keepdims=True)
    scale = jax.lax.rsqrt(jnp.mean(centred**2, axis=-1) + epsilon)
    return norm.weight[None, None] * (scale[..., None] * centred) + norm.bias[None, None], scale
