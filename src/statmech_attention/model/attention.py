"""Attention as a function of the inputs: from queries and keys, or from their products.

Equation (3). An attention matrix has a key on its first and a query on its second axis,
and its columns sum to one. Attention acts on the bare input in every layer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float, Int

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.model.layouts import attention_layers, without_padding
from statmech_attention.model.padding import padded


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ProductAttention:
    r"""$\Omega_{st} = \mathrm{softmax}_s(x_s^\top W x_t)$, the result of `attention_from_products`.

    Call it on inputs `(examples, tokens, features)`, and on a mask if there is padding, for one
    array `(examples, heads, keys, queries)` per layer. With `read`, indices of tokens, the last
    layer's array is computed for these queries alone and zero for the others.
    """

    products: tuple[Float[Array, "_heads features features"], ...]
    mask: Bool[Array, "tokens tokens"] | None = None
    bias: tuple[Float[Array, "_heads tokens tokens"], ...] | None = None

    def __call__(
        self, inputs: ArrayLike, *, mask: ArrayLike | None = None, read: Int[np.ndarray, " _queries"] | None = None
    ) -> tuple[Float[Array, "examples _heads tokens tokens"], ...]:
        inputs, mask = padded(inputs, mask)
        checks.record("attention", self)
        _check_inputs(inputs, self, self.products)
        return _off_padding(_finite(_of_products(self, inputs, _allowed(self.mask, mask), read)), mask)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class QueryKeyAttention:
    r"""$\Omega_{st} = \mathrm{softmax}_s(K x_s \cdot Q x_t / \sqrt G)$, (3), the result of
    `attention_from_queries_and_keys`.

    Call it as `ProductAttention`.
    """

    queries: tuple[Float[Array, "_heads _dimension features"], ...]
    keys: tuple[Float[Array, "_heads _dimension features"], ...]
    mask: Bool[Array, "tokens tokens"] | None = None
    bias: tuple[Float[Array, "_heads tokens tokens"], ...] | None = None

    def __call__(
        self, inputs: ArrayLike, *, mask: ArrayLike | None = None, read: Int[np.ndarray, " _queries"] | None = None
    ) -> tuple[Float[Array, "examples _heads tokens tokens"], ...]:
        inputs, mask = padded(inputs, mask)
        checks.record("attention", self)
        _check_inputs(inputs, self, self.queries)
        return _off_padding(_finite(_of_queries_and_keys(self, inputs, _allowed(self.mask, mask), read)), mask)


# A function of the inputs, or its matrices: one array `(examples, heads, keys, queries)` per layer.
Attention: TypeAlias = ProductAttention | QueryKeyAttention | Sequence[ArrayLike] | Callable[..., Sequence[ArrayLike]]


def attention_from_products(
    products: Sequence[ArrayLike], *, mask: ArrayLike | None = None, bias: Sequence[ArrayLike] | None = None
) -> ProductAttention:
    r"""Attention given by the query-key products: $\Omega_{st} = \mathrm{softmax}_s(x_s^\top W x_t)$.

    Equation (3) with $W = K^\top Q / \sqrt G$; any inverse temperature belongs into $W$.

    Args:
        products: one array `(heads, features, features)` per layer, key index before query index.
        mask: `(tokens, tokens)` booleans, key by query, true where attention is allowed.
        bias: one array `(heads, tokens, tokens)` per layer, key by query, added to the logits.

    Returns:
        A function of the inputs `(examples, tokens, features)`.

    Raises:
        ValueError: wrong shapes, NaN or infinity, no layer, a query that may attend nowhere.

    Source: Tiberi et al. (2024), equation (3) and appendix G.2.
    """
    products = attention_layers("products", products, "heads features features")
    features = products[0].shape[-1]
    for product in products:
        if product.shape[1:] != (features, features):
            raise ValueError(f"products: wanted (heads, {features}, {features}) in every layer, got {product.shape}.")
    return ProductAttention(products, _mask(mask), _bias(bias, [product.shape[0] for product in products]))


def attention_from_queries_and_keys(
    queries: Sequence[ArrayLike],
    keys: Sequence[ArrayLike],
    *,
    mask: ArrayLike | None = None,
    bias: Sequence[ArrayLike] | None = None,
) -> QueryKeyAttention:
    r"""Attention given by queries and keys: $\Omega_{st} = \mathrm{softmax}_s(K x_s \cdot Q x_t / \sqrt G)$, (3).

    Args:
        queries: one array `(heads, dimension, features)` per layer.
        keys: arrays of the same shapes.
        mask, bias: as in `attention_from_products`.

    Returns:
        A function of the inputs `(examples, tokens, features)`.

    Raises:
        ValueError: as `attention_from_products`, or unequal shapes.

    Source: Tiberi et al. (2024), equation (3).
    """
    queries = attention_layers("queries", queries, "heads dimension features")
    keys = attention_layers("keys", keys, "heads dimension features")
    checks.same("queries and keys", "queries", len(queries), "keys (layers)", len(keys))
    for layer, (query, key) in enumerate(zip(queries, keys, strict=True), start=1):
        if query.shape != key.shape or query.shape[-1] != queries[0].shape[-1]:
            raise ValueError(
                f"queries and keys of layer {layer}: wanted equal shapes (heads, dimension, {queries[0].shape[-1]}), "
                f"got {query.shape} and {key.shape}."
            )
    return QueryKeyAttention(queries, keys, _mask(mask), _bias(bias, [query.shape[0] for query in queries]))


def relative_bias(table: ArrayLike, tokens: int) -> Float[Array, "_heads tokens tokens"]:
    r"""Biases by relative position, $b_{st} = \beta_{s - t}$, constant beyond the largest distance $R$.

    Args:
        table: $\beta$, `(heads, 2 R + 1)`, for distances $s - t = -R, .., R$ of key and query.
        tokens: number of tokens.

    Returns:
        The `bias` of one layer, `(heads, tokens, tokens)`, key by query.

    Source: Shaw et al., NAACL (2018), for the clipped distance; Raffel et al., JMLR 21 (2020), for
    the scalar.
    """
    table = checks.array("table", table, "heads distances")
    if table.shape[1] % 2 == 0:
        raise ValueError(f"table: wanted an odd number of distances -R, .., R, got {table.shape[1]}.")
    furthest, place = table.shape[1] // 2, np.arange(checks.whole("tokens", tokens))
    return table[:, np.clip(place[:, None] - place[None, :], -furthest, furthest) + furthest]


@quick_jit()
def _of_products(attention, inputs, allowed, read):
    logits = [
        jnp.einsum("esi,hij,etj->ehst", inputs, product, own, optimize="optimal")
        for product, own in zip(attention.products, _queries_of(inputs, read, len(attention.products)), strict=True)
    ]
    return _softmax_over_keys(logits, allowed, attention.bias, read)


@quick_jit()
def _of_queries_and_keys(attention, inputs, allowed, read):
    logits, each = [], _queries_of(inputs, read, len(attention.queries))
    for queries, keys, own in zip(attention.queries, attention.keys, each, strict=True):
        query = jnp.einsum("hgi,eti->ehtg", queries, own)
        key = jnp.einsum("hgi,esi->ehsg", keys, inputs)
        logits.append(jnp.einsum("ehsg,ehtg->ehst", key, query) / np.sqrt(queries.shape[1]).astype(inputs.dtype))
    return _softmax_over_keys(logits, allowed, attention.bias, read)


def _queries_of(inputs, read, layers: int) -> tuple:
    """Tokens that are queries in each layer: all of them, in the last only those that are read."""
    return (*(inputs,) * (layers - 1), inputs if read is None else inputs[:, read])


def _softmax_over_keys(logits, allowed, biases, read) -> tuple:
    """The matrices of every layer from its logits, the bias added before the mask."""
    matrices = []
    for layer, one in enumerate(logits):
        some = slice(None) if read is None or layer < len(logits) - 1 else read
        one = one if biases is None else one + biases[layer][None, ..., some].astype(one.dtype)
        one = one if allowed is None else jnp.where(allowed[:, None, :, some], one, -jnp.inf)
        matrices.append(jax.nn.softmax(one, axis=-2))
    if read is not None:
        *_, keys, _ = matrices[-1].shape
        matrices[-1] = jnp.zeros((*matrices[-1].shape[:-1], keys), matrices[-1].dtype).at[..., read].set(matrices[-1])
    return tuple(matrices)


def _finite(matrices: tuple) -> tuple:
    """The matrices, refused where the softmax had logits that are too large for their type."""
    for layer, matrix in enumerate(matrices, start=1):
        if not checks.all_finite(matrix):
            raise ValueError(
                f"attention of layer {layer}: wanted finite logits, got some that overflow {matrix.dtype}. "
                "Scale inputs, queries or keys down."
            )
    return matrices


def _allowed(own, mask) -> Bool[Array, "_examples tokens tokens"] | None:
    """Mask (key, query) of allowed attention; padding queries attend anywhere and are zeroed later."""
    if mask is None:
        return None if own is None else own[None]
    allowed = jnp.broadcast_to(mask[:, :, None], (*mask.shape, mask.shape[1]))
    allowed = (allowed if own is None else allowed & own[None]) | ~mask[:, None, :]
    if checks.concrete(allowed) and not allowed.any(axis=1).all():
        example, query = (int(one[0]) for one in np.nonzero(~np.asarray(allowed).any(axis=1)))
        raise ValueError(
            f"mask: wanted an allowed key for every token, got none for token {query} of example {example}."
        )
    return allowed


def _off_padding(matrices: tuple, mask) -> tuple:
    return matrices if mask is None else tuple(without_padding(matrix, mask) for matrix in matrices)


def _mask(mask):
    if mask is None:
        return None
    mask = checks.known("mask", mask, "tokens tokens", bool)
    if mask.shape[0] != mask.shape[1]:
        raise ValueError(f"mask: wanted booleans of shape (tokens, tokens), got {mask.dtype} of shape {mask.shape}.")
    if not mask.any(axis=0).all():
        query = int(np.argmin(mask.any(axis=0)))
        raise ValueError(f"mask: wanted at least one allowed key for every query, got none for query {query}.")
    return jnp.asarray(mask)


def _bias(bias, heads: list[int]):
    if bias is None:
        return None
    bias = attention_layers("bias", bias, "heads tokens tokens")
    checks.same("bias", "biases", len(bias), "attention (layers)", len(heads))
    tokens = bias[0].shape[-1]
    for layer, (one, count) in enumerate(zip(bias, heads, strict=True), start=1):
        if one.shape != (count, tokens, tokens):
            raise ValueError(f"bias of layer {layer}: wanted shape ({count}, {tokens}, {tokens}), got {one.shape}.")
    return bias


def _check_inputs(inputs, attention, queries) -> None:
    checks.same("inputs", "the features axis", inputs.shape[2], "the attention's features", queries[0].shape[-1])
    if attention.bias is not None:
        checks.same("inputs", "the tokens axis", inputs.shape[1], "the bias", attention.bias[0].shape[-1])
    if attention.mask is not None:
        checks.same("inputs", "the tokens axis", inputs.shape[1], "the mask", attention.mask.shape[0])
