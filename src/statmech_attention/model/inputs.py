"""Inputs: tokens, a mask of their padding, and the attention matrices of every layer."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from statmech_attention import checks

# The last two axes of a matrix: keys before queries here, queries before keys in PyTorch and Hugging Face.
LAYOUTS = ("key_query", "query_key")
_SUM = 2e-2  # how far from one the sum of a softmax in bfloat16 may be
_ALLOWED = "To allow this, pass a function of the inputs that returns the matrices."


class ReadAttention(NamedTuple):
    """Attention that `attention_from_torch` and `attention_from_transformers` return, for `attentioned_inputs`.

    Attributes:
        inputs: the tokens that enter the first layer, `(examples, tokens, features)`.
        attention: one array `(examples, heads, keys, queries)` per layer: keys before queries.
        mask: true for a token, false for padding; None if the network got no mask.
        gates: one array `(examples, tokens, units)` per feed-forward block, or None if they were not read.
    """

    inputs: Float[np.ndarray, "examples tokens features"]
    attention: tuple[Float[np.ndarray, "examples _heads tokens tokens"], ...]
    mask: Bool[np.ndarray, "examples tokens"] | None
    gates: tuple[Float[np.ndarray, "examples tokens _units"], ...] | None = None


def in_numpy(tensor) -> np.ndarray:
    """A tensor of PyTorch in double precision."""
    return tensor.detach().cpu().double().numpy()


def keys_first(matrices) -> tuple[np.ndarray, ...]:
    """Matrices of PyTorch as `(examples, heads, keys, queries)`, in double precision."""
    return tuple(in_numpy(matrix.mT) for matrix in matrices)


def attended(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Return `(examples, tokens)`, true for tokens to which a query attends in some layer."""
    return np.any([matrix.any(axis=(1, 3)) for matrix in matrices], axis=0)


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


def pad_sequences(sequences: Sequence[ArrayLike]) -> tuple[np.ndarray, np.ndarray]:
    """Return sequences of unequal length, arrays `(tokens, features)`, as one array and a mask, true for a token."""
    each = [
        np.asarray(checks.array(f"sequences[{n}]", sequence, "tokens features")) for n, sequence in enumerate(sequences)
    ]
    for number, sequence in enumerate(each):
        these = f"the features of sequences[{number}]"
        checks.same("sequences", these, sequence.shape[1], "the first", each[0].shape[1])
    lengths = np.array([len(sequence) for sequence in each])
    mask = np.arange(lengths.max())[None] < lengths[:, None]
    inputs = np.zeros((*mask.shape, each[0].shape[1]), np.result_type(*each))
    inputs[mask] = np.concatenate(each)
    return inputs, mask


def booleans(name: str, mask, shape: tuple[int, ...]) -> Bool[np.ndarray, "..."]:
    """Convert booleans, or the numbers 0 and 1 of a tokeniser, of this shape."""
    given = np.asarray(mask)
    if given.shape != tuple(shape) or given.dtype.kind not in "biu" or not np.isin(given, (0, 1)).all():
        raise ValueError(f"{name}: wanted booleans of shape {tuple(shape)}, got {given.dtype} of shape {given.shape}.")
    return given.astype(bool)


def token_weights(readout, mask, examples: int, tokens: int) -> Float[np.ndarray, "examples tokens"]:
    """Weights of the tokens at the readout, $t^*$ of (4) or their mean, where padding does not count."""
    mask = np.ones((examples, tokens), bool) if mask is None else mask
    counts = mask.sum(axis=1)
    named = {"mean": 0, "first": 0, "last": counts - 1}
    place = named.get(readout) if isinstance(readout, str) else readout
    if place is None or not isinstance(readout, str) and not (checks.is_whole(place, 0) and place < counts.min()):
        raise ValueError(
            f"readout: wanted 'first', 'last', 'mean' or an index in 0..{counts.min() - 1}, got {readout!r}."
        )
    chosen = mask & (np.cumsum(mask, axis=1) - 1 == np.reshape(place, (-1, 1)))
    return mask / counts[:, None] if readout == "mean" else chosen.astype(float)


def given_matrices(
    attention, shape: tuple[int, ...], *, layout: str = "key_query", mask=None, free: bool = False
) -> tuple[Float[Array, "examples _heads tokens tokens"], ...]:
    """Check matrices of `(examples, tokens, ..)` inputs, one array per layer; `free`: their sums may be any."""
    checks.choice("layout", layout, LAYOUTS)
    checks.several("attention", attention)
    matrices = tuple(
        _layer(f"attention of layer {number}", matrix, shape, layout, mask, free)
        for number, matrix in enumerate(attention, start=1)
    )
    if not free and shape[1] > 1 and checks.concrete(*matrices):
        _check_read(matrices, True if mask is None else mask)
    return matrices


def given_gates(gates, units: Sequence[int], shape: tuple[int, ...], mask=None) -> list[Float[Array, "..."]]:
    """Check gates, one array `(examples, tokens, units)` for every layer that takes some; zero on padding."""
    wanted = [count for count in units if count]
    if len(wanted) != (given := 0 if gates is None else len(gates)):
        raise ValueError(
            f"gates: wanted {len(wanted)} arrays (examples, tokens, units), one for every Gated layer, got {given}."
        )
    found = []
    for number, (count, values) in enumerate(zip(wanted, gates or (), strict=True), start=1):
        values = checks.array(f"gates of block {number}", values, "examples tokens units", finite=mask is None)
        if values.shape != (*shape, count):
            raise ValueError(f"gates of block {number}: wanted shape {(*shape, count)}, got {values.shape}.")
        found.append(values if mask is None else jnp.where(mask[..., None], values, 0))
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
    if mask is not None:
        matrix = checks.array(where, without_padding(matrix, mask), "examples heads keys queries")
    if not free and checks.concrete(matrix) and shape[1] > 1:  # of a single token the attention may be any gate
        _check_columns(where, np.asarray(matrix), layout, mask)
    return matrix


def without_padding(matrix, mask: Bool[np.ndarray, "examples tokens"]) -> Float[Array, "examples heads keys queries"]:
    """The matrix with zeros where key or query is padding."""
    return jnp.where(mask[:, None, :, None] & mask[:, None, None, :], matrix, 0)


def _check_columns(where: str, matrix, layout: str, mask) -> None:
    """Raise ValueError unless columns sum to one over the keys for every token that counts."""
    counts = np.s_[...] if mask is None else np.broadcast_to(mask[:, None], matrix.shape[:3])
    columns, rows = (matrix.sum(axis=axis, dtype=float)[counts] for axis in (2, 3))
    if np.all(np.abs(columns - 1) < _SUM):
        return
    if np.all(np.abs(rows - 1) < _SUM):
        ours = layout == "key_query"
        got = "queries before keys, as in PyTorch. Pass" if ours else "keys before queries. Leave out"
        got += " layout='query_key', or swap the last two axes"
    else:
        hint = "Of padded sequences pass mask=, false on padding" if mask is None else "Compute them with the mask"
        got = f"{columns.min():.3g} to {columns.max():.3g}. {hint}"
    raise ValueError(f"{where}: wanted sums of one over the keys for every token, got {got}. {_ALLOWED}")


def _check_read(matrices: tuple, counts) -> None:
    """Raise ValueError if examples differ in how many of their tokens no token attends to, as on padding."""
    unread = counts & np.all([np.all(np.asarray(matrix) == 0, axis=(1, 3)) for matrix in matrices], axis=0)
    number = unread.sum(axis=1)
    if np.ptp(number) and number.max() < unread.shape[1]:
        raise ValueError(
            f"attention: wanted a mask, got {number.max()} tokens of example {np.argmax(number)} that no token "
            f"attends to, as on padding. Pass mask=, false on padding. {_ALLOWED}"
        )


def _stacked(layer):
    """Pad the matrices of single sequences of unequal length to one array."""
    if not _unequal(layer, 3):
        return layer
    tokens = max(matrix.shape[-1] for matrix in layer)
    sizes = [[(0, 0), (0, tokens - matrix.shape[1]), (0, tokens - matrix.shape[2])] for matrix in layer]
    return np.stack([np.pad(np.asarray(matrix), size) for matrix, size in zip(layer, sizes, strict=True)])


def _unequal(arrays, axes: int) -> bool:
    """True for several arrays with so many axes that differ in shape."""
    if not isinstance(arrays, (list, tuple)) or not all(getattr(array, "ndim", 0) == axes for array in arrays):
        return False
    return len({tuple(array.shape) for array in arrays}) > 1
