"""Measure what the first call of everything costs: `python -m benchmarks.calls`.

Leave the machine alone meanwhile. Every case is a process of its own without a cache of compiled
programs. The call is made cold; with other numbers (prior variances, widths, temperature, key),
which must find everything compiled; and warm. A second process makes the first call beside a
process that keeps one core busy. The example of the README is timed as the process that it is for a
newcomer.
"""

import argparse
import functools
import json
import subprocess
import sys
import time

import jax
import numpy as np
from tqdm import tqdm

import statmech_attention as sma
from benchmarks import problems, table
from statmech_attention import dmft
from statmech_attention.compiling import compilations

RECORDED = table.RESULTS / "benchmarks_calls.nc"
README = "the README's lines, as a process"
UNITS = {
    "cold": ("s", "the first call in its process; of the README's lines the whole process, imports included"),
    "cold_beside": ("s", "the same beside a process that keeps one core busy"),
    "other": ("s", "the same with other numbers of the same shapes"),
    "warm": ("s", "the fastest of three more calls"),
    "compilations": ("", "programs compiled by the first call"),
    "compilations_other": ("", "programs compiled by the call with other numbers"),
}


@functools.cache
def trial():
    """Return the data that the calls are made on."""
    return sma.tasks.HiddenMarkov().trial(jax.random.key(0), 100, 1000)


def calls() -> dict:
    """Return functions of a number by name; another number makes other data of the same shapes."""

    def theory(number):
        return {"variance": (1.0, 1.0 + 0.1 * number, 1.0, 1.0)}

    def solve(number):
        return sma.solve(
            sma.Problem(trial().train, trial().labels, width=30 + number, temperature=0.01, **theory(number))
        ).action

    def sweep(number):
        grid = {"widths": [100 + number, 30, 10], "temperatures": [0.01, 0.1 + number]}
        return sma.solve_sweep(sma.Problem(trial().train, trial().labels, **theory(number)), **grid).action

    def entropy(number):
        overlaps = (np.eye(4), np.eye(2), 1.0)
        return sma.theory.entropy(overlaps, layers=(2, 2), width=10 + number, **theory(number))

    def predict(number):
        options = {"temperature": 0.01 + number, **theory(number)}
        return sma.predict(sma.Problem(trial().train, trial().labels, **options), trial().test, np.eye(4)).mean

    def sampler(function, **lengths):
        def draw(number):
            few = sma.AttentionedInputs(trial().train.values[:20], trial().train.layers)
            problem = sma.Problem(few, trial().labels[:20], width=12 + number, temperature=0.1 + number)
            chains = sma.Chains(warn=False, progress=False, **lengths)
            return function(problem, key=jax.random.key(number), chains=chains)["order_parameter"].values

        return draw

    def dynamics(number):
        patterns = dmft.published_patterns(seed=1 + number, window=4)
        model = dmft.dynamics(patterns, beta=[1.0 + number], gamma=220.0 + number, epsilon=0.02)
        return dmft.trajectory(model, dmft.initial_window(model), steps=100)

    def trial_of(number):
        return sma.tasks.HiddenMarkov(hardness=10.0 + number).trial(jax.random.key(number), 100, 1000).train.values

    few = {"warmup": 20, "draws": 20, "count": 2}
    return {
        "task, heads and attentioned inputs": trial_of,
        "solve": solve,
        "solve_sweep": sweep,
        "predict": predict,
        "entropy": entropy,
        "sampling.posterior": sampler(sma.sampling.posterior, **few),
        "sampling.gibbs_posterior": sampler(sma.sampling.gibbs_posterior, **few),
        "sampling.weights_posterior": sampler(sma.sampling.weights_posterior, **few),
        "dmft.trajectory": dynamics,
    }


def measure(name: str) -> dict:
    """Return the row of a call, measured in this process."""
    sma.enable_x64()
    compilations()  # begins to count
    call = calls()[name]
    if not name.startswith("task"):
        trial()
    counts, found = [compilations()], {"what": name}
    for number, which in enumerate(("cold", "other")):
        found[which] = _timed(call, number)
        counts.append(compilations())
    found |= dict(zip(("compilations", "compilations_other"), map(int, np.diff(counts)), strict=True))
    return {**found, "warm": min(_timed(call, 1) for _ in range(3))}


def twice(name: str) -> dict:
    """Return the row of a call from two processes, one of them beside other work."""
    row = table.alone("benchmarks.calls", name)
    with table.other_work():
        return {**row, "cold_beside": table.alone("benchmarks.calls", name)["cold"]}


def newcomer() -> dict:
    """Return the row of the README's first Python block, run as a process."""
    example = (table.ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    count = "from statmech_attention.compiling import compilations"
    compiled = int(_run(f"{count}\ncompilations()\n{example}\nprint(compilations())").split()[-1])
    cold, never = min(_timed(_run, example) for _ in range(3)), float("nan")
    with table.other_work():
        beside = min(_timed(_run, example) for _ in range(3))
    counts = {"compilations": compiled, "compilations_other": 0}
    return {"what": README, "cold": cold, "cold_beside": beside, "other": never, "warm": never, **counts}


def main() -> None:
    """Measure every call in a process of its own, record and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=__doc__)
    parser.add_argument("--one", metavar="CALL", help="measure one in this process and print it as JSON")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return
    sma.enable_x64()  # for the checksum
    began = time.monotonic()
    rows = [newcomer(), *(twice(name) for name in tqdm(calls(), unit="call"))]
    about = {"maker": "benchmark of the first calls", "checksum": problems.checksum(), "began": began}
    table.show(table.write(RECORDED, rows, UNITS, **about), ["what", *UNITS])


def _run(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=table.ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _timed(call, argument) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call(argument))
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
