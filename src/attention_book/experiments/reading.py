"""Reading what `Theory` recorded: accuracies at the best temperature, and the gain over the Gaussian-process limit.

And the samples that `Samples` recorded beside it.
"""

import os
from pathlib import Path

import numpy as np
import xarray as xr

from attention_book.experiments.networks import PLAIN
from statmech_attention import results

CHOSEN_BY = ("test", "validation")


def recorded_files(experiment: str, folder: str | os.PathLike, kind: str = PLAIN) -> list[Path]:
    """All records of an experiment on trained networks in a folder.

    Args:
        experiment: as for `experiment_file`.
        folder: of the results.
        kind: of the networks' layers, "heads" or "skip".

    Returns:
        Paths, sorted by name.

    Raises:
        ValueError: as `results.load`.
    """
    files = sorted(Path(folder).glob(f"{experiment}-*x*-seed*.nc"))
    return [path for path in files if results.record(path)["parameters"]["kind"] == kind]


def recorded_theories(folder: str | os.PathLike, kind: str = PLAIN) -> dict[str, xr.Dataset]:
    """All recorded theories in a folder.

    Args:
        folder: of the results.
        kind: of the networks' layers, "heads" or "skip".

    Returns:
        By name, such as "2x4-seed0", the dataset, with the parameters of the run as its attribute `made` and the wall
        time and device as `wall_seconds` and `device`.

    Raises:
        FileNotFoundError: there is none.
        ValueError: as `results.load`.
    """
    found = _recorded("theory", folder, kind)
    if not found:
        raise FileNotFoundError(f"{folder}: no recorded theory. Run `make reproduce`, or name another folder.")
    return found


def recorded_samples(folder: str | os.PathLike, sampler: str) -> dict[str, xr.Dataset]:
    """All samples in a folder that one sampler drew on trained networks of plain heads.

    Args:
        folder: of the results.
        sampler: "posterior" or "weights", as for `Samples`.

    Returns:
        By the network's name, such as "2x4-seed0", the dataset with attributes as `recorded_theories` gives them; empty
        where there are none.

    Raises:
        ValueError: as `results.load`.
    """
    return _recorded(sampler, folder, PLAIN)


def _recorded(experiment: str, folder: str | os.PathLike, kind: str) -> dict[str, xr.Dataset]:
    found = {}
    for path in recorded_files(experiment, folder, kind):
        made = results.record(path)
        facts = {"made": made["parameters"], "wall_seconds": made["wall_seconds"], "device": made["device"]}
        found[path.stem.removeprefix(f"{experiment}-")] = results.load(path).assign_attrs(facts)
    return found


def by_architecture(found: dict[str, xr.Dataset]) -> dict[tuple[int, int], list[str]]:
    """Names of the networks of one architecture, which differ in their seed.

    Args:
        found: the result of `recorded_theories`.

    Returns:
        By layers and heads, in this order.
    """
    kinds: dict[tuple[int, int], list[str]] = {}
    for name, dataset in found.items():
        kinds.setdefault((dataset.attrs["made"]["layers"], dataset.attrs["made"]["heads"]), []).append(name)
    return dict(sorted(kinds.items()))


def accuracies(found: xr.Dataset, *, limit: bool = False, chosen_by: str = "test") -> xr.DataArray:
    """Test accuracies at the temperature that is best for each draw, and each width.

    Args:
        found: a recorded theory.
        limit: of the Gaussian-process limit.
        chosen_by: "test": the temperature is best on the test sequences in distribution, as in the paper; "validation":
            on sequences of the validation classes, so that nothing is chosen by what is then shown.

    Returns:
        `(draw, width, test_set)`, without widths for the limit.

    Raises:
        ValueError: an unknown way to choose.
    """
    if chosen_by not in CHOSEN_BY:
        raise ValueError(f"chosen_by: wanted one of {', '.join(CHOSEN_BY)}, got {chosen_by!r}.")
    prefix = "gp_" if limit else ""
    if chosen_by == "test":
        best = found[f"{prefix}best_temperature"]
    else:
        best = found[f"{prefix}validation_accuracy"].idxmax("temperature")
    chosen = found[f"{prefix}accuracy"].sel(temperature=best).drop_vars("temperature")
    return chosen.transpose("draw", ..., "test_set")


def gains(found: xr.Dataset, *, chosen_by: str = "test") -> xr.DataArray:
    """How much better finite width is than the Gaussian-process limit, paired over draws, each at its best temperature.

    Args:
        found: a recorded theory.
        chosen_by: as for `accuracies`.

    Returns:
        `(draw, width, test_set)`.

    Raises:
        ValueError: as `accuracies`.
    """
    return accuracies(found, chosen_by=chosen_by) - accuracies(found, limit=True, chosen_by=chosen_by)


def telling_width(found: list[xr.Dataset]) -> float:
    """The width whose gain in distribution is largest, on average over draws and networks.

    Temperatures are chosen on the validation classes, so that luck at one temperature does not decide.

    Args:
        found: recorded theories over the same widths.

    Returns:
        A width.

    Raises:
        ValueError: theories over different widths, or none.
    """
    if not found or any(not np.array_equal(one["width"], found[0]["width"]) for one in found):
        raise ValueError("found: wanted at least one recorded theory, all over the same widths.")
    each = [gains(one, chosen_by="validation").isel(test_set=0).mean("draw") for one in found]
    return float(sum(each[1:], start=each[0]).idxmax("width"))
