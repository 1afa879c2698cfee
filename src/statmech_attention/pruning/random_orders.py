"""How well a score orders the heads of several networks by what their removal costs, against orders at random."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata

from statmech_attention import checks
from statmech_attention.pruning.heads import head_indices


class Ordering(NamedTuple):
    """A mean rank correlation over networks, beside what random orders give.

    Attributes:
        value: the mean of `each`; NaN where no network has one.
        p: how often heads in random order give at least as much, one-sided: (1 + such orders) / (1 + orders tried).
        chance: ends of the central 95 % of what random orders give.
        each: of every network; NaN where all its scores, or all its drops, are equal.
    """

    value: float
    p: float
    chance: tuple[float, float]
    each: Float[np.ndarray, " networks"]

    @property
    def in_words(self) -> str:
        """Value and p for a running text, as in "+0.53, p = 0.002"."""
        return f"{self.value:+.2f}, p {self._p('= ', '< ')}"

    @property
    def in_table(self) -> str:
        """Value and p for a table, as in "+0.53 (0.002)"."""
        return f"{self.value:+.2f} ({self._p('', '<')})"

    def _p(self, equal: str, less: str) -> str:
        return f"{equal}{self.p:.3f}" if self.p >= 0.001 else f"{less}0.001"


def ordering(
    scores: Sequence, drops: Sequence, *, heads: Sequence, seed: int = 0, within: bool = False, resamples: int = 20_000
) -> Ordering:
    r"""Spearman's rank correlation of scores and drops, a mean over networks, with a permutation test.

    Over all heads of a network, or within its layers: the coefficients of the layers, weighted with $H_l - 1$,
    $\rho = \sum_l (H_l - 1) \rho_l / \sum_l (H_l - 1)$. A score may order heads well within layers and badly between them.
    The test gives every network's heads new places at random, within layers where the coefficient is within layers.

    Args:
        scores: one array `(all heads,)` a network.
        drops: the same.
        heads: of every network the number of heads in every layer, or layers of other kinds among them.
        seed: of the orders.
        within: within layers.
        resamples: how many random orders.

    Returns:
        `Ordering`.

    Raises:
        ValueError: no network, unequal numbers of heads, NaN or infinity, fewer than one order.
    """
    lists = {"scores": scores, "drops": drops, "heads": heads}
    scores, drops, heads = (checks.listed(name, one, "one a network") for name, one in lists.items())
    if not len(scores) == len(drops) == len(heads):
        raise ValueError(
            f"scores: wanted scores, drops and heads of the same networks, at least one, got {len(scores)}, {len(drops)} "
            f"and {len(heads)}."
        )
    resamples, seed = checks.whole("resamples", resamples), checks.seed("seed", seed)
    each, total = np.full(len(scores), np.nan), np.zeros(resamples)
    for number, (score, drop, layers) in enumerate(zip(scores, drops, heads, strict=True)):
        score, drop = (
            np.asarray(checks.array(name, one, "heads")) for name, one in (("scores", score), ("drops", drop))
        )
        layer = head_indices(layers)[:, 0]
        if not len(score) == len(drop) == len(layer):
            raise ValueError(
                f"scores: wanted a score and a drop for each of {len(layer)} heads, got {len(score)} and {len(drop)}."
            )
        groups = [np.flatnonzero(layer == one) for one in np.unique(layer)] if within else [np.arange(len(layer))]
        found, chance, weight = 0.0, np.zeros(resamples), 0
        for place, group in enumerate(groups):
            first, second = (unit_ranks(values[group]) for values in (score, drop))
            if np.isnan(first @ second):
                continue
            found += (len(group) - 1) * float(first @ second)
            chance += (len(group) - 1) * (second[_places(len(group), resamples, (seed, number, place))] @ first)
            weight += len(group) - 1
        if weight:
            each[number] = found / weight
            total += chance / weight
    networks = int(np.isfinite(each).sum())
    if not networks:
        return Ordering(np.nan, np.nan, (np.nan, np.nan), each)
    value, total = float(np.nanmean(each)), total / networks
    # The same sum in another order may differ in the last digit.
    p = (1 + int(np.sum(total >= value - 1e-12))) / (1 + resamples)
    low, high = np.quantile(total, [0.025, 0.975])
    return Ordering(value, p, (float(low), float(high)), each)


# Kept, because a page asks for many scores of the same networks.
@functools.lru_cache(maxsize=256)
def _places(heads: int, orders: int, seed: tuple) -> Int[np.ndarray, "orders heads"]:
    """Random orders of so many heads."""
    every = np.tile(np.arange(heads, dtype=np.int16), (orders, 1))
    return np.random.default_rng(seed).permuted(every, axis=1)


def unit_ranks(values: Float[np.ndarray, "*sets heads"]) -> Float[np.ndarray, "*sets heads"]:
    """Centred ranks of length one along the last axis, equal entries averaged; NaN where all are equal.

    Args:
        values: finite numbers.

    Returns:
        The same shape; the product of two such sets is Spearman's coefficient.
    """
    ranks = rankdata(values, axis=-1)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=-1, keepdims=True))
    return centred / np.where(length > 0, length, np.nan)
