"""Measure minimisers side by side, batches of problems, samplers, and many texts: `python -m benchmarks`.

Every case has a process of its own. On a CPU this is held on one core, and its processor time is
measured; on an accelerator it is the time that passes. The record is written after each case, and a
run that was interrupted goes on. Remove `results/benchmarks.nc` to begin again, or give `--record`.
"""

import argparse
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

import statmech_attention as sma
from attention_book.runs import results
from benchmarks import batches, minimisers, samplers, texts

ROOT = Path(__file__).resolve().parents[1]
PARTS = {
    "minimisers": minimisers.measure,
    "batches": batches.measure,
    "samplers": samplers.measure,
    "texts": texts.measure,
}
BASELINE = "import jax; jax.jit(jax.numpy.linalg.cholesky)(jax.numpy.eye(4)).block_until_ready()"
REVISION = 6  # raised when what is measured changes


def main() -> int:
    """Run the cases that are not recorded yet; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", choices=PARTS, help="one part alone")
    parser.add_argument("--record", type=Path, default=ROOT / "results" / "benchmarks.nc", help="where to keep it")
    parser.add_argument("--one", metavar="CASE", help="measure a case, given in JSON, in this process")
    options = parser.parse_args()
    if options.one:
        sma.enable_x64()
        case = json.loads(options.one)
        print(json.dumps(PARTS[case["part"]](**case["numbers"])))
        return 0
    print(", ".join(f"{name} {value}" for name, value in machine().items()))
    rows, failed = _read(options.record), 0
    done = {row["case"] for row in rows}
    seconds = baseline()
    planned = [json.dumps(case) for case in cases() if options.only in (None, case["part"])]
    for case in tqdm([case for case in planned if case not in done], unit="case"):
        try:
            about = {"part": json.loads(case)["part"], "case": case, "baseline": seconds, "load": os.getloadavg()[0]}
            rows += [{**about, **row} for row in json.loads(_run("-m", "benchmarks", "--one", case).splitlines()[-1])]
        except subprocess.CalledProcessError as error:
            failed += 1
            print(f"FAILED with status {error.returncode}: {case}", file=sys.stderr)
            continue
        _write(options.record, rows)
    print(
        results.load(options.record)
        .drop_vars("case")
        .to_dataframe()
        .to_string(index=False, float_format="{:.3g}".format)
    )
    return 1 if failed else 0


def cases() -> Iterator[dict]:
    """Yield what is measured, in order."""
    names = ("auto", *minimisers.RIVALS)
    chains = {"problem": "chains", "examples": 100, "heads": [2, 2], "features": 231, "temperature": 0.01}
    random = {"problem": "random", "examples": 300, "heads": [4, 4], "features": 96, "temperature": 0.05}
    for name in (*names, "Adam, plain coordinates"):
        yield _case("minimisers", **chains, minimiser=name, widths=[1000, 500, 300, 100, 50, 30, 10], most=2000)
    for name in ("dense", "products", "gradients", "L-BFGS (optax)", "L-BFGS (SciPy)", "Newton-CG (SciPy)", "Adam"):
        yield _case("minimisers", **random, minimiser=name, widths=[30], most=500)
    for over in batches.OVER:
        yield _case("batches", over=over, count=32)
    for width in (10, 100, 1000, 1_000_000):
        yield _case("samplers", sampler="order parameters", width=width, warmup=300, draws=1000)
    yield _case("samplers", sampler="weights", width=10, warmup=100, draws=50)
    for count in (1000, 10_000):
        yield _case("texts", texts=count, components=64, single=False)


def machine() -> dict:
    """What times depend on: device, processor, usable cores, memory."""
    described = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    names = re.findall(r"^model name\s*: (.*)", described, re.MULTILINE) or [platform.processor() or platform.machine()]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    device = jax.devices()[0].device_kind
    return {"device": device, "processor": names[0].strip(), "cores": cores, "memory in GiB": round(memory, 1)}


def baseline() -> float:
    """Seconds to import JAX and to compile one Cholesky factorisation, by the same clock; the fastest of three."""
    seconds = []
    for _ in range(3):
        start, used = time.perf_counter(), _of_children()
        _run("-c", BASELINE)
        seconds.append(_of_children() - used if jax.default_backend() == "cpu" else time.perf_counter() - start)
    return min(seconds)


def _run(*arguments: str) -> str:
    """Run Python in a process, on a CPU held on one core, where threads cannot wait for each other."""
    held = jax.default_backend() == "cpu" and shutil.which("taskset")
    command = ["taskset", "-c", str(min(os.sched_getaffinity(0))), sys.executable] if held else [sys.executable]
    return subprocess.run([*command, *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _case(part: str, **numbers) -> dict:
    return {"part": part, "numbers": numbers}


def _read(path: Path) -> list[dict]:
    if (
        not path.is_file()
        or results.record(path)["parameters"] != machine()
        or results.record(path)["revision"] != REVISION
    ):
        return []
    frame = results.load(path).to_dataframe()
    return [
        {name: value for name, value in row.items() if value == value and value != ""}
        for row in frame.to_dict("records")
    ]


def _write(path: Path, rows: list[dict]) -> None:
    names = dict.fromkeys(name for row in rows for name in row)
    texts = {name for name in names if any(isinstance(row.get(name), str) for row in rows)}
    columns = {name: np.array([row.get(name, "" if name in texts else np.nan) for row in rows]) for name in names}
    dataset = xr.Dataset({name: ("row", column) for name, column in columns.items()})
    results.save(dataset, path, parameters=machine(), revision=REVISION, maker="python -m benchmarks", seed=0)


if __name__ == "__main__":
    sys.exit(main())
