"""Comparison of order parameters: shares in blocks of a head, and agreement of two of them."""

import itertools
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int
from scipy.stats import rankdata

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers
from statmech_attention.layers.kind import Layer
from statmech_attention.model.paths import path_indices

COMPARED = ("ranks", "signs")

_MOST_RENUMBERINGS = 5000


class BlockShare(NamedTuple):
    """Share of the off-diagonal in the blocks of a layer."""

    value: float  # of the sum of absolute values; NaN if it is zero
    even: float  # the share if all entries were equally large


class Agreement(NamedTuple):
    """Agreement of two order parameters, and its distribution over renumberings of heads."""

    value: float  # rank correlation, or agreement of signs, between -1 and 1
    null_low: float  # of the central 95 % over renumberings of the heads
    null_high: float
    p_value: float  # share of renumberings, with the given one, that agree at least as well


def block_share(order_parameter: ArrayLike, *, layers: Layers, layer: int = 1) -> BlockShare:
    r"""Share of pairs of paths through the same head of layer $l$ in the off-diagonal."""
    matrix, paths = _matrix("order_parameter", order_parameter, layers)
    sizes, apart = np.abs(matrix), ~np.eye(len(paths), dtype=bool)
    inside = apart & _same_head(paths, layer - 1)
    total = sizes[apart].sum()
    return BlockShare(float(sizes[inside].sum() / total) if total else math.nan, float(inside.sum() / apart.sum()))


def agreement(
    order_parameter: ArrayLike,
    other: ArrayLike,
    *,
    layers: Layers,
    seed: int = 0,
    entries: str = "all",
    compared: str = "ranks",
    renumber: bool = True,
) -> Agreement:
    r"""Rank correlation of the entries of two order parameters, or agreement of their signs.

    Pairs of paths count once. For signs it is $\sum U \tilde U / \sum |U \tilde U|$. `entries`
    "blocks" are off-diagonal ones with the same head in layer 1. The permutation test is that of
    Mantel (1967), within layers; without `renumber` only the value is computed.
    """
    (one, paths), (two, _) = _matrix("order_parameter", order_parameter, layers), _matrix("other", other, layers)
    taken = _taken(entries, paths)
    if checks.choice("compared", compared, COMPARED) == "ranks":
        one, two = _ranked(one, taken), _ranked(two, taken)
    # A renumbering maps the chosen entries to each other: each pair once on one side is enough.
    once = np.triu(taken)
    orders = _renumberings(Chain.of(layers), np.random.default_rng(seed)) if renumber else [np.arange(len(paths))]
    left, right = one[once], np.stack([two[np.ix_(order, order)][once] for order in orders])
    products = left * right
    with np.errstate(invalid="ignore", divide="ignore"):
        size = (
            np.abs(products).sum(axis=1) if compared == "signs" else np.sqrt((left**2).sum() * (right**2).sum(axis=1))
        )
        found = products.sum(axis=1) / np.where(size > 0, size, np.nan)
    if not np.all(np.isfinite(found)):
        return Agreement(math.nan, math.nan, math.nan, math.nan)
    if not renumber:
        return Agreement(float(found[0]), math.nan, math.nan, math.nan)
    low, high = np.quantile(found, [0.025, 0.975])
    # Renumberings that change nothing differ from the given one by rounding alone.
    return Agreement(float(found[0]), float(low), float(high), float(np.mean(found >= found[0] - 1e-12)))


def _matrix(name: str, matrix, layers) -> tuple[Float[np.ndarray, "paths paths"], Int[np.ndarray, "paths layers"]]:
    matrix, paths = np.asarray(matrix, float), np.asarray(path_indices(layers))
    if matrix.shape != (len(paths),) * 2:
        raise ValueError(f"{name}: wanted shape {(len(paths),) * 2} for layers {tuple(layers)}, got {matrix.shape}.")
    return matrix, paths


def _same_head(paths, layer: int) -> Bool[np.ndarray, "paths paths"]:
    return paths[:, None, layer] == paths[None, :, layer]


def _taken(entries: str, paths) -> Bool[np.ndarray, "paths paths"]:
    diagonal = np.eye(len(paths), dtype=bool)
    choices = {
        "all": np.ones_like(diagonal),
        "diagonal": diagonal,
        "off-diagonal": ~diagonal,
        "blocks": ~diagonal & _same_head(paths, 0),
    }
    return choices[entries]


def _ranked(matrix, taken) -> Float[np.ndarray, "paths paths"]:
    """Replace the chosen entries by centred ranks, each pair of paths counted once."""
    once = np.triu(taken)
    ranks = np.zeros_like(matrix)
    values = rankdata(matrix[once])
    ranks[once] = values - values.mean()
    return np.where(np.tri(len(matrix), k=-1, dtype=bool), ranks.T, ranks)


def _renumberings(chain: Chain, random) -> list[Int[np.ndarray, " paths"]]:
    """Orders of the paths under renumberings of heads within layers: all, or a sample."""
    counts = chain.heads
    if math.prod(math.factorial(count) for count in counts) <= _MOST_RENUMBERINGS:
        chosen: Iterable[tuple] = itertools.product(*(itertools.permutations(range(count)) for count in counts))
    else:
        drawn = (tuple(random.permutation(count) for count in counts) for _ in range(_MOST_RENUMBERINGS - 1))
        chosen = itertools.chain([tuple(range(count) for count in counts)], drawn)

    def branches(layer: Layer, order) -> Int[np.ndarray, " branches"]:
        """Branch in the place of each; a skip keeps its place."""
        heads = layer.branch_heads
        return np.array([branch if head < 0 else heads.index(order[head]) for branch, head in enumerate(heads)])

    return [
        np.ravel_multi_index(
            [
                branches(layer, order)[column]
                for layer, order, column in zip(chain.layers, orders, chain.path_branches.T, strict=True)
            ],
            chain.branches,
        )
        for orders in chosen
    ]
