"""How well measures of a head's importance order the heads of trained networks, from what was recorded of them."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float
from scipy.stats import t as student

from statmech_attention import checks, results
from statmech_attention.pruning.importance import RankCorrelation, rank_correlation

CEILING = "leave one out"
# Of what `pruning` records by criterion, that which needs no order parameter.
_WITHOUT_THEORY = ("weights", "values", "Taylor", CEILING)
_DEFINITIONS = ("both", "either")


class Pooled(NamedTuple):
    """A mean over networks.

    Attributes:
        value: the mean.
        low: lower end of the interval, NaN with fewer than two networks.
        high: upper end.
        networks: how many.
    """

    value: float
    low: float
    high: float
    networks: int


class HeadsOfNetwork(NamedTuple):
    """What was recorded of the heads of one network.

    Attributes:
        measures: by name a number for every head; theory and evidence lost are means over draws of training sequences.
        drops: by test set what the removal of every head costs in accuracy.
        errors: their standard errors.
    """

    measures: dict[str, Float[np.ndarray, " heads"]]
    drops: dict[str, Float[np.ndarray, " heads"]]
    errors: dict[str, Float[np.ndarray, " heads"]]

    def correlation(self, measure: str, test_set: str) -> RankCorrelation:
        """Rank correlation of a measure with the drops, with its bootstrap interval over heads; NaN where one is missing."""
        if measure not in self.measures or test_set not in self.drops:
            return RankCorrelation(np.nan, np.nan, np.nan)
        return rank_correlation(self.measures[measure], self.drops[test_set])


def recorded_heads(folder: str | os.PathLike, widths: Sequence) -> dict[str, HeadsOfNetwork]:
    """Importances of the heads of all networks in a folder whose pruning was recorded.

    Args:
        folder: of the results; evidence lost is there for networks for which it was recorded, too.
        widths: $N$ of the theory's scores; evidence lost is given at all widths at which it was recorded.

    Returns:
        By name, such as "2x4-seed0".

    Raises:
        FileNotFoundError: no pruning was recorded.
        ValueError: a width that no theory has; as `results.load`.
    """
    files = sorted(Path(folder).glob("pruning-*.nc"))
    if not files:
        raise FileNotFoundError(f"{folder}: no recorded pruning. Run `make reproduce`, or name another folder.")
    found = {}
    for path in files:
        evidence = path.with_name(path.name.replace("pruning", "evidence", 1))
        found[path.stem.removeprefix("pruning-")] = _heads(
            results.load(path), results.load(evidence) if evidence.is_file() else None, widths
        )
    wanted = [f"theory, {kind}, N = {width:g}" for width in widths for kind in _DEFINITIONS]
    missing = [name for name in wanted if not any(name in one.measures for one in found.values())]
    if missing:
        raise ValueError(f"widths: wanted some that a theory was solved at, got others: no {'; no '.join(missing)}.")
    return found


def _heads(pruned: xr.Dataset, evidence: xr.Dataset | None, widths: Sequence) -> HeadsOfNetwork:
    scores = pruned["theory_score"].mean("draw")
    measures = {
        f"theory, {kind}, N = {width:g}": scores.sel(definition=kind, width=width).values
        for kind in _DEFINITIONS
        for width in widths
        if width in pruned["width"]
    }
    if evidence is not None:
        lost = evidence["lost"].mean("draw")
        measures |= {
            f"evidence lost{kind}, N = {width:g}": lost.sel(coefficients=coefficients, width=width).values
            for coefficients, kind in (("kept", ""), ("rescaled", " (rescaled)"))
            for width in evidence["width"].values
        }
    measures |= {name: pruned["score"].sel(criterion=name).values for name in _WITHOUT_THEORY}
    sets = [str(name) for name in pruned["test_set"].values]
    return HeadsOfNetwork(
        measures,
        dict(zip(sets, pruned["drop"].values, strict=True)),
        dict(zip(sets, pruned["drop_error"].values, strict=True)),
    )


def pooled(values, *, level=0.95, bounds=(-1.0, 1.0)) -> Pooled:
    r"""Mean over networks with Student's interval, $\bar\rho \pm t_{n-1} s / \sqrt n$, for the mean over all of their kind.

    Args:
        values: one number a network, NaN for those that have none.
        level: how often such an interval holds the true mean, if the numbers are independent and about normal.
        bounds: the interval is cut off there.

    Returns:
        `Pooled`.

    Raises:
        ValueError: a level that is not between 0 and 1, or infinite numbers.
    """
    if not 0 < level < 1:
        raise ValueError(f"level: wanted a number in (0, 1), got {level!r}.")
    values = np.asarray(values, float)
    if np.any(np.isinf(values)):
        raise ValueError("values: wanted finite numbers, or NaN for a network that has none, got infinity.")
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return Pooled(float(values.mean()) if len(values) else np.nan, np.nan, np.nan, len(values))
    half = student.ppf(0.5 + level / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    ends = np.clip([values.mean() - half, values.mean() + half], *bounds)
    return Pooled(float(values.mean()), float(ends[0]), float(ends[1]), len(values))


def by_chance(heads: Sequence[int], *, level=0.95, draws: int = 20_000, seed: int = 0) -> tuple[float, float]:
    """The central share of mean rank correlations over networks, if a measure had nothing to do with the drops.

    Args:
        heads: how many heads each network has.
        level: the share.
        draws: how often the heads of all networks are ordered at random.
        seed: of these orders.

    Returns:
        The two ends.

    Raises:
        ValueError: no network, or one of fewer than two heads; numbers out of range.
    """
    if not len(heads) or not all(checks.is_whole(count, 2) for count in heads):
        raise ValueError(f"heads: wanted at least 2 of every network, and at least one network, got {list(heads)}.")
    if not checks.is_whole(draws, 1) or not 0 < level < 1:
        raise ValueError(f"draws and level: wanted a whole number and a number in (0, 1), got {draws!r} and {level!r}.")
    random, total = np.random.default_rng(seed), np.zeros(int(draws))
    for count in heads:
        ranks = np.arange(count) - (count - 1) / 2
        orders = random.permuted(np.tile(ranks, (int(draws), 1)), axis=1)
        total += orders @ ranks / (ranks @ ranks)
    low, high = np.quantile(total / len(heads), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
