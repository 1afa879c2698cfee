r"""The average over sites as a short sum, $\langle W^\alpha_a \tanh(\beta\, W^o \cdot \hat A) \rangle = \sum_j \rho^\alpha_{a,j} \tanh(\beta\, \sigma_j \cdot \hat A)$.

Two ways to the same sum: over the distinct columns of $W^o$, (11), and over the odd characters of $\pm1$ variables, (9).
"""

import itertools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.dmft.pattern_correlations import Correlations
from statmech_attention.dmft.patterns import MATRICES, Patterns


class Terms(NamedTuple):
    r"""The terms of the sum.

    Attributes:
        signs: `(terms, features)`, $\sigma_j$.
        weights: `(4, features, terms)`, $\rho^\alpha_{a,j}$ for query, key, value and output.
    """

    signs: Float[Array, "terms features"]
    weights: Float[Array, "4 features terms"]


def site_terms(patterns: Patterns) -> Terms:
    r"""One term for every distinct column of $W^o$, where a column and its negative count as one, since $\tanh$ is odd.

    Args:
        patterns: with known values, not traced.

    Returns:
        `Terms`; as many as there are segments, at most, and never more than $2^{M-1}$.
    """
    words = np.stack([np.asarray(getattr(patterns, name).words) for name in MATRICES])
    words = words * words[-1, 0]  # turn every site so that its first output pattern is +1
    first, place = distinct_columns(words[-1])
    sums = [[np.bincount(place, weights=row, minlength=len(first)) for row in table] for table in words]
    return Terms(jnp.asarray(words[-1][:, first].T), jnp.asarray(np.array(sums) / words.shape[2]))


def character_terms(correlations: Correlations) -> Terms:
    r"""One term for each of the $2^{M-1}$ sign vectors with $\sigma_1 = 1$, from correlations alone.

    $\rho^\alpha_{a,j} = 2^{-(M-1)} \sum_T \prod_{b \in T} \sigma_{jb} \, C^{o\alpha}_{T,a}$.

    Args:
        correlations: $C^{o\alpha}_{T,a}$, as from `patterns.correlations`.

    Returns:
        `Terms`.
    """
    features = correlations.query.shape[1]
    signs = np.array([(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=features - 1)])
    characters = np.stack([np.prod(signs[:, subset], axis=1) for subset in correlations.subsets], axis=1)
    tables = np.stack([np.asarray(table) for table in correlations[1:]])
    return Terms(jnp.asarray(signs), jnp.asarray(np.einsum("jt,xta->xaj", characters, tables) / len(signs)))


def distinct_columns(table) -> tuple[np.ndarray, np.ndarray]:
    r"""Where each distinct column of a table of $\pm1$ first stands, and to which of them every column is equal."""
    packed = np.packbits(np.asarray(table) > 0, axis=0)
    padded = np.pad(packed, ((0, -len(packed) % 8), (0, 0)))  # to whole numbers of 64 bits, which sort fast
    codes = np.ascontiguousarray(padded.T).view(np.uint64)
    codes, axis = (codes[:, 0], None) if codes.shape[1] == 1 else (codes, 0)
    _, first, place = np.unique(codes, axis=axis, return_index=True, return_inverse=True)
    return first, place.ravel()
