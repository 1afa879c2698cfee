"""Measure the speed of the mean-field dynamics: `python -m benchmarks.dmft`.

Leave the machine alone meanwhile. Steps of the map and of Lyapunov exponents, for the published
patterns (M = 3, L = 4) and for a window of 32. Every function is compiled by a first
call; the fastest of several counts. A step is one step of one network.
"""

import time
from functools import partial

import jax
import numpy as np

import statmech_attention as sma
from benchmarks import table
from statmech_attention import dmft

RECORDED = table.RESULTS / "benchmarks_dmft.nc"
REPEATS = 3
UNITS = {
    "seconds": ("s", "the fastest of several runs after compilation"),
    "rate": ("1/s", "steps of all networks together per second"),
    "nanoseconds": ("ns", "processor time of all cores together per step of a network"),
}


def main() -> None:
    """Measure, record and print."""
    sma.enable_x64()
    began = time.monotonic()
    rows = [
        {"what": name, "window": window, "networks": networks, "steps": steps, **_timed(run, networks * steps)}
        for name, window, networks, steps, run in _cases()
    ]
    about = {"maker": "benchmark of the dynamics", "checksum": checksum(), "began": began}
    table.show(table.write(RECORDED, rows, UNITS, **about), list(rows[0]))


def checksum() -> np.ndarray:
    """Sums over networks of their first overlaps; later ones are chaotic where beta is large."""
    model = _model(4, 16)
    overlaps = dmft.trajectory(model, dmft.initial_window(model), steps=40)
    return np.array([np.sum(np.asarray(leaf)) for leaf in jax.tree.leaves(overlaps)])


def _cases():
    """Yield name, window, networks, steps, and what to run."""
    for window, networks, steps in ((4, 1000, 20_000), (4, 1, 20_000), (32, 1000, 4000)):
        model, begin = _prepared(window, networks)
        yield "map", window, networks, steps, partial(dmft.advance, model, begin, steps=steps)
    for count in (12, 2):
        model, begin = _prepared(4, 701)
        spectrum = partial(dmft.lyapunov_spectrum, model, begin, steps=75_000, count=count, discard=0)
        yield f"Lyapunov exponents, {count}", 4, 701, 75_000, lambda s=spectrum: s().exponents


def _model(window: int, networks: int):
    patterns = dmft.published_patterns(seed=1, window=window)
    return dmft.dynamics(patterns, beta=np.linspace(1.0, 3.0, networks), gamma=220.0, epsilon=0.02)


def _prepared(window: int, networks: int):
    model = _model(window, networks)
    return model, dmft.advance(model, dmft.initial_window(model), steps=100)


def _timed(run, steps: int) -> dict[str, float]:
    jax.block_until_ready(run())
    best = processor = float("inf")
    for _ in range(REPEATS):
        start, used = time.perf_counter(), time.process_time()
        jax.block_until_ready(run())
        best, processor = min(best, time.perf_counter() - start), min(processor, time.process_time() - used)
    return {"seconds": best, "rate": steps / best, "nanoseconds": processor / steps * 1e9}


if __name__ == "__main__":
    main()
