"""The table of results: one row a solve, kept in a netCDF file that grows case by case."""

import functools
import json
import os
import platform
from pathlib import Path

import numpy as np
import xarray as xr

from attention_book import records
from benchmarks.checksums import CHECKSUMS
from statmech_attention import results

_UNITS = {
    "seconds": ("s", "a solve after compilation, the fastest of several"),
    "seconds_first": (
        "s",
        "the first solve, with compilation (and one more evaluation) where the shape is new in its process",
    ),
    "peak_megabytes": ("MiB", "peak resident memory of the process, Python and JAX included"),
    "gradient": ("", "largest entry of the gradient at the end, in the minimiser's coordinates"),
    "evaluations": ("", "evaluations of action and gradient; trial steps for ours"),
    "load": ("", "processes that were waiting for a core before the case began, on average over a minute"),
}
# Raised by hand when what is measured changes: rows of different revisions do not stand in one table.
REVISION = 2  # 2: all stop at a gradient, nobody is told the minimum

_TEXTS = ("group", "minimiser", "heads", "case")


class Table:
    """Rows of results by case, written to `path` after every case.

    Args:
        path: the netCDF file. Rows that this revision has made on this machine before are kept.
        fresh: forget them.
    """

    def __init__(self, path: Path, *, fresh: bool = False):
        self.path = path
        self.rows: list[dict] = []
        if not fresh:
            self.rows = [{**row, **{name: str(row[name]) for name in _TEXTS}} for row in read(path)]

    def has(self, case: dict) -> bool:
        """True where the rows of a case are there."""
        return any(row["case"] == _key(case) for row in self.rows)

    def add(self, case: dict, rows: list[dict], wall_seconds: float) -> None:
        """Add the rows of a case and write the file."""
        labels = {"group": case["group"], "minimiser": case["minimiser"], "case": _key(case)}
        self.rows += [{**row, **labels, "heads": json.dumps(row["heads"])} for row in rows]
        write(self.path, self.rows, _UNITS, maker="benchmark of the minimisers", wall_seconds=wall_seconds)


def read(path: Path) -> list[dict]:
    """The rows of a file that this revision has made on this machine; none where there is no such file."""
    if not records.is_current(path, machine(), revision=REVISION):
        return []
    dataset = results.load(path)
    rows = [dataset.isel(row=index) for index in range(dataset.sizes["row"])]
    return [{name: value.item() for name, value in row.data_vars.items()} for row in rows]


def write(path: Path, rows: list[dict], units: dict, *, maker: str, wall_seconds: float | None = None) -> None:
    """Rows as a netCDF file: a variable a column, with its unit and what it means; and the maker's checksum."""
    dataset = xr.Dataset({name: ("row", np.array([row[name] for row in rows])) for name in rows[0]})
    for name, (unit, text) in units.items():
        dataset[name].attrs.update(units=unit, long_name=text)
    dataset.attrs["checksum"] = _checksum(maker)
    results.save(dataset, path, parameters=machine(), revision=REVISION, maker=maker, seed=0, wall_seconds=wall_seconds)


_checksum = functools.cache(lambda maker: CHECKSUMS[maker]().ravel())


def machine() -> dict:
    """What times depend on: processor, cores that may be used, memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": _processor(), "cores": cores, "memory_gigabytes": _memory()}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, OSError, AttributeError):
        return None


def _key(case: dict) -> str:
    return json.dumps(case, sort_keys=True)
