"""Records of `Theory` and `Samples`: accuracies, and gains over the Gaussian-process limit."""

import os
from pathlib import Path

import numpy as np
import xarray as xr

from attention_book import results
from statmech_attention import checks

PLAIN = "heads"
CHOSEN_BY = ("test", "validation")


def recorded_files(experiment: str, folder: str | os.PathLike, kind: str = PLAIN) -> list[Path]:
    """All records of an experiment on trained networks of a kind in a folder, sorted by name."""
    files = sorted(Path(folder).glob(f"{experiment}-*x*-seed*.nc"))
    return [path for path in files if results.record(path)["parameters"]["kind"] == kind]


def recorded_theories(folder: str | os.PathLike, kind: str = PLAIN) -> dict[str, xr.Dataset]:
    """All theories in a folder, by name, such as "2x4-seed0", with what `made` them as an attribute."""
    found = _recorded("theory", folder, kind)
    if not found:
        raise FileNotFoundError(f"{folder}: no recorded theory. Run `make reproduce`, or name another folder.")
    return found


def _recorded(experiment: str, folder: str | os.PathLike, kind: str) -> dict[str, xr.Dataset]:
    found = {}
    for path in recorded_files(experiment, folder, kind):
        made = results.record(path)
        facts = {"made": made["parameters"], "wall_seconds": made["wall_seconds"], "device": made["device"]}
        found[path.stem.removeprefix(f"{experiment}-")] = results.load(path).assign_attrs(facts)
    return found


def by_architecture(found: dict[str, xr.Dataset]) -> dict[tuple[int, int], list[str]]:
    """Names of the networks of each architecture, `(layers, heads)`, which differ in their seed."""
    kinds: dict[tuple[int, int], list[str]] = {}
    for name, dataset in found.items():
        kinds.setdefault((dataset.attrs["made"]["layers"], dataset.attrs["made"]["heads"]), []).append(name)
    return dict(sorted(kinds.items()))


def accuracies(found: xr.Dataset, *, limit: bool = False, chosen_by: str = "test") -> xr.DataArray:
    """Test accuracies of finite widths or of the limit, each draw and width at its best temperature.

    The best is chosen on the test sequences in distribution, as in the paper, or on "validation"
    ones.
    """
    prefix = "gp_" if limit else ""
    if checks.choice("chosen_by", chosen_by, CHOSEN_BY) == "test":
        best = found[f"{prefix}best_temperature"]
    else:
        best = found[f"{prefix}validation_accuracy"].idxmax("temperature")
    chosen = found[f"{prefix}accuracy"].sel(temperature=best).drop_vars("temperature")
    return chosen.transpose("draw", ..., "test_set", missing_dims="ignore")


def gains(found: xr.Dataset, *, chosen_by: str = "test") -> xr.DataArray:
    """Gains of finite width over the limit, paired over draws, each at its best temperature."""
    return accuracies(found, chosen_by=chosen_by) - accuracies(found, limit=True, chosen_by=chosen_by)


def telling_width(found: list[xr.Dataset]) -> float:
    """The width of the largest mean gain, at temperatures chosen on validation classes."""
    if any(not np.array_equal(one["width"], found[0]["width"]) for one in found):
        raise ValueError("found: wanted recorded theories over the same widths.")
    each = [gains(one, chosen_by="validation").isel(test_set=0).mean("draw") for one in found]
    return float(sum(each[1:], start=each[0]).idxmax("width"))
