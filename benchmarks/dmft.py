"""Speed of the mean-field dynamics: `python -m benchmarks.dmft`. Leave the machine alone meanwhile.

Steps of the map, of Lyapunov exponents and of a diagram, for the published patterns (M = 3, L = 4) and for a window of 32. Every
function is compiled by a first call; the fastest of several counts. A step is one step of one network.
"""

import argparse
import sys
import time
from functools import partial
from pathlib import Path

import jax
import numpy as np

import statmech_attention as sma
from benchmarks import table
from statmech_attention import dmft

RECORDED = Path(__file__).resolve().parents[1] / "results" / "benchmarks_dmft.nc"
_REPEATS = 3
_UNITS = {
    "seconds": ("s", "the fastest of several runs after compilation"),
    "rate": ("1/s", "steps of all networks together a second"),
    "nanoseconds": ("ns", "processor time of all cores together, a step of a network"),
}


def main() -> int:
    """Measure, print and record; returns the exit status."""
    options = _parser().parse_args()
    if options.output is not None and options.output.suffix != ".nc":
        _parser().error(f"--output: wanted a file name ending in .nc, got {options.output.name!r}")
    sma.enable_x64()
    rows = []
    print(f"{'what':34s} {'L':>3s} {'networks':>9s} {'steps':>8s} {'s':>8s} {'steps/s':>10s} {'core ns/step':>13s}")
    for name, window, networks, steps, run in _cases(options.quick):
        row = {"what": name, "window": window, "networks": networks, "steps": steps, **_timed(run, networks * steps)}
        rows.append(row)
        print(
            f"{name:34s} {window:3d} {networks:9d} {steps:8d} {row['seconds']:8.2f} {row['rate']:10.2e} {row['nanoseconds']:13.1f}",
            flush=True,
        )
    path = options.output or (None if options.quick else RECORDED)
    if path is not None:
        table.write(path, rows, _UNITS, maker="benchmark of the dynamics")
        print(f"\nWritten to {path}")
    return 0


def _cases(quick: bool):
    """Name, window, networks, steps, and what to run."""
    shrink = 50 if quick else 1
    for window, networks, steps in ((4, 1000, 20_000), (4, 1, 20_000), (32, 1000, 4000)):
        model, begin = _prepared(window, networks)
        yield "map", window, networks, steps // shrink, partial(dmft.advance, model, begin, steps=steps // shrink)
    model, begin = _prepared(4, 4001 // shrink)
    lengths = {"transient": 100_000 // shrink, "steps": 20_000 // shrink, "levels": 4001}
    diagram = partial(dmft.bifurcation_diagram, model, begin, **lengths)
    yield "bifurcation diagram", 4, 4001 // shrink, 120_000 // shrink, lambda: diagram().visited
    for count, steps in ((12, 75_000), (2, 75_000)):
        model, begin = _prepared(4, 701 // shrink)
        spectrum = partial(dmft.lyapunov_spectrum, model, begin, steps=steps // shrink, count=count, discard=0)
        yield f"Lyapunov exponents, {count}", 4, 701 // shrink, steps // shrink, lambda s=spectrum: s().exponents


def _prepared(window: int, networks: int):
    model = dmft.dynamics(
        dmft.segment_patterns(seed=1, window=window), beta=np.linspace(1.0, 3.0, networks), gamma=220.0, epsilon=0.02
    )
    return model, dmft.advance(model, dmft.initial_window(model), steps=100)


def _timed(run, steps: int) -> dict[str, float]:
    jax.block_until_ready(run())
    best = processor = float("inf")
    for _ in range(_REPEATS):
        start, used = time.perf_counter(), time.process_time()
        jax.block_until_ready(run())
        best, processor = min(best, time.perf_counter() - start), min(processor, time.process_time() - used)
    return {"seconds": best, "rate": steps / best, "nanoseconds": processor / steps * 1e9}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dmft", description=__doc__.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="short runs, to see that everything works; not recorded")
    parser.add_argument(
        "--output", type=Path, metavar="FILE.nc", help="where to write (default: results/benchmarks_dmft.nc)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
