"""Attention as a function of the inputs: from queries and keys, or from their products.

Equation (3). An attention matrix has a key on its first and a query on its second axis,
and its columns sum to one. Attention acts on the bare input in every layer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.layers.chains import Chain
from statmech_attention.model.inputs import LAYOUTS, booleans, given_gates, given_matrices, padded, without_padding


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SoftmaxAttention:
    r"""$\Omega_{st} = \mathrm{softmax}_s(K x_s \cdot Q x_t / \sqrt G)$, (3), or
    $\mathrm{softmax}_s(x_s^\top W x_t)$.

    The result of `attention_from_queries_and_keys`, or of `attention_from_products`, with $W$ as
    `queries` and no `keys`. Call it on inputs `(examples, tokens, features)`, and on a mask if there
    is padding, for one array `(examples, heads, keys, queries)` per layer.
    """

    queries: tuple[Float[Array, "_heads _dimension features"], ...]
    keys: tuple[Float[Array, "_heads _dimension features"], ...] | None = None
    mask: Bool[Array, "tokens tokens"] | None = None
    bias: tuple[Float[Array, "_heads tokens tokens"], ...] | None = None

    def __call__(
        self, inputs: ArrayLike, *, mask: ArrayLike | None = None
    ) -> tuple[Float[Array, "examples _heads tokens tokens"], ...]:
        inputs, mask = padded(inputs, mask)
        checks.same("inputs", "the features axis", inputs.shape[2], "the attention", self.queries[0].shape[-1])
        for square in (*(self.bias or ()), self.mask):
            if square is not None:
                checks.same("inputs", "the tokens axis", inputs.shape[1], "the bias and the mask", square.shape[-1])
        matrices = _matrices(self, inputs, _allowed(self.mask, mask))
        return matrices if mask is None else tuple(without_padding(matrix, mask) for matrix in matrices)


# A function of the inputs, or its matrices: one array `(examples, heads, keys, queries)` per layer.
Attention: TypeAlias = SoftmaxAttention | Sequence[ArrayLike] | Callable[..., Sequence[ArrayLike]]


def attention_from_products(
    products: Sequence[ArrayLike], *, mask: ArrayLike | None = None, bias: Sequence[ArrayLike] | None = None
) -> SoftmaxAttention:
    r"""Attention given by the query-key products: $\Omega_{st} = \mathrm{softmax}_s(x_s^\top W x_t)$.

    Equation (3) with $W = K^\top Q / \sqrt G$; any inverse temperature belongs into $W$.

    Args:
        products: one array `(heads, features, features)` per layer, key index before query index.
        mask: `(tokens, tokens)` booleans, key by query, true where attention is allowed.
        bias: one array `(heads, tokens, tokens)` per layer, key by query, added to the logits.

    Returns:
        A function of the inputs `(examples, tokens, features)`.

    Source: Tiberi et al. (2024), equation (3) and appendix G.2.
    """
    matrices = _layers("products", products, "heads features features")
    features = matrices[0].shape[-1]
    if any(product.shape[1:] != (features, features) for product in matrices):
        got = [product.shape for product in matrices]
        raise ValueError(f"products: wanted (heads, {features}, {features}) in every layer, got {got}.")
    return SoftmaxAttention(matrices, None, _pairs(mask), _bias(bias, matrices))


def attention_from_queries_and_keys(
    queries: Sequence[ArrayLike],
    keys: Sequence[ArrayLike],
    *,
    mask: ArrayLike | None = None,
    bias: Sequence[ArrayLike] | None = None,
) -> SoftmaxAttention:
    r"""Attention given by queries and keys: $\Omega_{st} = \mathrm{softmax}_s(K x_s \cdot Q x_t / \sqrt G)$, (3).

    Args:
        queries: one array `(heads, dimension, features)` per layer.
        keys: arrays of the same shapes.
        mask, bias: as in `attention_from_products`.

    Returns:
        A function of the inputs `(examples, tokens, features)`.

    Source: Tiberi et al. (2024), equation (3).
    """
    axes = "heads dimension features"
    queries, keys = _layers("queries", queries, axes), _layers("keys", keys, axes)
    shapes, others = [matrix.shape for matrix in queries], [matrix.shape for matrix in keys]
    features = shapes[0][-1]
    if shapes != others or any(shape[-1] != features for shape in shapes):
        got = f"{shapes} and {others}"
        raise ValueError(f"queries and keys: wanted equal shapes (heads, dimension, {features}), got {got}.")
    return SoftmaxAttention(queries, keys, _pairs(mask), _bias(bias, queries))


def relative_bias(table: ArrayLike, tokens: int) -> Float[Array, "_heads tokens tokens"]:
    r"""Biases by relative position, $b_{st} = \beta_{s - t}$, constant beyond the largest distance $R$.

    Args:
        table: $\beta$, `(heads, 2 R + 1)`, for distances $s - t = -R, .., R$ of key and query.
        tokens: number of tokens.

    Returns:
        The `bias` of one layer, `(heads, tokens, tokens)`, key by query.

    Source: Shaw et al., NAACL (2018); Raffel et al., JMLR 21 (2020).
    """
    table = checks.array("table", table, "heads distances")
    furthest, place = table.shape[1] // 2, np.arange(checks.whole("tokens", tokens))
    return table[:, np.clip(place[:, None] - place[None, :], -furthest, furthest) + furthest]


def attention_matrices(
    inputs: ArrayLike, attention: Attention, *, layout: str = "key_query", mask: ArrayLike | None = None
) -> tuple[Float[Array, "examples _heads tokens tokens"], ...]:
    """Return the attention matrices of `inputs`.

    Args:
        inputs: `(examples, tokens, features)`, or one array `(tokens, features)` per example of
            unequal lengths.
        attention: from `attention_from_products` or `attention_from_queries_and_keys`; or matrices,
            one array `(examples, heads, keys, queries)` per layer, or per example one array `(heads,
            keys, queries)`; they sum to one over the keys of every token that counts. Or a function
            of the inputs that returns such arrays, whose sums may be any.
        layout: order of the last two axes: "key_query", or "query_key" as in PyTorch and Hugging
            Face.
        mask: `(examples, tokens)`, true or 1 for a token, false or 0 for padding, which has no input
            and no attention: results are those without it. Hugging Face's `attention_mask`, or the
            opposite of PyTorch's `key_padding_mask`.

    Returns:
        One array `(examples, heads, keys, queries)` per layer, zero on padding.

    Raises:
        ValueError: shapes that do not fit, NaN or infinity, no layer, another layout, sums other
            than one, as of padding without `mask`.
    """
    inputs, mask = padded(inputs, mask)
    checks.choice("layout", layout, LAYOUTS)
    if isinstance(attention, SoftmaxAttention):
        return attention(inputs, mask=mask)
    given: Any = attention(inputs) if callable(attention) else attention
    return given_matrices(given, inputs.shape, layout=layout, mask=mask, free=callable(attention))


def chain_and_matrices(
    inputs, attention, layers=None, layout: str = "key_query", mask=None, gates=None
) -> tuple[Chain, tuple]:
    """Return the chain, by default of the attention, and of each layer the matrices, or the gates, or None."""
    chain, matrices = _chain_and_matrices(inputs, attention, layers, layout, mask)
    factors = iter(given_gates(gates, [layer.gates for layer in chain.layers], inputs.shape[:2], mask))
    each = zip(chain.layers, matrices, strict=True)
    return chain, tuple(next(factors) if layer.gates else matrix for layer, matrix in each)


def _chain_and_matrices(inputs, attention, layers, layout, mask) -> tuple[Chain, tuple]:
    chain = None if layers is None else Chain.of(layers)
    if chain is not None and not any(chain.heads):
        if callable(attention) or attention is not None and len(attention):
            raise ValueError(f"attention: wanted none, since no layer of layers={chain.shorthand} has heads. Pass ().")
        return chain, (None,) * len(chain.layers)
    matrices = attention_matrices(inputs, attention, layout=layout, mask=mask)
    got = tuple(matrix.shape[1] for matrix in matrices)
    chain = Chain.of(got) if chain is None else chain
    wanted = tuple(count for count in chain.heads if count)
    if got != wanted:
        raise ValueError(f"attention: wanted matrices of {wanted} heads for layers={chain.shorthand}, got {got}.")
    left = iter(matrices)
    return chain, tuple(next(left) if count else None for count in chain.heads)


@quick_jit()
def _matrices(attention, inputs, allowed):
    """The softmax over keys of every layer, the bias added before the mask."""
    matrices = []
    for layer, queries in enumerate(attention.queries):
        if attention.keys is None:
            logits = jnp.einsum("esi,hij,etj->ehst", inputs, queries, inputs, optimize="optimal")
        else:
            query, key = (jnp.einsum("hgi,eti->ehtg", matrix, inputs) for matrix in (queries, attention.keys[layer]))
            logits = jnp.einsum("ehsg,ehtg->ehst", key, query) / np.sqrt(queries.shape[1]).astype(inputs.dtype)
        if attention.bias is not None:
            logits = logits + attention.bias[layer][None].astype(logits.dtype)
        if allowed is not None:
            logits = jnp.where(allowed[:, None], logits, -jnp.inf)
        matrices.append(jax.nn.softmax(logits, axis=-2))
    return tuple(matrices)


def _allowed(pairs, mask) -> Bool[Array | np.ndarray, "_examples tokens tokens"] | None:
    """Mask (key, query) of allowed attention; padding queries attend anywhere and are zeroed later."""
    allowed = None if pairs is None else pairs[None]
    if mask is not None:
        allowed = (mask[:, :, None] if pairs is None else mask[:, :, None] & allowed) | ~mask[:, None, :]
    if allowed is not None and checks.concrete(allowed) and not allowed.any(axis=1).all():
        example, query = np.argwhere(~np.asarray(allowed).any(axis=1))[0]
        raise ValueError(
            f"mask: wanted an allowed key for every token, got none for token {query} of example {example}."
        )
    return allowed


def _layers(name: str, values, axes: str) -> tuple:
    """Check arrays, one per layer."""
    checks.several(name, values)
    arrays = tuple(checks.array(f"{name}[{layer}]", value, axes) for layer, value in enumerate(values))
    if not arrays:
        raise ValueError(f"{name}: wanted at least one attention layer, got none: the set of paths is empty.")
    return arrays


def _pairs(mask):
    if mask is None:
        return None
    rows = len(checks.several("mask", mask, "rows"))
    return jnp.asarray(booleans("mask", mask, (rows, rows)))


def _bias(bias, queries: tuple):
    if bias is None:
        return None
    biases = _layers("bias", bias, "heads tokens tokens")
    for table, layer in zip(biases, queries, strict=True):
        checks.same("bias", "the heads", len(table), "the layer", len(layer))
    return biases
