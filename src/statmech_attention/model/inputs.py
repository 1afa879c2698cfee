"""What an input is: tokens, a mask of their padding, and the attention matrices of every layer."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from statmech_attention import checks
from statmech_attention.layers.outputs import readout_weights

# The last two axes of a matrix: keys before queries here, queries before keys in PyTorch and Hugging Face.
LAYOUTS = ("key_query", "query_key")
_SUM = 5e-3  # how far from one the sum of a softmax in half precision may be
MEANT = "To allow this, pass a function of the inputs that returns the matrices."


class Padded(NamedTuple):
    """Sequences padded with zeros at the end, and their mask, true for a token."""

    inputs: Float[np.ndarray, "examples tokens features"]
    mask: Bool[np.ndarray, "examples tokens"]


def pad_sequences(sequences: Sequence[ArrayLike]) -> Padded:
    """Return sequences of unequal length, arrays `(tokens, features)`, as one array and a mask.

    Raises:
        ValueError: other arrays, unequal numbers of features, NaN or infinity.
    """
    each = [np.asarray(checks.array(f"sequences[{n}]", one, "tokens features")) for n, one in enumerate(sequences)]
    for number, one in enumerate(each):
        checks.same("sequences", f"the features of sequences[{number}]", one.shape[1], "the first", each[0].shape[1])
    lengths = np.array([len(one) for one in each])
    mask = np.arange(lengths.max())[None] < lengths[:, None]
    inputs = np.zeros((*mask.shape, each[0].shape[1]), np.result_type(*each))
    inputs[mask] = np.concatenate(each)
    return Padded(inputs, mask)


def padded(inputs, mask=None) -> tuple[Float[Array, "..."], Bool[np.ndarray, "examples tokens"] | None]:
    """Check inputs, an array or sequences of unequal length, and their mask; padding becomes zero."""
    if _unequal(inputs, 2):
        if mask is not None:
            raise ValueError("mask: not accepted with sequences of unequal length, which have a mask. Leave it out.")
        inputs, mask = pad_sequences(inputs)
    inputs = checks.array("inputs", inputs, "examples tokens features", finite=mask is None)
    if mask is None:
        return inputs, None
    mask = booleans("mask", mask, inputs.shape[:2])
    if not mask.any(axis=1).all():
        empty = int(np.argmin(mask.any(axis=1)))
        raise ValueError(f"mask: wanted a token, true, in every example, got none in example {empty}.")
    return checks.array("inputs", jnp.where(mask[..., None], inputs, 0), "examples tokens features"), mask


def booleans(name: str, mask, shape: tuple[int, ...]) -> Bool[np.ndarray, "..."]:
    """Convert booleans, or the numbers 0 and 1 of a tokeniser, of this shape."""
    found = np.asarray(mask)
    if found.shape != tuple(shape) or found.dtype.kind not in "biu" or not np.isin(found, (0, 1)).all():
        raise ValueError(f"{name}: wanted booleans of shape {tuple(shape)}, got {found.dtype} of shape {found.shape}.")
    return found.astype(bool)


def token_weights(readout, mask, examples: int, tokens: int) -> Float[np.ndarray, "examples tokens"]:
    """Weights of the tokens at the readout, among an example's own tokens if there is padding."""
    if mask is None:
        return np.tile(readout_weights(readout, tokens), (examples, 1))
    weights = np.zeros(mask.shape)
    for row, own in zip(weights, mask, strict=True):
        row[own] = readout_weights(readout, int(own.sum()))
    return weights


def given_matrices(
    attention, shape: tuple[int, ...], *, layout: str = "key_query", mask=None, free: bool = False
) -> tuple[Float[Array, "examples _heads tokens tokens"], ...]:
    """Check matrices of `(examples, tokens, ..)` inputs, one array per layer; `free`: their sums may be any."""
    checks.choice("layout", layout, LAYOUTS)
    if getattr(attention, "ndim", 0) == 4:
        raise ValueError("attention: wanted a sequence with one array per layer, got a single array. Write (array,).")
    found = tuple(
        _layer(f"attention of layer {number}", one, shape, layout, mask, free)
        for number, one in enumerate(attention, start=1)
    )
    if not found:
        raise ValueError("attention: wanted at least one attention layer, got none: the set of paths is empty.")
    if not free and checks.concrete(*found):
        _check_unread(found, mask)
    return found


def _layer(where: str, value, shape, layout: str, mask, free: bool) -> Float[Array, "examples heads keys queries"]:
    """Check the matrices of one layer; turn them, and put zeros where key or query is padding."""
    given = checks.array(where, _stacked(value), "examples heads keys queries", finite=mask is None)
    matrix = jnp.swapaxes(given, -1, -2) if layout == "query_key" else given
    if (matrix.shape[0], *matrix.shape[2:]) != (shape[0], shape[1], shape[1]):
        raise ValueError(
            f"{where}: wanted shape ({shape[0]}, heads, {shape[1]}, {shape[1]}), got {given.shape}. Layers belong "
            "outside, examples inside: [np.stack(layer) for layer in zip(*attention)] exchanges them."
        )
    whole = matrix
    if mask is not None:
        matrix = checks.array(where, without_padding(whole, mask), "examples heads keys queries")
    if not free and checks.concrete(matrix):
        _check_columns(where, np.asarray(whole), np.asarray(matrix), layout, mask)
    return matrix


def without_padding(matrix, mask: Bool[np.ndarray, "examples tokens"]) -> Float[Array, "examples heads keys queries"]:
    """The matrix with zeros where key or query is padding."""
    return jnp.where(mask[:, None, :, None] & mask[:, None, None, :], matrix, 0)


def _check_columns(where: str, whole, matrix, layout: str, mask) -> None:
    """Raise ValueError for softmax matrices whose columns do not sum to one over the tokens that count.

    Matrices whose columns and rows have other sums altogether are no softmax, and pass.
    """
    counts = np.s_[...] if mask is None else np.broadcast_to(mask[:, None], matrix.shape[:3])
    columns, rows, before = (
        one.sum(axis=axis, dtype=float)[counts] for one, axis in ((matrix, 2), (matrix, 3), (whole, 2))
    )
    short = np.array_equal(matrix, matrix.astype(jnp.bfloat16))
    near = 2 * float(jnp.finfo(jnp.bfloat16).eps) if short else _SUM
    ones = np.abs(columns - 1) < near
    if ones.all() or matrix.shape[-1] == 1:  # one token cannot be turned, and its gates may be closed
        return
    if np.all(np.abs(rows[rows != 0] - 1) < near) and matrix.min() >= 0:
        hint = "Pass" if layout == "key_query" else "Leave out"
        got = "queries before keys, as in PyTorch" if layout == "key_query" else "keys before queries"
        got += f". {hint} layout='query_key', or swap the last two axes"
    elif ones.any() and np.all(ones | (columns == 0)):
        got = "zeros alone from some tokens, as on padding. Pass mask=, false on padding"
    elif np.all(np.abs(before - 1) < near):
        got = "attention to padding. Compute the matrices with the mask"
    else:
        return
    raise ValueError(f"{where}: wanted sums of one over the keys for every token that counts, got {got}. {MEANT}")


def _check_unread(matrices: tuple, mask) -> None:
    """Raise ValueError for padding without a mask: last or first tokens, differing in number, that none attends to."""
    counts = True if mask is None else mask
    read = np.any([np.any(np.asarray(one) != 0, axis=(1, 3)) for one in matrices], axis=0)
    lengths, places = read.sum(axis=1), np.arange(read.shape[1])
    ends = places < lengths[:, None], places >= (read.shape[1] - lengths)[:, None]
    if lengths.min() and np.any(counts & ~read) and np.ptp(lengths) and any(np.array_equal(read, end) for end in ends):
        raise ValueError(
            f"attention: wanted a mask, got {read.shape[1] - lengths.min()} tokens of example {np.argmin(lengths)} "
            f"that no token attends to, as on padding. Pass mask=, false on padding. {MEANT}"
        )


def _stacked(layer):
    """Pad the matrices of single sequences of unequal length to one array."""
    if not _unequal(layer, 3):
        return layer
    tokens = max(one.shape[-1] for one in layer)
    sizes = [[(0, 0), (0, tokens - one.shape[1]), (0, tokens - one.shape[2])] for one in layer]
    return np.stack([np.pad(np.asarray(one), size) for one, size in zip(layer, sizes, strict=True)])


def _unequal(arrays, axes: int) -> bool:
    """True for several arrays with so many axes that differ in shape."""
    if not isinstance(arrays, (list, tuple)) or not all(getattr(one, "ndim", 0) == axes for one in arrays):
        return False
    return len({tuple(one.shape) for one in arrays}) > 1
