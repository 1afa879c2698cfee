"""How well a score orders the heads of several networks by what their removal costs, against orders at random."""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.stats import rankdata

from attention_book.arguments import Numbers
from statmech_attention import checks
from statmech_attention.pruning.heads import head_indices


class RankCorrelation(NamedTuple):
    """A rank correlation with its bootstrap interval.

    Attributes:
        value: Spearman's coefficient, the mean over networks; NaN where a network gives none.
        low: lower end of the interval.
        high: its upper end.
    """

    value: float
    low: float
    high: float


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
def rank_correlation(
    scores: Numbers, drops: Numbers, *, seed: int = 0, resamples: int = 2000, confidence_level: float = 0.95
) -> RankCorrelation:
    """Spearman's rank correlation of scores and accuracy drops of heads, with a bootstrap interval over heads.

    Heads are drawn anew with replacement, within each network. With 8 heads the interval is rough; that of several
    networks is better.

    Args:
        scores: `(all heads,)`, or `(networks, all heads)` for the mean coefficient of several networks.
        drops: the same shape.
        seed: of these draws.
        resamples: how often heads are drawn anew.
        confidence_level: share of the resampled coefficients inside the interval.

    Returns:
        `RankCorrelation`.

    Raises:
        ValueError: unequal shapes, NaN or infinity, numbers out of range.
    """
    axes = ("heads", "networks heads")[checks.axes(scores) == 2]
    scores, drops = checks.known("scores", scores, axes), checks.known("drops", drops, axes)
    if scores.shape != drops.shape or scores.ndim not in (1, 2) or not scores.size:
        raise ValueError(
            f"scores and drops: wanted equal shapes (heads,) or (networks, heads), got {scores.shape} and {drops.shape}."
        )
    resamples = checks.whole("resamples", resamples)
    share = checks.real(confidence_level)
    if share is None or not 0 < share < 1:
        raise ValueError(f"confidence_level: wanted a number in (0, 1), got {confidence_level!r}.")
    scores, drops = np.atleast_2d(scores), np.atleast_2d(drops)
    value = float(np.mean([_spearman(*pair) for pair in zip(scores, drops, strict=True)]))
    networks, heads = scores.shape
    drawn = np.random.default_rng(checks.seed("seed", seed)).integers(heads, size=(resamples, networks, heads))
    rows = np.arange(networks)[None, :, None]
    found = _spearman(scores[rows, drawn], drops[rows, drawn]).mean(axis=-1)
    # A draw of one head alone, many times over, has no correlation.
    found = found[np.isfinite(found)]
    if math.isnan(value) or not found.size:
        return RankCorrelation(math.nan, math.nan, math.nan)
    low, high = np.quantile(found, [(1 - share) / 2, (1 + share) / 2])
    return RankCorrelation(value, float(low), float(high))


def _spearman(first, second):
    """Along the last axis; NaN where all entries are equal."""
    return (unit_ranks(first) * unit_ranks(second)).sum(axis=-1)


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
