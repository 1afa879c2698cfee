"""The random numbers of the published settings: NumPy's legacy generator in the order of the authors' code."""

import numpy as np

_ORDER = ("output", "value", "query", "key")


def segments(matrices: tuple[str, ...], seed: int, features: int, segments: int, bits: int):
    """Values on the segments and positional bits, both with the four matrices in front."""
    columns = 99  # of the tables that are drawn first, whatever the number of sites
    random = np.random.RandomState(seed)
    _signs(random, features, columns)
    positions = {name: _signs(random, features, columns)[:, columns - bits :] for name in _ORDER}
    blocks = {name: np.concatenate([_signs(random, 1, segments) for _ in range(features)]) for name in _ORDER}
    return _stacked(matrices, blocks, positions)


def independent(matrices: tuple[str, ...], seed: int, features: int, sites: int, bits: int):
    """Words and positional bits, both with the four matrices in front."""
    random = np.random.RandomState(seed)
    _signs(random, features, sites)  # a matrix that the authors' code draws and does not use
    words = {name: _signs(random, features, sites) for name in _ORDER}
    positions = {name: _signs(random, features, bits) for name in _ORDER}
    return _stacked(matrices, words, positions)


def _stacked(matrices: tuple[str, ...], *tables):
    return tuple(np.stack([table[name] for name in matrices]) for table in tables)


def _signs(random: np.random.RandomState, rows: int, columns: int) -> np.ndarray:
    return random.randint(2, size=(rows, columns)) * 2 - 1
