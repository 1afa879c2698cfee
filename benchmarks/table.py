"""The records of the benchmarks: netCDF files with one entry per row."""

import contextlib
import json
import os
import platform
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import xarray as xr

from attention_book import results

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
# Raised by hand when what is measured changes; a table has rows of one revision.
REVISION = 3  # 2: all minimisers stop at a gradient, and none is given the minimum; 3: beside other work


def read(path: Path) -> list[dict]:
    """Return the rows that this revision has recorded on this machine, if any."""
    made = results.record(path) if path.is_file() else {}
    if (made.get("parameters"), made.get("revision")) != (machine(), REVISION):
        return []
    dataset = results.load(path)
    rows = [dataset.isel(row=index) for index in range(dataset.sizes["row"])]
    return [{name: value.item() for name, value in row.data_vars.items()} for row in rows]


def write(path: Path, rows: list[dict], units: dict, *, maker: str, checksum, began: float, **about) -> xr.Dataset:
    """Record rows, a variable per column; `about` may hold dimension, parameters, revision."""
    dimension = about.pop("dimension", "row")
    dataset = xr.Dataset({name: (dimension, np.array([row[name] for row in rows])) for name in rows[0]})
    for name, (unit, text) in units.items():
        dataset[name].attrs.update(units=unit, long_name=text)
    dataset.attrs["checksum"] = np.ravel(checksum)
    about = {"parameters": machine(), "revision": REVISION} | about
    results.save(dataset, path, maker=maker, seed=0, wall_seconds=time.monotonic() - began, **about)
    return dataset


def show(dataset: xr.Dataset, columns: list[str]) -> None:
    """Print columns of a record."""
    print(dataset[columns].to_dataframe().to_string(index=False, float_format="{:.3g}".format))


def alone(module: str, case: str):
    """Run `python -m MODULE --one CASE` and return what it prints last, a line of JSON."""
    command = [sys.executable, "-m", module, "--one", case]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def other_work():
    """Keep one core busy meanwhile, as a process of another user does."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def machine() -> dict:
    """Return what times depend on: processor, usable cores, memory."""
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = re.findall(r"^model name\s*: (.*)", described, re.MULTILINE) or [platform.processor() or platform.machine()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"processor": names[0].strip(), "cores": cores, "memory_gigabytes": round(memory, 1)}
