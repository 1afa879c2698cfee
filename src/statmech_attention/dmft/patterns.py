r"""Patterns stored in the four matrices of a 1-bit self-attention network.

Each of $W^q, W^k, W^v, W^o$ has $M$ rows of $\pm1$, one per pattern: $N$ semantic bits, the same
for all positions of a token, and $N_P$ positional bits. The window has $L = 2^{N_P}$ tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.checks import Key

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

    Made by `segment_patterns`, `random_patterns` or `patterns_from_arrays`.
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


def patterns_from_arrays(
    *,
    query: PatternMatrix | Sequence[ArrayLike] | ArrayLike,
    key: PatternMatrix | Sequence[ArrayLike] | ArrayLike,
    value: PatternMatrix | Sequence[ArrayLike] | ArrayLike,
    output: PatternMatrix | Sequence[ArrayLike] | ArrayLike,
) -> Patterns:
    r"""Build patterns from arrays of $\pm1$.

    Args:
        query, key, value, output: a pair of words `(features, sites)` and positions
            `(features, bits)`, or a `PatternMatrix`. The window is $L = 2^{bits}$.

    Raises:
        ValueError: entries other than $\pm1$, shapes that differ between matrices, single precision.
    """
    matrices = {}
    for name, pair in zip(MATRICES, (query, key, value, output), strict=True):
        if isinstance(pair, PatternMatrix):
            pair = (pair.words, pair.positions)
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(
                f"{name}: wanted a pair (words, positions) of shapes (features, sites) and (features, bits), "
                f"got {type(pair).__name__}."
            )
        words = _signs(f"{name}, words", pair[0], "features sites")
        positions = _signs(f"{name}, positions", pair[1], "features bits")
        checks.same(name, "words", words.shape[0], "positions (features)", positions.shape[0])
        matrices[name] = PatternMatrix(words, positions)
    for name in MATRICES[1:]:
        for part in ("words", "positions"):
            wanted, got = getattr(matrices["query"], part).shape, getattr(matrices[name], part).shape
            if wanted != got:
                raise ValueError(f"{name}, {part}: wanted shape {wanted} as in query, got {got}.")
    return Patterns(**matrices)


def segment_patterns(
    key: Key | None = None,
    *,
    seed: int | None = None,
    features: int = 3,
    segments: int = 3,
    window: int = 4,
    sites: int = 99,
) -> Patterns:
    r"""Draw patterns constant on equal segments of the sites, $W^\alpha_{a,i} = \eta^\alpha_{a,s(i)}$, $\eta = \pm1$.

    Args:
        key: a JAX random key; exactly one of `key` and `seed` is given.
        seed: of NumPy's legacy generator, drawn in the order of the authors' code. Seed 1 with
            the other arguments at their defaults is the published setting.
        features: $M$.
        segments: $S$, a divisor of `sites`.
        window: $L$, a power of two of at least 2; $N_P = \log_2 L$ random positional bits.
        sites: $N$. The mean field depends on the segments alone.

    Raises:
        ValueError: a window that is no power of two, both or none of `key` and `seed`.

    Source: settings of Poc-López & Aguilera (2024).
    """
    bits = _bits(window)
    features, segments, sites = (
        checks.whole(*pair) for pair in (("features", features), ("segments", segments), ("sites", sites))
    )
    if sites % segments:
        raise ValueError(f"sites: wanted a multiple of the {segments} segments, got {sites}.")
    if (seed := _source(key, seed)) is None:
        blocks, positions = _random_tables(key, features, segments, bits)
    else:
        columns = 99  # of the tables that are drawn first, whatever the number of sites
        random = np.random.RandomState(seed)
        _drawn(random, features, columns)
        positions = _ordered({one: _drawn(random, features, columns)[:, columns - bits :] for one in _PUBLISHED_ORDER})
        blocks = _ordered({one: _drawn(random, features, segments) for one in _PUBLISHED_ORDER})
    return _of_tables(np.repeat(blocks, sites // segments, axis=2), positions)


def random_patterns(
    key: Key | None = None, *, seed: int | None = None, features: int = 3, window: int = 4, sites: int = 99
) -> Patterns:
    r"""Draw patterns of independent $\pm1$: their correlations are of order $N^{-1/2}$.

    Args:
        key: a JAX random key; exactly one of `key` and `seed` is given.
        seed: of NumPy's legacy generator, drawn in the order of the authors' code.
        features: $M$.
        window: $L$, a power of two of at least 2.
        sites: $N$.

    Raises:
        ValueError: a window that is no power of two, both or none of `key` and `seed`.
    """
    bits = _bits(window)
    features, sites = checks.whole("features", features), checks.whole("sites", sites)
    if (seed := _source(key, seed)) is None:
        return _of_tables(*_random_tables(key, features, sites, bits))
    random = np.random.RandomState(seed)
    _drawn(random, features, sites)  # a matrix that the authors' code draws and does not use
    words = _ordered({name: _drawn(random, features, sites) for name in _PUBLISHED_ORDER})
    return _of_tables(words, _ordered({name: _drawn(random, features, bits) for name in _PUBLISHED_ORDER}))


def positional_code(window: int) -> Float[Array, "slots bits"]:
    r"""Return $p(c) \in \{-1, 1\}^{N_P}$ for slots $c = 0 .. L-1$: binary digits, most significant first, 0 as $-1$.

    Raises:
        ValueError: `window`, $L$, is not a power of two of at least 2.
    """
    bits = _bits(window)
    digits = (np.arange(2**bits)[:, None] >> np.arange(bits)[::-1]) & 1
    return jnp.asarray(2.0 * digits - 1)


def _of_tables(words, positions) -> Patterns:
    """Build patterns from arrays whose first axis is the matrix."""
    pairs = zip(jnp.asarray(words, dtype=float), jnp.asarray(positions, dtype=float), strict=True)
    return patterns_from_arrays(**dict(zip(MATRICES, pairs, strict=True)))


def _random_tables(key, features: int, sites: int, bits: int):
    first, second = jax.random.split(key)
    words = jax.random.rademacher(first, (len(MATRICES), features, sites))
    return np.asarray(words), np.asarray(jax.random.rademacher(second, (len(MATRICES), features, bits)))


def _ordered(tables: dict[str, np.ndarray]) -> np.ndarray:
    return np.stack([tables[name] for name in MATRICES])


def _drawn(random: np.random.RandomState, rows: int, columns: int) -> np.ndarray:
    return random.randint(2, size=(rows, columns)) * 2 - 1


def _source(key, seed) -> int | None:
    """Check that there is one source of random numbers; return the seed if it is that."""
    if (key is None) == (seed is None):
        raise ValueError(f"key, seed: wanted exactly one of them, got {'both' if seed is not None else 'none'}.")
    if seed is None:
        checks.key("key", key)
        return None
    return checks.whole("seed", seed, 0, 2**32 - 1)  # the range of NumPy's legacy generator


def _signs(name: str, value, axes: str):
    result = checks.array(name, value, axes, double=True)
    if checks.concrete(result) and not np.all(np.abs(np.asarray(result)) == 1):
        odd = np.asarray(result)[np.abs(np.asarray(result)) != 1][0]
        raise ValueError(f"{name}: wanted +1 or -1 everywhere, got {odd}. Map bits 0 and 1 with 2 * bits - 1.")
    return result


def _bits(window) -> int:
    """Return $N_P$ of a window of $L$ tokens."""
    if not checks.is_whole(window, 2) or int(window) & (int(window) - 1):
        raise ValueError(
            f"window: wanted a power of two of at least 2, got {window!r}. It is 2 to the positional bits."
        )
    return int(window).bit_length() - 1
