r"""Averages over sites, as a short sum, and pair correlations of patterns.

$\langle W^\alpha_a \tanh(\beta\, W^o \cdot \hat A) \rangle
= \sum_j \rho^\alpha_{a,j} \tanh(\beta\, \sigma_j \cdot \hat A)$ over the distinct columns of $W^o$,
(B11).
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.dmft.patterns import MATRICES, PatternMatrix, Patterns


class Terms(NamedTuple):
    """Terms of the sum over j."""

    signs: Float[Array, "terms features"]  # sigma_j
    weights: Float[Array, "4 features terms"]  # rho^alpha_{a,j} of query, key, value, output


@checks.objects
def pair_correlations(one: PatternMatrix, other: PatternMatrix) -> Float[Array, "features features"]:
    r"""Return $C_{ab} = N^{-1} \sum_i W_{a,i} W'_{b,i}$ of the semantic parts of two matrices.

    Args:
        one: $W$, the rows of the result.
        other: $W'$, its columns.
    """
    checks.same("one and other", "sites of the one", one.words.shape[1], "the other", other.words.shape[1])
    return one.words @ other.words.T / one.words.shape[1]


def site_terms(patterns: Patterns) -> Terms:
    """Return one term per distinct column of the output patterns, up to a sign since tanh is odd."""
    words = np.stack([np.asarray(getattr(patterns, name).words) for name in MATRICES])
    words = words * words[-1, 0]  # turn every site so that its first output pattern is +1
    first, place = distinct_columns(words[-1])
    sums = [[np.bincount(place, weights=row, minlength=len(first)) for row in table] for table in words]
    return Terms(jnp.asarray(words[-1][:, first].T), jnp.asarray(np.array(sums) / words.shape[2]))


def distinct_columns(table) -> tuple[np.ndarray, np.ndarray]:
    r"""Return where each distinct column of a table of $\pm1$ first stands, and which of them each column equals."""
    packed = np.packbits(np.asarray(table) > 0, axis=0)
    padded = np.pad(packed, ((0, -len(packed) % 8), (0, 0)))  # to whole numbers of 64 bits, which sort fast
    codes = np.ascontiguousarray(padded.T).view(np.uint64)
    codes, axis = (codes[:, 0], None) if codes.shape[1] == 1 else (codes, 0)
    _, first, place = np.unique(codes, axis=axis, return_index=True, return_inverse=True)
    return first, place.ravel()
