"""Rank correlations of head scores with the costs of removing heads."""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int
from scipy.stats import rankdata

from statmech_attention import checks
from statmech_attention.pruning.heads import head_indices


class RankCorrelation(NamedTuple):
    """Rank correlation with its bootstrap interval."""

    value: float  # Spearman's coefficient, the mean over networks; NaN if a network has none
    low: float
    high: float


class Ordering(NamedTuple):
    """Mean rank correlation over units, beside those of random orders."""

    value: float  # mean of `each`; NaN where no unit has one
    p: float  # one-sided: (1 + random orders with at least this value) / (1 + random orders)
    chance: tuple[float, float]  # central 95 % of random orders
    each: Float[np.ndarray, " units"]  # NaN where all scores, or all drops, are equal

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
    scores: Sequence,
    drops: Sequence,
    *,
    layers: Sequence,
    units: Sequence | None = None,
    seed: int = 0,
    within: bool = False,
    resamples: int = 20_000,
) -> Ordering:
    r"""Spearman's coefficient of scores and drops, a mean over units, with a permutation test.

    It is over all heads of a network, or within layers: $\sum_l (H_l - 1) \rho_l / \sum_l (H_l -
    1)$; the test permutes heads likewise. Networks with the same entry of `units` count once, and
    are permuted alike: they share their start.
    """
    names = list(range(len(scores)) if units is None else units)
    places = {name: number for number, name in enumerate(dict.fromkeys(names))}
    values: list[list[float]] = [[] for _ in places]
    orders = [np.zeros(resamples) for _ in places]
    for name, score, drop, own in zip(names, scores, drops, layers, strict=True):
        number = places[name]
        score, drop = (
            np.asarray(checks.array(name, one, "heads")) for name, one in (("scores", score), ("drops", drop))
        )
        layer = head_indices(own)[:, 0]
        if not len(score) == len(drop) == len(layer):
            raise ValueError(
                f"scores: wanted a score and a drop for each of {len(layer)} heads, got {len(score)} and {len(drop)}."
            )
        groups = [np.flatnonzero(layer == one) for one in np.unique(layer)] if within else [np.arange(len(layer))]
        found, chance, weight = 0.0, np.zeros(resamples), 0
        for place, group in enumerate(groups):
            first, second = (unit_ranks(one[group]) for one in (score, drop))
            if np.isnan(first @ second):
                continue
            found += (len(group) - 1) * float(first @ second)
            chance += (len(group) - 1) * (second[_places(len(group), resamples, (seed, number, place))] @ first)
            weight += len(group) - 1
        if weight:
            values[number].append(found / weight)
            orders[number] += chance / weight
    each = np.array([np.mean(one) if one else np.nan for one in values])
    if not np.any(np.isfinite(each)):
        return Ordering(np.nan, np.nan, (np.nan, np.nan), each)
    value = float(np.nanmean(each))
    total = np.mean([one / len(here) for one, here in zip(orders, values, strict=True) if here], axis=0)
    # The same sum in another order may differ in the last digit.
    p = (1 + int(np.sum(total >= value - 1e-12))) / (1 + resamples)
    low, high = np.quantile(total, [0.025, 0.975])
    return Ordering(value, p, (float(low), float(high)), each)


def rank_correlation(scores: ArrayLike, drops: ArrayLike, *, seed: int = 0, resamples: int = 2000) -> RankCorrelation:
    """Spearman's coefficient of scores and accuracy drops, with a 95 % bootstrap interval over heads."""
    scores, drops = np.atleast_2d(scores), np.atleast_2d(drops)
    value = float(np.mean([_spearman(*pair) for pair in zip(scores, drops, strict=True)]))
    networks, heads = scores.shape
    drawn = np.random.default_rng(seed).integers(heads, size=(resamples, networks, heads))
    rows = np.arange(networks)[None, :, None]
    found = _spearman(scores[rows, drawn], drops[rows, drawn]).mean(axis=-1)
    # A resample of one head alone has no correlation.
    found = found[np.isfinite(found)]
    if math.isnan(value) or not found.size:
        return RankCorrelation(math.nan, math.nan, math.nan)
    low, high = np.quantile(found, [0.025, 0.975])
    return RankCorrelation(value, float(low), float(high))


def _spearman(first, second):
    """Coefficient along the last axis; NaN where all entries are equal."""
    return (unit_ranks(first) * unit_ranks(second)).sum(axis=-1)


# Cached: a page has many scores of the same networks.
@functools.lru_cache(maxsize=256)
def _places(heads: int, orders: int, seed: tuple) -> Int[np.ndarray, "orders heads"]:
    """Random orders of heads."""
    every = np.tile(np.arange(heads, dtype=np.int16), (orders, 1))
    return np.random.default_rng(seed).permuted(every, axis=1)


def unit_ranks(values: Float[np.ndarray, "*sets heads"]) -> Float[np.ndarray, "*sets heads"]:
    """Centred ranks of length one along the last axis; NaN where all entries are equal."""
    ranks = rankdata(values, axis=-1)
    centred = ranks - ranks.mean(axis=-1, keepdims=True)
    length = np.sqrt((centred**2).sum(axis=-1, keepdims=True))
    return centred / np.where(length > 0, length, np.nan)
