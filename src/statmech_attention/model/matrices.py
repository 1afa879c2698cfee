"""The attention matrices of inputs, and the chain of layers that they belong to."""

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Chain
from statmech_attention.model.attention import Attention, ProductAttention, QueryKeyAttention
from statmech_attention.model.layouts import (
    LAYOUTS,
    MEANT,
    check_attending,
    check_belonging,
    check_unmasked,
    matrices_from,
)
from statmech_attention.model.padding import padded


def attention_matrices(
    inputs: ArrayLike, attention: Attention, *, layout: str = "key_query", mask: ArrayLike | None = None
) -> tuple[Float[Array, "examples _heads tokens tokens"], ...]:
    """Return the attention matrices of `inputs`, whichever way they are given.

    Args:
        inputs: `(examples, tokens, features)`, or one array `(tokens, features)` per example of
            unequal lengths.
        attention: from `attention_from_products` or `attention_from_queries_and_keys`, a function
            of the inputs, or matrices: one array `(examples, heads, keys, queries)` per layer, or
            per example one array `(heads, keys, queries)`. Their columns need not sum to one.
            Matrices that sum to one over queries instead of keys are refused as transposed, unless
            a function returns them.
        layout: order of the last two axes: "key_query", or "query_key" as in PyTorch and Hugging
            Face.
        mask: `(examples, tokens)`, true or 1 for a token, false or 0 for padding, which has no input
            and no attention: results are those without it. Hugging Face's `attention_mask`, or the
            opposite of PyTorch's `key_padding_mask`.

    Returns:
        One array `(examples, heads, keys, queries)` per layer.

    Raises:
        ValueError: shapes that do not fit, NaN or infinity, no layer, another layout, attention to
            padding.
    """
    inputs, mask = padded(inputs, mask)
    if isinstance(attention, (ProductAttention, QueryKeyAttention)):
        checks.choice("layout", layout, LAYOUTS)
        return attention(inputs, mask=mask)
    given = callable(attention)
    if callable(attention):
        try:
            attention = attention(inputs)
        except TypeError as error:
            raise ValueError(f"attention: wanted a function of the inputs, got {attention!r} ({error}).") from error
    matrices = matrices_from("attention", attention, layout, mask, turned=given)
    examples, tokens = inputs.shape[:2]
    for layer, matrix in enumerate(matrices, start=1):
        check_belonging(f"attention of layer {layer}", matrix.shape, examples, tokens, len(matrices))
    return matrices


def check_read_out(attention, matrices: tuple, weights) -> None:
    """Refuse given matrices with padding that is read out: a token that attends to nothing, or is never attended to."""
    known = [matrix for matrix in matrices if matrix is not None]
    if known and not callable(attention) and checks.concrete(*known):
        check_unmasked("attention", [np.asarray(one) for one in known], weights != 0)
        check_attending(f"attention of layer {len(known)}", known[-1], weights != 0, MEANT)


def chain_and_matrices(
    inputs, attention, layers=None, layout: str = "key_query", mask=None, weights=None
) -> tuple[Chain, tuple]:
    """The chain, by default of the attention, and the matrices of each layer, None without heads.

    With the `weights` of the tokens at the readout, queries that nothing reads may be zero in the last.
    """
    chain = None if layers is None else Chain.of(layers)
    if chain is not None and not any(chain.heads):
        if callable(attention) or attention is not None and len(attention):
            raise ValueError(f"attention: wanted none, since no layer of layers={chain.spelled} has heads. Pass ().")
        return chain, (None,) * len(chain.layers)
    if isinstance(attention, (ProductAttention, QueryKeyAttention)) and weights is not None:
        checks.choice("layout", layout, LAYOUTS)
        read = np.flatnonzero(weights.any(axis=0))
        matrices = attention(inputs, mask=mask, read=read if len(read) < inputs.shape[1] else None)
    else:
        matrices = attention_matrices(inputs, attention, layout=layout, mask=mask)
    got = tuple(matrix.shape[1] for matrix in matrices)
    chain = Chain.of(got) if chain is None else chain
    wanted = tuple(count for count in chain.heads if count)
    if got != wanted:
        raise ValueError(f"attention: wanted matrices of {wanted} heads for layers={chain.spelled}, got {got}.")
    left = iter(matrices)
    return chain, tuple(next(left) if count else None for count in chain.heads)
