r"""Attention of compact tokens, cheap to differentiate with respect to queries and keys.

A token is $x_t = u_t \otimes 1_3 + c_t + y_1 g_t \delta$, and so lies in the span of a few known
vectors: logits need products of patches with small matrices and tables that depend on position and
$y_1$ alone.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from attention_book.one_shot.sequences import CHANNELS, CompactTokens


def matrices(
    queries: Float[Array, "heads dimension features"],
    keys: Float[Array, "heads dimension features"],
    compact: CompactTokens,
    flat: Float[Array, "rows pixels"],
    phases: Float[Array, "examples 2"],
    label: Float[Array, "examples tokens"],
) -> Float[Array, "examples tokens heads tokens"]:
    """Attention matrices of a layer, query before head before key."""
    products = _products(queries, keys, compact)
    pixels = flat.shape[1]

    def part(first, end):
        # Query's side of the logits, for some of the spanning vectors on the key's side.
        chosen = products[:, :, first:end]
        table = jnp.stack([chosen[pixels:-1], compact.signs[:, None, None] * chosen[-1:]])
        return affine(flat, phases, chosen[:pixels].reshape(pixels, -1), table.reshape(2, -1))

    parts = part(0, pixels), part(pixels, -1), part(-1, None)
    return _attend(*parts, flat.reshape(*label.shape, pixels), label)


def over_channels(rows: Float[Array, "*rows features"]) -> Float[Array, "*rows pixels"]:
    """Sum over the channels, in which a token's patch is the same."""
    return jnp.sum(rows.reshape(*rows.shape[:-1], -1, CHANNELS), axis=-1)


@jax.custom_vjp
def affine(
    flat: Float[Array, "rows pixels"],
    phases: Float[Array, "examples 2"],
    matrix: Float[Array, "pixels columns"],
    table: Float[Array, "2 entries"],
) -> Float[Array, "rows columns"]:
    """Patches times a matrix, plus a table over tokens, plus another one times $y_1$."""
    return flat @ matrix + (phases @ table).reshape(flat.shape[0], -1)


def _affine_forward(flat, phases, matrix, table):
    return affine(flat, phases, matrix, table), (flat, phases)


def _affine_backward(saved, change):
    # Sums over examples as matrix products, in this orientation: three times as fast on CPUs as what JAX derives.
    flat, phases = saved
    return None, None, flat.T @ change, phases.T @ change.reshape(len(phases), -1)


affine.defvjp(_affine_forward, _affine_backward)


def _products(
    queries: Float[Array, "heads dimension features"],
    keys: Float[Array, "heads dimension features"],
    compact: CompactTokens,
) -> Float[Array, "vectors heads vectors"]:
    r"""$W^{(l,h)}$ between the spanning vectors (pixels, $c_t$, $\delta$): query, head, key."""
    constants = jnp.concatenate([compact.constants, compact.difference[None]])
    queries, keys = (
        jnp.concatenate([over_channels(rows), jnp.einsum("hgi,ci->hgc", rows, constants)], axis=-1)
        for rows in (queries, keys)
    )
    return jnp.einsum("hgj,hgi->jhi", queries, keys) / math.sqrt(queries.shape[1])


@jax.custom_vjp
def _attend(
    by_patch: Float[Array, "rows _patch_columns"],
    by_position: Float[Array, "rows _position_columns"],
    by_label: Float[Array, "rows heads"],
    patches: Float[Array, "examples tokens pixels"],
    label: Float[Array, "examples tokens"],
) -> Float[Array, "examples tokens heads tokens"]:
    """Attention matrices of all heads, query before head before key: softmax over the last axis."""
    examples, tokens, pixels = patches.shape
    logits = jnp.einsum("exi,esi->exs", by_patch.reshape(examples, -1, pixels), patches)
    shape = (examples, tokens, by_label.shape[1], tokens)
    logits = logits.reshape(shape) + by_position.reshape(shape)
    return jax.nn.softmax(logits + by_label.reshape(*shape[:3], 1) * label[:, None, None, :], axis=-1)


def _attend_forward(by_patch, by_position, by_label, patches, label):
    attention = _attend(by_patch, by_position, by_label, patches, label)
    return attention, (attention, patches, label)


def _attend_backward(saved, change):
    attention, patches, label = saved
    examples, tokens, count = attention.shape[:3]
    logits = attention * (change - jnp.sum(attention * change, axis=-1, keepdims=True))
    logits = logits.reshape(examples, tokens * count, tokens)
    by_patch = jnp.einsum("exs,esi->exi", logits, patches)
    by_label = jnp.einsum("exs,es->ex", logits, label)
    rows = examples * tokens
    return by_patch.reshape(rows, -1), logits.reshape(rows, -1), by_label.reshape(rows, -1), None, None


_attend.defvjp(_attend_forward, _attend_backward)
