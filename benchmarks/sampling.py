"""Speed of the samplers: seconds, leapfrog steps and effective sample sizes. Run it with `python -m benchmarks.sampling`.

A case is sampled twice: the first time compiles, the second is what a user waits for at the next width. One of more than
a minute is sampled once, unless it is to be compared: trajectories of other random numbers have other lengths. The table
is written after every case, and a run that was interrupted goes on.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import jax
from tqdm import tqdm

import statmech_attention as sma
from statmech_attention.compiling import compilations

sma.enable_x64()

# JAX must run in double precision before the problems are made.
from benchmarks import problems, table  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
RECORDED, QUICK = ROOT / "results" / "benchmarks_sampling.nc", ROOT / ".cache" / "benchmarks_sampling_quick.nc"
SAMPLERS = {
    "order parameters": sma.sampling.posterior,
    "weights, NUTS": sma.sampling.weights_posterior,
    "weights, Gibbs": sma.sampling.gibbs_posterior,
}
# How chains are run, as the tables have it: what a CPU does, first, and what an accelerator does.
WAYS = {"threads": "parallel", "one program": "vectorized"}
_SHORT = 60.0  # seconds; compilation is a small part of what takes longer
UNITS = {
    "seconds": ("s", "wall time of all chains, warm-up included, after compilation"),
    "seconds_first": ("s", "the same of the first call at this shape, with compilation"),
    "compilations": ("", "programs compiled by the first call; none where an earlier case had the same shapes"),
    "steps": ("", "leapfrog steps a draw; of Gibbs sampling, sweeps"),
    "effective_size": ("", "smallest effective size of the entries of U"),
    "effective_rate": ("1/s", "the same by the second, warm-up included"),
    "r_hat": ("", "largest split R-hat of the entries of U"),
    "divergent": ("", "draws that diverged"),
}


def cases(quick: bool) -> list[dict]:
    """What is measured, in order."""
    if quick:
        small = {"problem": "random", "examples": 10, "heads": (2,), "features": 5, "temperature": 0.2, "width": 5}
        few = {"warmup": 20, "draws": 20}
        found = [_case("samplers", sampler, **small, **few) for sampler in SAMPLERS]
        return found + [_case("ways", "weights, NUTS", **small, **few, chains_in=way) for way in WAYS]
    chains = {"problem": "hidden Markov", "examples": 100, "heads": (2, 2), "features": 231, "temperature": 0.01}
    enough = {"warmup": 300, "draws": 1000}
    found = [
        _case("samplers", "order parameters", **chains, width=width, **enough) for width in (10, 100, 1000, 1_000_000)
    ]
    found += [
        _case("samplers", sampler, **chains, width=10, warmup=500, draws=100)
        for sampler in ("weights, NUTS", "weights, Gibbs")
    ]
    few = {"warmup": 6, "draws": 6}
    ways = [(width, way) for width in (10, 100) for way in WAYS]
    found += [_case("ways", "weights, NUTS", **chains, width=width, **few, chains_in=way) for width, way in ways]
    # The size of one-shot classification with two layers of four heads.
    large = {"problem": "random", "examples": 600, "heads": (4, 4), "features": 115, "temperature": 0.05}
    return [*found, _case("samplers", "order parameters", **large, width=100, warmup=100, draws=100)]


def measure(case: dict) -> dict:
    """One row of results."""
    size = {name: case[name] for name in ("examples", "heads", "features")}
    inputs, labels = problems.make(case["problem"], **size)
    options = {name: case[name] for name in ("width", "temperature", "warmup", "draws")}
    options["chain_method"] = WAYS[case["chains_in"]]
    seconds, compiled = [], []
    while len(seconds) < 2 and (sum(seconds) < _SHORT or case["group"] == "ways"):
        key, before = jax.random.key(len(seconds)), compilations()
        start = time.perf_counter()
        draws = SAMPLERS[case["sampler"]](inputs, labels, key=key, warn=False, **options)
        seconds.append(time.perf_counter() - start)
        compiled.append(compilations() - before)
    effective = float(draws["order_parameter_effective_size"].min())
    return {
        **{name: value for name, value in case.items() if name != "heads"},
        "heads": str(case["heads"]),
        "chains": draws.sizes["chain"],
        "seconds_first": seconds[0],
        "seconds": seconds[-1],
        "compilations": compiled[0],
        "steps": float(draws["steps"].mean()) if "steps" in draws else 1.0,
        "effective_size": effective,
        "effective_rate": effective / seconds[-1],
        "r_hat": float(draws["order_parameter_r_hat"].max()),
        "divergent": int(draws["diverging"].sum()) if "diverging" in draws else 0,
    }


def _case(group: str, sampler: str, *, chains_in: str = "threads", **values) -> dict:
    return {"group": group, "sampler": sampler, **values, "chains_in": chains_in}


def main() -> int:
    """Measure what is missing, write it case by case, print the table; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="tiny problems, to see that everything works; times mean nothing"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE.nc", help="where to write (default: results/benchmarks_sampling.nc)"
    )
    options = parser.parse_args()
    path = options.output or (QUICK if options.quick else RECORDED)
    rows = [row for row in table.read(path) if UNITS.keys() <= row.keys()]
    done, start = [row["case"] for row in rows], time.perf_counter()
    for case in tqdm(cases(options.quick), unit="case", disable=None):
        if (name := json.dumps(case)) not in done:
            rows.append({**measure(case), "case": name})
            table.write(path, rows, UNITS, maker="benchmark of the samplers", wall_seconds=time.perf_counter() - start)
    print(
        f"{'sampler':18s} {'problem':14s} {'heads':>8s} {'N':>8s} {'draws':>7s} {'first s':>8s} {'programs':>8s} {'s':>8s} {'steps':>6s} {'effective':>9s} {'a second':>8s} {'R-hat':>6s} {'div':>4s}  chains in"
    )
    for row in rows:
        draws = f"{row['chains']}x{row['draws']}"
        print(
            f"{row['sampler']:18s} {row['problem']:14s} {row['heads']:>8s} {row['width']:8d} {draws:>7s} {row['seconds_first']:8.1f} {row['compilations']:8d} {row['seconds']:8.1f} "
            f"{row['steps']:6.1f} {row['effective_size']:9.0f} {row['effective_rate']:8.1f} {row['r_hat']:6.3f} {row['divergent']:4d}  {row['chains_in']}"
        )
    print(f"\nWritten to {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
