"""Measure speed and memory of the saddle point beside the usual minimisers: `python -m benchmarks`.

Every case has a process of its own; leave the machine alone meanwhile. A run that was interrupted
continues; remove the record to measure all again, which takes several minutes on two cores.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

from tqdm import tqdm

import statmech_attention as sma
from attention_book import results
from benchmarks import minimisers, problems, table
from benchmarks.plan import cases

RECORDED = table.RESULTS / "benchmarks.nc"
UNITS = {
    "seconds": ("s", "a solve after compilation, the fastest of several"),
    "seconds_first": (
        "s",
        "the first solve, with compilation (and one evaluation more) if the shape is new in its process",
    ),
    "peak_megabytes": ("MiB", "peak resident memory of the process, Python and JAX included"),
    "gradient": ("", "largest entry of the gradient at the end, in the minimiser's coordinates"),
    "evaluations": ("", "evaluations of action and gradient; trial steps for ours"),
    "load": ("", "processes that were waiting for a core before the case began, on average over a minute"),
}
COLUMNS = ["group", "minimiser", "examples", "heads", "features", "width", *UNITS]
ENOUGH = 1.0  # seconds; repeats stop when they have taken so long together
REPEATS = 5
LONG = 3.0  # seconds; a solve that takes longer is not repeated


def main() -> int:
    """Run the cases that are not recorded yet; return 1 if one failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", metavar="GROUP", default="", help="only groups whose name contains this")
    parser.add_argument("--one", metavar="CASE", help="measure a case, given in JSON, in this process")
    options = parser.parse_args()
    sma.enable_x64()
    if options.one:
        print(json.dumps(measure(json.loads(options.one))))
        return 0
    rows, failed, began = table.read(RECORDED), 0, time.monotonic()
    done = {row["case"] for row in rows}
    planned = [case for case in cases() if options.only in case["group"]]
    for case in tqdm([case for case in planned if _key(case) not in done], unit="case"):
        about = {"group": case["group"], "minimiser": case["minimiser"], "case": _key(case), "load": os.getloadavg()[0]}
        try:
            found = table.alone("benchmarks", _key(case))
        except subprocess.CalledProcessError as error:
            failed += 1
            print(f"FAILED with status {error.returncode}: {about['group']}, {about['minimiser']}", file=sys.stderr)
            continue
        rows += [{**row, **about, "heads": json.dumps(row["heads"])} for row in found]
        about = {"maker": "benchmark of the minimisers", "checksum": problems.checksum(), "began": began}
        table.write(RECORDED, rows, UNITS, **about)
    table.show(results.load(RECORDED), COLUMNS)
    return 1 if failed else 0


def measure(case: dict) -> list[dict]:
    """Return the rows of a case, one per point."""
    rows, made, unsettled = [], {}, []
    for point in case["points"]:
        shape = (point["examples"], tuple(point["heads"]), point["features"])
        fresh = shape not in made
        if fresh:
            made[shape] = _minimiser(case, *shape)
        # One evaluation compiles everything, so that a long solve need not be done twice.
        compiling = _timed(made[shape], point["width"], 1)[0] if fresh else 0.0
        seconds, run = _timed(made[shape], point["width"], case["most"])
        row = {**point, "seconds_first": compiling + seconds, "seconds": seconds, **run._asdict()}
        rows.append(row)
        if seconds < LONG:
            unsettled.append((row, made[shape]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    for row, minimise in unsettled:
        again = [row["seconds"]]
        while sum(again) < ENOUGH and len(again) < REPEATS:
            again.append(_timed(minimise, row["width"], case["most"])[0])
        row["seconds"] = min(again)
    return [{**row, "peak_megabytes": peak} for row in rows]


def _minimiser(case: dict, examples, heads, features):
    attentioned, labels = problems.make(case["problem"], examples=examples, heads=heads, features=features)
    labels.block_until_ready()
    return minimisers.make(case["minimiser"], attentioned, labels, case["temperature"])


def _timed(minimise, width, most):
    start = time.perf_counter()
    run = minimise(float(width), most)  # returns Python numbers, so everything has been computed
    return time.perf_counter() - start, run


def _key(case: dict) -> str:
    return json.dumps(case, sort_keys=True)


if __name__ == "__main__":
    sys.exit(main())
