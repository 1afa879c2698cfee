"""Orders of the heads of trained networks by measures of importance, from records."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float, Int

from attention_book import results
from attention_book.measures import half_interval
from attention_book.one_shot import layers_of
from attention_book.pruning.random_orders import Ordering, ordering
from statmech_attention.pruning.heads import removal_order

_DEFINITIONS = ("both", "either", "weighted")


class Pooled(NamedTuple):
    """A mean over networks."""

    value: float
    low: float  # end of the interval, NaN with fewer than two networks
    high: float
    networks: int


class HeadsOfNetwork(NamedTuple):
    """Records of the heads of one network."""

    measures: dict[str, Float[np.ndarray, " heads"]]  # by name; means over draws of training sequences
    drops: dict[str, Float[np.ndarray, " heads"]]  # by test set, in accuracy of the trained network without each head
    errors: dict[str, Float[np.ndarray, " heads"]]  # standard errors of the drops
    layers: tuple
    pruned: xr.Dataset  # the record of the pruning

    def lowest(self, measure: str) -> Int[np.ndarray, " removed"]:
        """The quarter of the heads that goes first by a measure."""
        return removal_order(self.measures[measure], layers=self.layers)[: self.pruned.sizes["of_choice"]]

    def costs(self, test_set: str) -> Float[np.ndarray, " choices"]:
        """Cost of every choice of a quarter of the heads, as a share of the accuracy above chance."""
        one = self.pruned.sel(test_set=test_set)
        return ((one["accuracy"] - one["choice_accuracy"]) / (one["accuracy"] - 0.5)).values

    def choice(self, removed) -> int:
        """Number of a choice of a quarter of the heads."""
        return int(np.flatnonzero((np.sort(self.pruned["choice_removed"].values) == np.sort(removed)).all(axis=1))[0])


def ordered(networks: Mapping, measure: str, by: str, *, within: bool = False) -> Ordering:
    """Agreement of a measure's order of heads with that by the drops on a test set or another measure."""
    every = [(unit, one) for unit, ones in networks.items() for one in (ones if isinstance(ones, list) else [ones])]
    pairs = [
        (one.measures.get(measure), one.drops.get(by, one.measures.get(by)), one.layers, unit) for unit, one in every
    ]
    pairs = [pair for pair in pairs if pair[0] is not None and pair[1] is not None]
    scores, drops, layers, units = zip(*pairs, strict=True)
    return ordering(scores, drops, layers=layers, units=units, within=within)


def recorded_seeds(*folders: str | os.PathLike, layers: tuple) -> dict[int, list[HeadsOfNetwork]]:
    """The networks of these layers by the seed that they share, in those of the folders that have any."""
    found: dict[int, list[HeadsOfNetwork]] = {}
    for folder in folders:
        for path in sorted(Path(folder).glob("pruning-*.nc")):
            if _layers(path) == layers:
                found.setdefault(int(path.stem.rsplit("seed", 1)[1]), []).append(_heads(path, layers))
    return dict(sorted(found.items()))


def recorded_heads(folder: str | os.PathLike) -> dict[str, HeadsOfNetwork]:
    """Records of the heads of all pruned networks in a folder, by name, such as "2x4-seed0"."""
    files = sorted(Path(folder).glob("pruning-*.nc"))
    if not files:
        raise FileNotFoundError(f"{folder}: no recorded pruning. Run `make reproduce`, or name another folder.")
    return {path.stem.removeprefix("pruning-"): _heads(path, _layers(path)) for path in files}


def _heads(path: Path, layers: tuple) -> HeadsOfNetwork:
    pruned, evidence = results.load(path), path.with_name(path.name.replace("pruning", "evidence", 1))
    scores = pruned["theory_score"].mean("draw")
    solved = [float(width) for width in pruned["width"].values]
    measures = {
        f"theory, {kind}, N = {width:g}": scores.sel(definition=kind, width=width).values
        for kind in _DEFINITIONS
        for width in solved
    }
    own = pruned.isel(test_set=0).mean("draw")
    for width in solved:
        measures[f"own drop, N = {width:g}"] = own["theory_drop"].sel(width=width).values
        measures[f"own drop, fitted, N = {width:g}"] = own["theory_drop_fitted"].sel(width=width).values
    # At the narrowest width, the only one solved anew.
    narrow = own["theory_accuracy"].sel(width=float(pruned["width"].min()))
    measures["own drop, anew"] = narrow.values - own["theory_anew_accuracy"].values
    if evidence.is_file():
        recorded = results.load(evidence)
        lost = recorded["lost"].mean("draw")
        measures |= {
            f"evidence lost{kind}, N = {width:g}": lost.sel(coefficients=coefficients, width=width).values
            for coefficients, kind in (("kept", ""), ("rescaled", " (rescaled)"))
            for width in recorded["width"].values
        }
    measures |= {str(name): pruned["score"].sel(criterion=name).values for name in pruned["criterion"].values}
    sets = [str(name) for name in pruned["test_set"].values]
    drops, errors = (dict(zip(sets, pruned[name].values, strict=True)) for name in ("drop", "drop_error"))
    return HeadsOfNetwork(measures, drops, errors, layers, pruned)


def pooled(values, *, bounds: Sequence[float | int] = (-1.0, 1.0)) -> Pooled:
    r"""Mean over networks, NaN left out, with Student's 95 % interval, cut off at the bounds."""
    values = np.asarray(values, float)
    values = values[~np.isnan(values)]
    if len(values) < 2:
        return Pooled(float(values.mean()) if len(values) else np.nan, np.nan, np.nan, len(values))
    half = half_interval(values)
    low, high = np.clip([values.mean() - half, values.mean() + half], bounds[0], bounds[1])
    return Pooled(float(values.mean()), float(low), float(high), len(values))


def _layers(path: Path) -> tuple:
    made = results.record(path)["parameters"]
    return layers_of(made["kind"], made["layers"], made["heads"])
