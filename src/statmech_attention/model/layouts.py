"""Given attention matrices: the order of their axes, their sums, padding."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from statmech_attention import checks
from statmech_attention.model.padding import stacked

# The last two axes of an attention matrix: keys before queries here, queries before keys in PyTorch and Hugging Face.
LAYOUTS = ("key_query", "query_key")
# What was said of them, what was found instead, and what to do.
_ORDERS = {
    "key_query": (
        "(examples, heads, keys, queries)",
        "queries before keys, as PyTorch and Hugging Face have them",
        "Pass layout='query_key', or swap the last two axes where there is no such argument.",
    ),
    "query_key": (
        "(examples, heads, queries, keys), as layout='query_key' says",
        "keys before queries",
        "Leave layout out.",
    ),
}
# How far from one a sum over the keys of a softmax may be; half precision is off by as much, bfloat16 by more.
_SUM = 5e-3
MEANT = " Where they are meant so, pass a function of the inputs that returns them."


def attention_layers(name: str, values, axes: str) -> tuple:
    """Arrays, one per layer, each with `axes`."""
    return tuple(
        checks.array(f"{name}[{layer}]", value, axes) for layer, value in enumerate(_layers(name, values, axes))
    )


def matrices_from(
    name: str,
    values,
    layout: str = "key_query",
    mask: Bool[np.ndarray, "examples tokens"] | None = None,
    *,
    turned: bool = False,
    softmax: bool = False,
) -> tuple[Float[Array, "examples heads keys queries"], ...]:
    """Attention matrices in this package's layout, zero on padding.

    `turned` lets the other layout through; `softmax` wants columns that sum to one.
    """
    theirs = checks.choice("layout", layout, LAYOUTS) == "query_key"
    axes = "examples heads queries keys" if theirs else "examples heads keys queries"
    found, layers = [], _layers(name, values, axes)
    for number, value in enumerate(layers, start=1):
        entry, where = f"{name}[{number - 1}]", f"{name} of layer {number}"
        given = checks.array(entry, stacked(value), axes, finite=mask is None)
        matrix = whole = jnp.swapaxes(given, -1, -2) if theirs else given
        if mask is not None:
            check_belonging(where, given.shape, mask.shape[0], mask.shape[1], len(layers))
            matrix = checks.array(entry, without_padding(whole, mask), axes)
        if checks.concrete(matrix):
            if not turned:
                _check_columns(where, np.asarray(matrix), layout, mask, softmax)
            if mask is not None:
                _check_padding(where, np.asarray(whole), mask)
        found.append(matrix)
    return tuple(found)


def check_belonging(where: str, shape, examples: int, tokens: int, layers: int) -> None:
    """Refuse one layer's matrices, of `layers`, that are not those of so many examples and tokens."""
    if (shape[0], *shape[2:]) == (examples, tokens, tokens):
        return
    remedy = "Matrices belong to the inputs they were computed from."
    if layers == examples != shape[0]:
        remedy = (
            "The list has an entry per example: layers belong outside, examples inside. "
            "Write [np.stack(layer) for layer in zip(*attention)]."
        )
    raise ValueError(f"{where}: wanted shape ({examples}, heads, {tokens}, {tokens}), got {tuple(shape)}. {remedy}")


def without_padding(matrix, mask: Bool[np.ndarray, "examples tokens"]) -> Float[Array, "examples heads keys queries"]:
    """The matrix with zeros where key or query is padding."""
    return jnp.where(mask[:, None, :, None] & mask[:, None, None, :], matrix, 0)


def _layers(name: str, values, axes: str) -> list:
    if hasattr(values, "ndim") and values.ndim == len(axes.split()):
        raise ValueError(f"{name}: wanted a sequence with one array per layer, got a single array. Write ({name},).")
    if not hasattr(values, "__iter__") or isinstance(values, (str, bytes)) or not getattr(values, "ndim", 1):
        raise ValueError(f"{name}: wanted a sequence with one array per layer, got {values!r}.")
    layers = list(values)
    if not layers:
        raise ValueError(f"{name}: wanted at least one attention layer, got none: the set of paths is empty.")
    return layers


def _check_columns(where: str, matrix, layout: str, mask, softmax: bool) -> None:
    """Refuse matrices that are turned, and with `softmax` all whose columns do not sum to one."""
    tokens = np.s_[...] if mask is None else np.broadcast_to(mask[:, None], matrix.shape[:3])
    # Sums in bfloat16 would stop short of one.
    sums = [matrix.sum(axis=axis, dtype=float)[tokens] for axis in (2, 3)]
    # Lines of zeros, as padding has them, show nothing of the order.
    columns, rows = (np.allclose(one[one != 0], 1, rtol=0, atol=_sum_error(matrix)) for one in sums)
    order, other, mend = _ORDERS[layout]
    if rows and not columns and matrix.min() >= 0:
        let = "" if softmax else MEANT
        raise ValueError(f"{where}: wanted {order}, and sums of one over the keys, got {other}. {mend}{let}")
    if softmax:
        check_attending(where, matrix, mask)
        if not columns or np.any(sums[0] == 0):
            raise ValueError(f"{where}: wanted {order}, and sums of one over the keys, got other sums.")


def _sum_error(matrix) -> float:
    """Return the largest deviation of a sum from one, by the precision that the entries once had."""
    with np.errstate(over="ignore"):
        short = np.all(matrix == matrix.astype(jnp.bfloat16))
    return max(_SUM, 2 * float(jnp.finfo(jnp.bfloat16 if short else matrix.dtype).eps))


def check_attending(where: str, matrix, counts: Bool[np.ndarray, "examples queries"] | None, let: str = "") -> None:
    """Refuse a matrix with a token that counts but attends to nothing, unlike others of its example."""
    attends = np.any(np.asarray(matrix) != 0, axis=(1, 2))
    padding = (True if counts is None else counts) & ~attends & attends.any(axis=1, keepdims=True)
    if padding.any():
        example, token = np.argwhere(padding)[0]
        raise ValueError(
            f"{where}: wanted attention from every token that counts, got zeros alone from token {token} of "
            f"example {example}, as on padding. Pass mask=, false on padding.{let}"
        )


def check_unmasked(name: str, layers, counts: Bool[np.ndarray, "examples tokens"]) -> None:
    """Refuse padding that counts: at one end, of other length by example, not attended to by other tokens.

    Keys of padding are masked in a padded batch. Its queries attend to all other tokens; where
    these are masked too, as in a causal model padded on the left, to all keys alike.
    """
    if any(one.shape[0] != layers[0].shape[0] or one.shape[2:] != layers[0].shape[2:] for one in layers):
        return  # refused elsewhere, by their shapes
    even = [np.all((one == 0) | (one == one.max(axis=2, keepdims=True)), axis=(1, 2)) for one in layers]
    blank = np.all(even, axis=0) & layers[-1].any(axis=(1, 2))  # queries that attend to some keys, all alike
    read = np.any([np.any((one != 0) & ~blank[:, None, None], axis=(1, 3)) for one in layers], axis=0)
    lengths = read.sum(axis=1)
    if np.all(lengths == lengths[0]) or not np.any(counts & ~read):
        return
    places = np.arange(read.shape[1])
    behind = np.array_equal(read, places < lengths[:, None])
    if not behind and not np.array_equal(read, places >= (read.shape[1] - lengths)[:, None]):
        return
    for example, token in np.argwhere(~read):
        columns = [one[example, :, read[example], token] for one in layers]  # keys that are read, and heads
        # Heads that are sparse by design may leave tokens out; a softmax attends to all that it is let to.
        whole = blank[example, token] or all(np.allclose(column.sum(axis=0), 1, atol=2e-2) for column in columns)
        if not whole or any(np.mean(column != 0) < 0.5 for column in columns):
            return
    example = int(np.argmin(lengths))
    raise ValueError(
        f"{name}: wanted a mask, got {'trailing' if behind else 'leading'} tokens that no token attends to, as on "
        f"padding: {read.shape[1] - lengths[example]} in example {example}, another number in others. "
        f"Pass mask=, false on padding.{MEANT}"
    )


def _check_padding(where: str, matrix, mask) -> None:
    leaked = np.where(~mask[:, None, :, None] & mask[:, None, None, :], np.abs(matrix), 0)
    if not leaked.max() <= _SUM:  # NaN is none
        example = int(np.argmax(leaked.max(axis=(1, 2, 3))))
        raise ValueError(
            f"{where}: wanted no attention from a token to padding, got {leaked[example].max():.3g} in "
            f"example {example}. Compute it with the mask; without one, padding counts as tokens: leave mask out."
        )
