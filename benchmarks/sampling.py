"""Measure time and effective sizes of the samplers: `python -m benchmarks.sampling`.

A case is sampled twice: the first time compiles, the second is what a user waits for at the next
width. A case of more than a minute is sampled once, unless it is to be compared: trajectories of
other random numbers have other lengths. A short case is sampled once more, with the numbers of the
second time, while another process keeps one core busy. The table is written after every case, and a
run that was interrupted continues.
"""

import json
import time

import jax
from tqdm import tqdm

import statmech_attention as sma
from attention_book import results
from benchmarks import problems, table
from benchmarks.compilations import compilations

RECORDED = table.RESULTS / "benchmarks_sampling.nc"
SAMPLERS = {
    "order parameters": sma.sampling.posterior,
    "weights, NUTS": sma.sampling.weights_posterior,
}
# How chains are run, as the tables name it: what a CPU does first, then what an accelerator does.
WAYS = {"threads": "parallel", "one program": "vectorized"}
SHORT = 60.0  # seconds; compilation is a small part of what takes longer
UNITS = {
    "seconds": ("s", "wall time of all chains, warm-up included, after compilation"),
    "seconds_beside": ("s", "the same draws beside a process that keeps one core busy; nan if not measured"),
    "seconds_first": ("s", "the same for the first call at this shape, with compilation"),
    "compilations": ("", "programs compiled by the first call; none where an earlier case had the same shapes"),
    "steps": ("", "leapfrog steps per draw"),
    "effective_size": ("", "smallest effective size of the entries of U"),
    "effective_rate": ("1/s", "the same per second, warm-up included"),
    "r_hat": ("", "largest split R-hat of the entries of U"),
    "divergent": ("", "draws that diverged"),
}


def main() -> None:
    """Measure what is missing, record it case by case and print the table."""
    sma.enable_x64()
    rows, began = table.read(RECORDED), time.monotonic()
    done = {row["case"] for row in rows}
    about = {"maker": "benchmark of the samplers", "checksum": checksum(), "began": began}
    for case in tqdm([case for case in cases() if json.dumps(case) not in done], unit="case"):
        rows.append({**measure(case), "case": json.dumps(case)})
        table.write(RECORDED, rows, UNITS, **about)
    columns = ["sampler", "problem", "heads", "width", "chains", "draws", *UNITS, "chains_in"]
    table.show(results.load(RECORDED), columns)


def checksum():
    """Potentials of the first draws of the order parameters, after hardly any warm-up."""
    inputs, labels = problems.make("hidden Markov", examples=100, heads=(2, 2), features=231)
    problem = sma.Problem(inputs, labels, width=10, temperature=0.01)
    chains = sma.Chains(warmup=2, draws=4, warn=False, progress=False)
    return sma.posterior(problem, key=jax.random.key(0), chains=chains)["potential"].values


def cases() -> list[dict]:
    """Return what is measured, in order."""
    chains = {"problem": "hidden Markov", "examples": 100, "heads": (2, 2), "features": 231, "temperature": 0.01}
    enough = {"warmup": 300, "draws": 1000}
    found = [
        _case("samplers", "order parameters", **chains, width=width, **enough) for width in (10, 100, 1000, 1_000_000)
    ]
    found.append(_case("samplers", "weights, NUTS", **chains, width=10, warmup=500, draws=100))
    few = {"warmup": 6, "draws": 6}
    ways = [(width, way) for width in (10, 100) for way in WAYS]
    found += [_case("ways", "weights, NUTS", **chains, width=width, **few, chains_in=way) for width, way in ways]
    # The size of one-shot classification with two layers of four heads.
    large = {"problem": "random", "examples": 600, "heads": (4, 4), "features": 115, "temperature": 0.05}
    return [*found, _case("samplers", "order parameters", **large, width=100, warmup=100, draws=100)]


def measure(case: dict) -> dict:
    """Return the row of a case."""
    size = {name: case[name] for name in ("examples", "heads", "features")}
    inputs, labels = problems.make(case["problem"], **size)
    problem = sma.Problem(inputs, labels, width=case["width"], temperature=case["temperature"])
    method = WAYS[case["chains_in"]]
    chains = sma.Chains(warmup=case["warmup"], draws=case["draws"], method=method, warn=False)
    seconds, compiled, beside = [], [], float("nan")

    def sample(number):
        start = time.perf_counter()
        draws = SAMPLERS[case["sampler"]](problem, key=jax.random.key(number), chains=chains)
        return draws, time.perf_counter() - start

    while len(seconds) < 2 and (sum(seconds) < SHORT or case["group"] == "ways"):
        before = compilations()
        draws, took = sample(len(seconds))
        seconds.append(took)
        compiled.append(compilations() - before)
    if len(seconds) == 2 and case["group"] == "samplers":
        with table.other_work():
            beside = sample(1)[1]
    effective = float(draws["order_parameter_effective_size"].min())
    return {
        **{name: value for name, value in case.items() if name != "heads"},
        "heads": str(case["heads"]),
        "chains": draws.sizes["chain"],
        "seconds_first": seconds[0],
        "seconds": seconds[-1],
        "seconds_beside": beside,
        "compilations": compiled[0],
        "steps": float(draws["steps"].mean()) if "steps" in draws else 1.0,
        "effective_size": effective,
        "effective_rate": effective / seconds[-1],
        "r_hat": float(draws["order_parameter_r_hat"].max()),
        "divergent": int(draws["diverging"].sum()) if "diverging" in draws else 0,
    }


def _case(group: str, sampler: str, *, chains_in: str = "threads", **values) -> dict:
    return {"group": group, "sampler": sampler, **values, "chains_in": chains_in}


if __name__ == "__main__":
    main()
