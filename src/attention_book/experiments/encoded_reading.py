"""Records of experiments on an encoder: splits of a task together, and paired differences."""

import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import xarray as xr
from jaxtyping import Float

from attention_book import results
from attention_book.experiments.encoded_heads import CHOSEN_BY, EncodedHeads, named
from attention_book.experiments.encoded_inputs import MADE, TASKS
from attention_book.measures import student

RANDOM = "random"  # the mean over all random orders
# Names of the tasks in the book.
NAMES = {
    "description-entity": "description or entity",
    "entity-human": "entity or human",
    "reviews": "reviews",
    "spam": "spam",
    MADE: "made up",
}


class Difference(NamedTuple):
    """Excess of one accuracy over another."""

    mean: float  # over splits
    error: float  # its standard error, over splits or over test sentences, whichever is larger
    each: Float[np.ndarray, " splits"]

    @property
    def clear(self) -> bool:
        """True if it is positive by two standard errors."""
        return self.mean > 2 * self.error

    @property
    def half(self) -> float:
        """Half of Student's 95 % interval over splits; NaN for one split."""
        return student(len(self.each)) * self.error if len(self.each) > 1 else math.nan

    @property
    def sure(self) -> bool:
        """True if this interval lies above zero."""
        return self.mean > self.half


def encoder_records(folder: str | os.PathLike, maker: str = EncodedHeads.name) -> list[Path]:
    """All records of a maker in a folder, as for `recorded_splits`, sorted by name."""
    return sorted(Path(folder).glob(f"{maker}-*-seed*.nc"))


def recorded_splits(folder: str | os.PathLike, maker: str = EncodedHeads.name) -> dict[str, xr.Dataset]:
    """Datasets over `split` by task, in the order of `TASKS`, without stored inputs.

    The maker is "encoder", "masked", or a beginning of names, as "points400" or "points200-skips".
    """
    found: dict[str, list[xr.Dataset]] = {}
    for path in encoder_records(folder, maker):
        made = results.record(path)["parameters"]
        one = results.load(path)
        one = one.drop_vars([name for name in one.variables if str(name).startswith("stored_")])
        if "width" in one.dims:  # points of the deep network alone
            one = named(one, "deep")
        found.setdefault(made["task"], []).append(one.assign_coords(split=made["seed"]))
    if not found:
        raise FileNotFoundError(f"{folder}: no records. Run `make reproduce RUNS=workflow/sentences.yaml`.")
    return {task: xr.concat(found[task], "split", join="exact") for task in TASKS if task in found}


def heat_of(found: xr.Dataset, network: str = "deep", *, by: str = "evidence") -> xr.DataArray:
    """The temperature chosen for every split and width."""
    return found[f"{CHOSEN_BY[by]}_{network}"].idxmax("temperature")


def right_at(found: xr.Dataset, network: str = "deep", *, limit: bool = False) -> xr.DataArray:
    """Correctness on every test sentence at the finite width, or the limit, of the largest evidence."""
    width = f"width_{network}"
    among = found.sel({width: np.isinf(found[width].values) == limit})
    both = among.stack(point=(width, "temperature"))
    best = both[f"log_evidence_{network}"].argmax("point")
    return both[f"right_{network}"].isel(point=best).transpose("split", "sentence") / 2


def right_of_kept(
    found: xr.Dataset, order: str, network: str, *, most: float | int, by: str = "evidence"
) -> xr.DataArray:
    """Correctness on every test sentence, values refitted: the mean over up to `most` heads kept."""
    kept = found[f"learned_right_{network}"].sel(chosen_by=by)
    kept = kept.sel({f"kept_{network}": found[f"kept_{network}"] <= most}).mean(f"kept_{network}") / 2
    return of_order(kept, order, network).transpose("split", "sentence")


def of_order(values: xr.DataArray, order: str, network: str | None = None) -> xr.DataArray:
    """Values of one order of heads, or the mean over all random ones."""
    name = "order" if network is None else f"order_{network}"
    names = [one for one in values[name].values if one == order or order == RANDOM and str(one).startswith(RANDOM)]
    return values.sel({name: names}).mean(name)


def paired(first: xr.DataArray, second: xr.DataArray) -> Difference:
    """The difference of two accuracies on the same sentences."""
    apart = np.asarray(first, float) - np.asarray(second, float)
    splits, sentences = apart.shape
    over_sentences = math.sqrt(np.mean(apart.var(axis=1, ddof=1)) / (splits * sentences))
    each = apart.mean(axis=1)
    over_splits = float(each.std(ddof=1)) / math.sqrt(splits) if splits > 1 else 0.0
    return Difference(float(each.mean()), max(over_sentences, over_splits), each)
