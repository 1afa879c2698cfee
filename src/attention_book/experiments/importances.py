"""How well measures of a head's importance order the heads of trained networks, from what was recorded of them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float, Int
from scipy.stats import t as student

from attention_book.arguments import Number, Numbers
from attention_book.pruning.random_orders import Ordering, ordering
from statmech_attention import results
from statmech_attention.pruning.removal import removal_order
from statmech_attention.training import load_network

CEILING = "leave one out"
_DEFINITIONS = ("both", "either", "weighted")


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
        drops: by test set what the removal of every head costs the trained network in accuracy.
        errors: their standard errors.
        heads: the layers, as `heads` spells them.
        pruned: the record itself.
    """

    measures: dict[str, Float[np.ndarray, " heads"]]
    drops: dict[str, Float[np.ndarray, " heads"]]
    errors: dict[str, Float[np.ndarray, " heads"]]
    heads: tuple
    pruned: xr.Dataset

    def lowest(self, measure: str) -> Int[np.ndarray, " removed"]:
        """The quarter of the heads that goes first by a measure."""
        return removal_order(self.measures[measure], heads=self.heads)[: self.pruned.sizes["of_choice"]]

    def costs(self, test_set: str) -> Float[np.ndarray, " choices"]:
        """What every choice of a quarter of the heads costs in accuracy."""
        one = self.pruned.sel(test_set=test_set)
        return (one["accuracy"] - one["choice_accuracy"]).values

    def cost(self, removed, test_set: str) -> tuple[float, float]:
        """What the choice `removed` of a quarter of the heads costs, and the share of all choices that cost less."""
        same = (np.sort(self.pruned["choice_removed"].values) == np.sort(removed)).all(axis=1)
        costs = self.costs(test_set)
        return float(costs[same][0]), float(np.mean(costs < costs[same][0]))


def ordered(networks: Mapping[str, HeadsOfNetwork], measure: str, by: str, *, within: bool = False) -> Ordering:
    """How a measure orders the heads of networks, by what removing them costs or by another measure.

    Args:
        networks: the result of `recorded_heads`, or some of them.
        measure: a name among the measures.
        by: a test set, for the drops of the trained networks there; or another measure, such as the theory's own drops.
        within: within layers.

    Returns:
        `Ordering` over the networks that have both.

    Raises:
        ValueError: no network has both.
    """
    pairs = [
        (one.measures.get(measure), one.drops.get(by, one.measures.get(by)), one.heads) for one in networks.values()
    ]
    pairs = [pair for pair in pairs if pair[0] is not None and pair[1] is not None]
    if not pairs:
        raise ValueError(f"measure: wanted one that a network has together with {by!r}, got {measure!r}.")
    scores, drops, heads = zip(*pairs, strict=True)
    return ordering(scores, drops, heads=heads, within=within)


def recorded_heads(folder: str | os.PathLike, widths: Sequence | None = None) -> dict[str, HeadsOfNetwork]:
    """Importances of the heads of all networks in a folder whose pruning was recorded.

    Args:
        folder: of the results; evidence lost is there for networks for which it was recorded, too.
        widths: $N$ of the theory's scores, all of them where None; evidence lost is given at all widths at which it was
            recorded.

    Returns:
        By name, such as "2x4-seed0". Measures are the theory's scores, as "theory, either, N = 10"; the drops in distribution
        of the theory's own predictor, as "own drop, N = 10" and "own drop, fitted, N = 10", and "own drop, anew"; evidence
        lost; and all that was recorded by criterion.

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
            results.load(path),
            results.load(evidence) if evidence.is_file() else None,
            widths,
            load_network(path.with_name(path.name.replace("pruning", "network", 1))).heads,
        )
    wanted = [f"theory, {kind}, N = {width:g}" for width in widths or () for kind in _DEFINITIONS]
    missing = [name for name in wanted if not any(name in one.measures for one in found.values())]
    if missing:
        raise ValueError(f"widths: wanted some that a theory was solved at, got others: no {'; no '.join(missing)}.")
    return found


def _heads(pruned: xr.Dataset, evidence: xr.Dataset | None, widths: Sequence | None, heads: tuple) -> HeadsOfNetwork:
    scores = pruned["theory_score"].mean("draw")
    solved = [float(width) for width in pruned["width"].values]
    known = solved if widths is None else [width for width in widths if width in solved]
    measures = {
        f"theory, {kind}, N = {width:g}": scores.sel(definition=kind, width=width).values
        for kind in _DEFINITIONS
        for width in known
    }
    own = pruned.isel(test_set=0).mean("draw")
    for width in known:
        measures[f"own drop, N = {width:g}"] = own["theory_drop"].sel(width=width).values
        measures[f"own drop, fitted, N = {width:g}"] = own["theory_drop_fitted"].sel(width=width).values
    # At the narrowest width, the only one solved anew.
    narrow = own["theory_accuracy"].sel(width=float(pruned["width"].min()))
    measures["own drop, anew"] = narrow.values - own["theory_anew_accuracy"].values
    if evidence is not None:
        lost = evidence["lost"].mean("draw")
        measures |= {
            f"evidence lost{kind}, N = {width:g}": lost.sel(coefficients=coefficients, width=width).values
            for coefficients, kind in (("kept", ""), ("rescaled", " (rescaled)"))
            for width in evidence["width"].values
        }
    measures |= {str(name): pruned["score"].sel(criterion=name).values for name in pruned["criterion"].values}
    sets = [str(name) for name in pruned["test_set"].values]
    return HeadsOfNetwork(
        measures,
        dict(zip(sets, pruned["drop"].values, strict=True)),
        dict(zip(sets, pruned["drop_error"].values, strict=True)),
        heads,
        pruned,
    )


def pooled(values: Numbers, *, confidence_level: Number = 0.95, bounds: Numbers = (-1.0, 1.0)) -> Pooled:
    r"""Mean over networks with Student's interval, $\bar\rho \pm t_{n-1} s / \sqrt n$, for the mean over all of their kind.

    Args:
        values: one number a network, NaN for those that have none.
        confidence_level: how often such an interval holds the true mean, if the numbers are independent and about normal.
        bounds: the interval is cut off there.

    Returns:
        `Pooled`.

    Raises:
        ValueError: a confidence level that is not between 0 and 1, or infinite numbers.
    """
    if not 0 < confidence_level < 1:
        raise ValueError(f"confidence_level: wanted a number in (0, 1), got {confidence_level!r}.")
    values = np.asarray(values, float)
    if np.any(np.isinf(values)):
        raise ValueError("values: wanted finite numbers, or NaN for a network that has none, got infinity.")
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return Pooled(float(values.mean()) if len(values) else np.nan, np.nan, np.nan, len(values))
    half = student.ppf(0.5 + confidence_level / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    low, high = np.asarray(bounds, float)
    ends = np.clip([values.mean() - half, values.mean() + half], low, high)
    return Pooled(float(values.mean()), float(ends[0]), float(ends[1]), len(values))
