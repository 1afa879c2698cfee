"""Speed of the samplers: seconds, leapfrog steps and effective sample sizes. Run it with `python -m benchmarks.sampling`.

Each case is sampled twice: the first time compiles, the second is what a user waits for at the next width.
"""

import argparse
import sys
import time
from pathlib import Path
from unittest import mock

import jax
import numpy as np
import xarray as xr
from tqdm import tqdm

import statmech_attention as sma

sma.enable_x64()

# JAX must run in double precision before the problems are made.
from benchmarks import problems  # noqa: E402
from benchmarks.table import machine  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
RECORDED, QUICK = ROOT / "results" / "benchmarks_sampling.nc", ROOT / ".cache" / "benchmarks_sampling_quick.nc"
SAMPLERS = {
    "order parameters": sma.sampling.posterior,
    "weights, NUTS": sma.sampling.weights_posterior,
    "weights, Gibbs": sma.sampling.gibbs_posterior,
}
# How four chains are run: what a CPU does, first, and what an accelerator does.
WAYS = ("threads", "one program")
UNITS = {
    "seconds": ("s", "wall time of all chains, warm-up included, after compilation"),
    "seconds_first": ("s", "the same of the first call at this shape, with compilation"),
    "steps": ("", "leapfrog steps a draw; of Gibbs sampling, sweeps"),
    "effective_size": ("", "smallest effective size of the entries of U"),
    "r_hat": ("", "largest split R-hat of the entries of U"),
    "divergent": ("", "draws that diverged"),
}


def cases(quick: bool) -> list[dict]:
    """What is measured, in order."""
    if quick:
        small = {"problem": "random", "examples": 10, "heads": (2,), "features": 5, "temperature": 0.2, "draws": 20}
        found = [{**small, "sampler": sampler, "width": 5} for sampler in SAMPLERS]
        return [*found, *({**small, "sampler": "weights, NUTS", "width": 5, "chains_in": way} for way in WAYS)]
    chains = {"problem": "hidden Markov", "examples": 100, "heads": (2, 2), "features": 231, "temperature": 0.01}
    found = [
        {**chains, "sampler": "order parameters", "width": width, "draws": 1000} for width in (10, 100, 1000, 1_000_000)
    ]
    found += [
        {**chains, "sampler": sampler, "width": 10, "draws": 100} for sampler in ("weights, NUTS", "weights, Gibbs")
    ]
    # The size of one-shot classification with two layers of four heads.
    large = {"problem": "random", "examples": 600, "heads": (4, 4), "features": 115, "temperature": 0.05}
    found.append({**large, "sampler": "order parameters", "width": 100, "warmup": 150, "draws": 500})
    few = {"sampler": "weights, NUTS", "warmup": 6, "draws": 6}
    return found + [{**chains, **few, "width": width, "chains_in": way} for width in (10, 100) for way in WAYS]


def measure(case: dict) -> dict:
    """One row of results."""
    size = {name: case[name] for name in ("examples", "heads", "features")}
    inputs, labels = problems.make(case["problem"], **size)
    options = {name: case[name] for name in ("width", "temperature", "draws", "warmup") if name in case}
    seconds, way = [], case.get("chains_in", WAYS[0])
    # A large problem takes minutes, of which compilation is a small part.
    for seed in range(2 if case["examples"] < 500 else 1):
        start = time.perf_counter()
        # The samplers ask for the name alone; everything still runs on this machine.
        with mock.patch("jax.default_backend", return_value="cpu" if way == WAYS[0] else way):
            draws = SAMPLERS[case["sampler"]](inputs, labels, key=jax.random.key(seed), quiet=True, **options)
        seconds.append(time.perf_counter() - start)
    return {
        **{name: str(case[name]) for name in ("sampler", "problem", "heads")},
        **{name: case[name] for name in ("examples", "features", "width", "temperature", "draws")},
        "chains": draws.sizes["chain"],
        "chains_in": case.get("chains_in", ""),
        "seconds_first": seconds[0],
        "seconds": seconds[-1],
        "steps": float(draws["steps"].mean()) if "steps" in draws else 1.0,
        "effective_size": float(draws["order_parameter_effective_size"].min()),
        "r_hat": float(draws["order_parameter_r_hat"].max()),
        "divergent": int(draws["diverging"].sum()) if "diverging" in draws else 0,
    }


def main() -> int:
    """Measure all cases, print them and write them to a file; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="tiny problems, to see that everything works; times mean nothing"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE.nc", help="where to write (default: results/benchmarks_sampling.nc)"
    )
    options = parser.parse_args()
    path = options.output or (QUICK if options.quick else RECORDED)
    start = time.perf_counter()
    rows = [measure(case) for case in tqdm(cases(options.quick), unit="case", disable=None)]
    table = xr.Dataset({name: ("row", np.array([row[name] for row in rows])) for name in rows[0]})
    for name, (unit, text) in UNITS.items():
        table[name].attrs.update(units=unit, long_name=text)
    sma.results.save(
        table, path, parameters=machine(), seed=0, wall_seconds=time.perf_counter() - start, modules=["sampling"]
    )
    print(
        f"{'sampler':18s} {'problem':14s} {'heads':>8s} {'N':>8s} {'draws':>7s} {'first s':>8s} {'s':>8s} {'steps':>6s} {'effective':>9s} {'R-hat':>6s} {'div':>4s}  chains in"
    )
    for row in rows:
        draws = f"{row['chains']}x{row['draws']}"
        print(
            f"{row['sampler']:18s} {row['problem']:14s} {row['heads']:>8s} {row['width']:8d} {draws:>7s} {row['seconds_first']:8.1f} {row['seconds']:8.1f} "
            f"{row['steps']:6.1f} {row['effective_size']:9.0f} {row['r_hat']:6.3f} {row['divergent']:4d}  {row['chains_in'] or WAYS[0]}"
        )
    print(f"\nWritten to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
