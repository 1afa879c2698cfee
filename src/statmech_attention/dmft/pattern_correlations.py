"""Correlations of patterns: all that the mean field knows of them."""

import itertools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.dmft.patterns import MATRICES, PatternMatrix, Patterns


class Correlations(NamedTuple):
    r"""$C^{o\alpha}_{T,a} = \langle \prod_{b \in T} W^o_b \, W^\alpha_a \rangle$ for all sets $T$ of odd size, (9).

    Attributes:
        subsets: the sets $T$, smallest first; the first $M$ are single patterns.
        query, key, value, output: `(subsets, features)`.
    """

    subsets: tuple[tuple[int, ...], ...]
    query: Float[Array, "subsets features"]
    key: Float[Array, "subsets features"]
    value: Float[Array, "subsets features"]
    output: Float[Array, "subsets features"]


def pair_correlations(one: PatternMatrix, other: PatternMatrix) -> Float[Array, "features features"]:
    r"""$C_{ab} = N^{-1} \sum_i W_{a,i} W'_{b,i}$ of the semantic parts of two matrices.

    Args:
        one: $W$, the rows of the result.
        other: $W'$, its columns.

    Returns:
        `(features, features)`.
    """
    return one.words @ other.words.T / one.words.shape[1]


def correlations(patterns: Patterns) -> Correlations:
    r"""All correlations that the mean field depends on, $C^{o\alpha}_{T,a}$ of (9) for every set $T$ of odd size.

    Args:
        patterns: `Patterns` with known values, not traced; there are $2^{M-1}$ sets.

    Returns:
        `Correlations`.
    """
    subsets = tuple(
        subset
        for size in range(1, patterns.features + 1, 2)
        for subset in itertools.combinations(range(patterns.features), size)
    )
    words = {name: np.asarray(getattr(patterns, name).words) for name in MATRICES}
    products = np.stack([np.prod(words["output"][list(subset)], axis=0) for subset in subsets])
    return Correlations(subsets, *(jnp.asarray(products @ words[name].T / patterns.sites) for name in MATRICES))
