"""Sequences of unequal length: padded to one, with a mask that is true where there are tokens."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float

from statmech_attention import checks
from statmech_attention.layers.outputs import readout_weights


class Padded(NamedTuple):
    """Sequences padded with zeros at the end, and their mask, true for a token."""

    inputs: Float[np.ndarray, "examples tokens features"]
    mask: Bool[np.ndarray, "examples tokens"]


def pad_sequences(sequences: Sequence[ArrayLike]) -> Padded:
    """Return sequences of unequal length as one array and a mask.

    Args:
        sequences: one array `(tokens, features)` per example.

    Returns:
        `Padded(inputs, mask)`, `(examples, tokens, features)` and `(examples, tokens)`.

    Raises:
        ValueError: no sequence, other arrays, unequal numbers of features, NaN or infinity.
    """
    listed = checks.listed("sequences", sequences, "arrays (tokens, features)")
    each = [np.asarray(checks.array(f"sequences[{n}]", one, "tokens features")) for n, one in enumerate(listed)]
    for number, one in enumerate(each):
        checks.same("sequences", f"the features of sequences[{number}]", one.shape[1], "the first", each[0].shape[1])
    lengths = np.array([len(one) for one in each])
    mask = np.arange(lengths.max())[None] < lengths[:, None]
    inputs = np.zeros((*mask.shape, each[0].shape[1]), np.result_type(*each))
    inputs[mask] = np.concatenate(each)
    return Padded(inputs, mask)


def padded(
    inputs, mask=None
) -> tuple[Float[Array, "examples tokens features"], Bool[np.ndarray, "examples tokens"] | None]:
    """Inputs checked, zero on padding, and their mask, of an array or of sequences of unequal length."""
    if _unequal(inputs, 2):
        if mask is not None:
            raise ValueError("mask: not accepted with sequences of unequal length, which have a mask. Leave it out.")
        inputs, mask = pad_sequences(inputs)
    inputs = checks.array("inputs", inputs, "examples tokens features", finite=mask is None)
    if mask is None:
        return inputs, None
    mask = checks.known("mask", mask, "examples tokens", bool)
    if mask.shape != inputs.shape[:2]:
        raise ValueError(f"mask: wanted booleans of shape {inputs.shape[:2]}, as the inputs, got {mask.shape}.")
    if not mask.any(axis=1).all():
        empty = int(np.argmin(mask.any(axis=1)))
        raise ValueError(
            f"mask: wanted at least one token in every example, got none in example {empty}. True is a token."
        )
    return checks.array("inputs", jnp.where(mask[..., None], inputs, 0), "examples tokens features"), mask


def stacked(layer):
    """Matrices of one layer; single sequences' matrices of unequal length are padded to one array."""
    if not _unequal(layer, 3):
        return layer
    tokens = max(one.shape[-1] for one in layer)
    sizes = [(0, max(tokens - size, 0)) for one in layer for size in one.shape[1:]]
    pairs = zip(layer, sizes[::2], sizes[1::2], strict=True)
    try:
        return np.stack([np.pad(np.asarray(one), ((0, 0), rows, columns)) for one, rows, columns in pairs])
    except ValueError:
        return layer  # unequal heads: refused as no array


def token_weights(readout, mask, examples: int, tokens: int) -> Float[np.ndarray, "examples tokens"]:
    """Weights of the tokens at the readout, among an example's own tokens if there is padding."""
    if mask is None:
        return np.tile(readout_weights(readout, tokens), (examples, 1))
    lengths, weights = mask.sum(axis=1), np.zeros(mask.shape)
    for length in np.unique(lengths):  # the shortest first, which an index may be outside of
        rows = (lengths == length)[:, None] & mask
        weights[rows] = np.tile(readout_weights(readout, int(length)), int((lengths == length).sum()))
    return weights


def _unequal(arrays, axes: int) -> bool:
    """True for several arrays with so many axes that differ in shape."""
    if not isinstance(arrays, (list, tuple)) or not all(getattr(one, "ndim", 0) == axes for one in arrays):
        return False
    return len({tuple(one.shape) for one in arrays}) > 1
