r"""Patterns stored in the four matrices of a 1-bit self-attention network.

Each of $W^q, W^k, W^v, W^o$ has $M$ rows of $\pm1$, one per pattern: $N$ semantic bits, the same
for all positions of a token, and $N_P$ positional bits. The window has $L = 2^{N_P}$ tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks

MATRICES = ("query", "key", "value", "output")
_PUBLISHED_ORDER = ("output", "value", "query", "key")  # in which the authors' code draws them


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PatternMatrix:
    r"""One of the four matrices $W^\alpha$.

    Attributes:
        words: `(features, sites)`, semantic bits, $\pm1$.
        positions: `(features, bits)`, positional bits, $\pm1$.
    """

    words: Float[Array, "features sites"]
    positions: Float[Array, "features bits"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Patterns:
    """The four matrices of a network, all of the same shapes.

    Made by `published_patterns` or `patterns_from_arrays`.
    """

    query: PatternMatrix
    key: PatternMatrix
    value: PatternMatrix
    output: PatternMatrix

    @property
    def features(self) -> int:
        """$M$, patterns in each matrix."""
        return self.query.words.shape[0]

    @property
    def sites(self) -> int:
        """$N$, semantic bits of a token."""
        return self.query.words.shape[1]

    @property
    def bits(self) -> int:
        """$N_P$, positional bits of a token."""
        return self.query.positions.shape[1]

    @property
    def window(self) -> int:
        """$L = 2^{N_P}$, tokens that are attended to."""
        return 2**self.bits

    def words(self) -> Float[Array, "4 features sites"]:
        """Return the semantic bits of query, key, value and output."""
        return jnp.stack([getattr(self, name).words for name in MATRICES])


def patterns_from_arrays(
    *,
    query: Sequence[ArrayLike],
    key: Sequence[ArrayLike],
    value: Sequence[ArrayLike],
    output: Sequence[ArrayLike],
) -> Patterns:
    r"""Build patterns from arrays of $\pm1$.

    Args:
        query, key, value, output: a pair of words `(features, sites)` and positions
            `(features, bits)`. The window is $L = 2^{bits}$.

    Raises:
        ValueError: entries other than $\pm1$, shapes that differ between matrices, single precision.
    """
    matrices = []
    for name, pair in zip(MATRICES, (query, key, value, output), strict=True):
        if len(checks.several(name, pair)) != 2:
            raise ValueError(f"{name}: wanted a pair of words and positions, got {len(pair)} arrays.")
        words, positions = pair
        words = _signs(f"{name}, words", words, "features sites")
        positions = _signs(f"{name}, positions", positions, "features bits")
        checks.same(name, "words", words.shape[0], "positions (features)", positions.shape[0])
        matrices.append(PatternMatrix(words, positions))
        for part in ("words", "positions"):
            wanted, got = (getattr(matrix, part).shape for matrix in (matrices[0], matrices[-1]))
            if wanted != got:
                raise ValueError(f"{name}, {part}: wanted shape {wanted} as in query, got {got}.")
    return Patterns(*matrices)


def published_patterns(
    seed: int = 1, *, features: int = 3, window: int = 4, segments: int | None = 3, sites: int = 99
) -> Patterns:
    r"""Draw patterns as the authors' code does; the defaults are the published setting.

    They are constant on equal segments of the sites, $W^\alpha_{a,i} = \eta^\alpha_{a,s(i)}$, $\eta = \pm1$.

    Args:
        seed: of NumPy's legacy generator.
        features: $M$.
        window: $L$, a power of two of at least 2; $N_P = \log_2 L$ random positional bits.
        segments: $S$, a divisor of `sites`; None for independent bits.
        sites: $N$. The mean field depends on the segments alone.

    Raises:
        ValueError: a window that is no power of two, sites that the segments do not divide.

    Source: published code of Poc-López & Aguilera (2024), one of its ensembles for each kind.
    """
    bits, columns = _positional_bits(window), sites if segments is None else segments
    features, columns = checks.whole("features", features), checks.whole("segments", columns)
    if checks.whole("sites", sites) % columns:
        raise ValueError(f"sites: wanted a multiple of the {columns} segments, got {sites}.")
    random = np.random.RandomState(checks.whole("seed", seed, 0, 2**32 - 1))

    def drawn(size: int) -> dict[str, np.ndarray]:
        return {name: random.randint(2, size=(features, size)) * 2 - 1 for name in _PUBLISHED_ORDER}

    random.randint(2, size=(features, 99 if segments else sites))  # a matrix that the authors do not use
    if segments:  # their code draws tables of 99 columns, of which it keeps the last as positions
        positions = {name: table[:, 99 - bits :] for name, table in drawn(99).items()}
        words = drawn(columns)
    else:
        words, positions = drawn(sites), drawn(bits)
    repeated = {name: np.repeat(table, sites // columns, axis=1) for name, table in words.items()}
    return patterns_from_arrays(**{name: (1.0 * repeated[name], 1.0 * positions[name]) for name in MATRICES})


def positional_code(window: int) -> Float[Array, "slots bits"]:
    r"""Return $p(c) \in \{-1, 1\}^{N_P}$ for slots $c = 0 .. L-1$: binary digits, most significant first, 0 as $-1$.

    Raises:
        ValueError: `window`, $L$, is not a power of two of at least 2.
    """
    bits = _positional_bits(window)
    digits = (np.arange(2**bits)[:, None] >> np.arange(bits)[::-1]) & 1
    return jnp.asarray(2.0 * digits - 1)


def pair_correlations(one: PatternMatrix, other: PatternMatrix) -> Float[Array, "features features"]:
    r"""Return $C_{ab} = N^{-1} \sum_i W_{a,i} W'_{b,i}$ of the semantic parts of two matrices.

    Args:
        one: $W$, the rows of the result.
        other: $W'$, its columns.
    """
    for name, matrix in (("one", one), ("other", other)):
        checks.instance(name, matrix, PatternMatrix, instead="Take one of the patterns, such as patterns.query.")
    checks.same("one and other", "sites of the one", one.words.shape[1], "the other", other.words.shape[1])
    return one.words @ other.words.T / one.words.shape[1]


class Terms(NamedTuple):
    r"""An average over sites as a sum over the distinct columns $\sigma_j$ of $W^o$, (B11).

    $\langle W^\alpha_a \tanh(\beta\, W^o \cdot \hat A) \rangle
    = \sum_j \rho^\alpha_{a,j} \tanh(\beta\, \sigma_j \cdot \hat A)$.
    """

    signs: Float[Array, "terms features"]  # sigma_j
    weights: Float[Array, "4 features terms"]  # rho^alpha_{a,j} of query, key, value, output


def site_terms(patterns: Patterns) -> Terms:
    """Return one term per distinct column of the output patterns, up to a sign since tanh is odd."""
    words = np.asarray(patterns.words())
    words = words * words[-1, 0]  # turn every site so that its first output pattern is +1
    first, place = distinct_columns(words[-1])
    sums = [[np.bincount(place, weights=row, minlength=len(first)) for row in table] for table in words]
    return Terms(jnp.asarray(words[-1][:, first].T), jnp.asarray(np.array(sums) / words.shape[2]))


def distinct_columns(table) -> tuple[np.ndarray, np.ndarray]:
    r"""Return where each distinct column of a table of $\pm1$ first stands, and which of them each column equals."""
    packed = np.ascontiguousarray(np.packbits(np.asarray(table) > 0, axis=0).T)
    codes = packed.view(f"V{packed.shape[1]}").ravel()  # a column as one string of bytes, which sorts fast
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    return first, place.ravel()


def _signs(name: str, value, axes: str):
    result = checks.array(name, value, axes, double=True)
    if checks.concrete(result) and not np.all(np.abs(np.asarray(result)) == 1):
        odd = np.asarray(result)[np.abs(np.asarray(result)) != 1][0]
        raise ValueError(f"{name}: wanted +1 or -1 everywhere, got {odd}. Map bits 0 and 1 with 2 * bits - 1.")
    return result


def _positional_bits(window) -> int:
    """Return $N_P$ of a window of $L$ tokens."""
    if not checks.is_whole(window, 2) or window not in [2**bits for bits in range(1, 32)]:
        raise ValueError(f"window: wanted a power of two of at least 2, got {window!r}: 2 to the positional bits.")
    return int(window).bit_length() - 1
