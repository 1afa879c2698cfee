"""Fewer rows and features with the same kernel: rotations of examples and of features."""

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks

_LEAST_BLOCK = 2048  # rows that are triangulated together


def first_rows(padded: Float[Array, "padded *axes"], count: int) -> Float[Array, "rows *axes"]:
    """Leave out the rows of zeros; known ones without a compilation."""
    if len(padded) == count:
        return padded
    return jnp.asarray(np.asarray(padded)[:count]) if checks.concrete(padded) else padded[:count]


def triangulated(parts: Iterable) -> Float[np.ndarray, "rows columns"]:
    """The triangular factor of inputs beside labels, of all `parts` together, block by block.

    Inputs and labels keep their products with themselves and with each other. The last rows, one per
    output, have no inputs: their labels are what no inputs can explain.
    """
    from scipy.linalg import qr  # imported where it is needed: it takes longer than the kernels do

    triangle: Any = np.zeros((0, 1))
    for part in parts:
        inputs, labels = (np.asarray(array).reshape(len(array), -1) for array in part)
        columns = inputs.shape[1] + labels.shape[1]
        block = max(_LEAST_BLOCK, columns)
        for rows in (slice(start, start + block) for start in range(0, len(inputs), block)):
            above, some = len(triangle), inputs[rows]
            whole = np.empty((above + len(some), columns), order="F")  # which LAPACK need not copy
            whole[:above], whole[above:, : some.shape[1]], whole[above:, some.shape[1] :] = triangle, some, labels[rows]
            (triangle,) = qr(whole, mode="r", overwrite_a=True, check_finite=False)
            triangle = triangle[:columns].copy()  # or the rows below would stay in memory
    return triangle


def compressed(values):
    """The same Gram matrices from fewer features: directions that no example has are rotated away."""
    if not checks.concrete(values):
        return values
    flat = np.asarray(values).reshape(-1, values.shape[-1])
    if not np.all(np.isfinite(products := flat.T @ flat)):  # too large for a solve, too
        return values
    eigenvalues, directions = np.linalg.eigh(products)
    rank = max(1, np.sum(eigenvalues > flat.shape[1] * np.finfo(float).eps * eigenvalues[-1]))
    # Where little is missing, as in data with a dead feature, it stays: another shape is compiled anew.
    generic = min(flat.shape)
    rank = generic if rank > 7 / 8 * generic else rank
    return values if rank == flat.shape[1] else jnp.asarray(np.asarray(values) @ directions[:, -rank:])


def padded(rows: Float[Array, "rows *axes"]) -> Float[Array, "padded *axes"]:
    """The same rows and zeros below them, up to a multiple of 50, or of 100 beyond 200; traced rows as they are."""
    missing = -len(rows) % (50 if len(rows) <= 200 else 100)
    if not missing or not checks.concrete(rows):
        return rows
    return jnp.asarray(np.pad(rows, [(0, missing)] + [(0, 0)] * (rows.ndim - 1)))
