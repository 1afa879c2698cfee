"""Measure one case in this process: `python -m benchmarks.worker CASE`, CASE in JSON. Prints one JSON list of rows.

A process of its own makes compilation and peak memory those of the case alone.
"""

import json
import resource
import sys
import time

import statmech_attention as sma

sma.enable_x64()

# JAX must run in double precision before the problems are made.
from benchmarks import minimisers, problems  # noqa: E402

_ENOUGH = 1.0  # seconds; repeats stop when they have taken so long together
_REPEATS = 5
_LONG = 3.0  # seconds; a solve that takes longer is not repeated at all


def main(case: dict) -> list[dict]:
    """Rows of results, one a point of the case."""
    rows, made, unsettled = [], {}, []
    for point in case["points"]:
        shape = (point["examples"], tuple(point["heads"]), point["features"])
        fresh = shape not in made
        if fresh:
            made[shape] = _minimiser(case, *shape)
        # One evaluation compiles everything, so that a long solve need not be done twice.
        compiling = _timed(made[shape], point["width"], 1)[0] if fresh else 0.0
        seconds, run = _timed(made[shape], point["width"], case["most"])
        row = {
            **point,
            "seconds_first": compiling + seconds,
            "seconds": seconds,
            "evaluations": run.evaluations,
            "action": run.action,
            "gradient": run.gradient,
        }
        rows.append(row)
        if seconds < _LONG:
            unsettled.append((row, made[shape]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    for row, minimise in unsettled:
        again = [row["seconds"]]
        while sum(again) < _ENOUGH and len(again) < _REPEATS:
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


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
