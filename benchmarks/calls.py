"""What the first call of everything costs: `python -m benchmarks.calls`. Leave the machine alone meanwhile.

Every case is a process of its own, without a cache of compiled programs. The call is made three times: cold; with other numbers
(prior variances, widths, temperature, key), which must find everything compiled; and warm. Compilations are counted. The example
of the README is timed as the process it is for a newcomer.
"""

import argparse
import functools
import json
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np

import statmech_attention as sma
from benchmarks import table
from statmech_attention import dmft
from statmech_attention.compiling import compilations

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "results" / "benchmarks_calls.nc"
README = "the README's lines, as a process"
_UNITS = {
    "cold": ("s", "the first call in its process; of the README's lines the whole process, imports included"),
    "other": ("s", "the same with other numbers of the same shapes"),
    "warm": ("s", "the fastest of three more calls"),
    "compilations": ("", "programs compiled by the first call"),
    "compilations_other": ("", "programs compiled by the call with other numbers"),
}


@functools.cache
def trial():
    """Data that the calls are made on."""
    return sma.tasks.HiddenMarkov().trial(jax.random.key(0), 100, 1000)


def calls() -> dict:
    """By name functions of a number, 0, 1, ..; another number makes other data of the same shapes."""

    def theory(number):
        return {"variance": (1.0, 1.0 + 0.1 * number, 1.0, 1.0)}

    def solve(number):
        return sma.solve(trial().train, trial().labels, width=30 + number, temperature=0.01, **theory(number)).action

    def sweep(number):
        options = {"widths": [100 + number, 30, 10], "temperatures": [0.01, 0.1 + number], **theory(number)}
        return sma.solve_sweep(trial().train, trial().labels, **options).action

    def entropy(number):
        overlaps = (np.eye(4), np.eye(2), 1.0)
        return sma.entropy(overlaps, heads=(2, 2), width=10 + number, **theory(number))

    def predict(number):
        options = {"temperature": 0.01 + number, **theory(number)}
        return sma.predict(trial().train, trial().labels, trial().test, np.eye(4), **options).mean

    def sampler(function, **lengths):
        def draw(number):
            options = {"width": 12 + number, "temperature": 0.1 + number, "key": jax.random.key(number), **lengths}
            few = sma.AttentionedInputs(trial().train.values[:20], trial().train.heads)
            return function(few, trial().labels[:20], warn=False, progress=False, **options)["order_parameter"].values

        return draw

    def dynamics(number):
        patterns = dmft.segment_patterns(seed=1 + number, window=4)
        model = dmft.dynamics(patterns, beta=[1.0 + number], gamma=220.0 + number, epsilon=0.02)
        return dmft.trajectory(model, dmft.initial_window(model), steps=100)

    def trial_of(number):
        return sma.tasks.HiddenMarkov(hardness=10.0 + number).trial(jax.random.key(number), 100, 1000).train.values

    few = {"warmup": 20, "draws": 20, "chains": 2}
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


def example() -> str:
    """The first Python block of the README."""
    return (ROOT / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]


def measure(name: str) -> dict:
    """One row, measured in this process."""
    sma.enable_x64()
    compilations()  # begins to count
    call = calls()[name]
    if not name.startswith("task"):
        trial()
    found = {}
    for which, number in (("cold", 0), ("other", 1)):
        before = compilations()
        found[which] = _timed(call, number)
        found[{"cold": "compilations", "other": "compilations_other"}[which]] = compilations() - before
    return {"what": name, **found, "warm": min(_timed(call, 1) for _ in range(3))}


def main() -> int:
    """Measure every call in a process of its own, print and record; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.calls", description=__doc__.split("\n\n")[0])
    parser.add_argument("--one", metavar="CALL", help="measure one in this process and print it as JSON")
    parser.add_argument("--output", type=Path, metavar="FILE.nc", help="where to write (results/benchmarks_calls.nc)")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one)))
        return 0
    sma.enable_x64()  # for the checksum
    rows = []
    print(f"{'what':36s} {'cold s':>8s} {'other s':>8s} {'warm s':>9s} {'compiled':>9s} {'again':>6s}")
    for name in (README, *calls()):
        rows.append(_process() if name == README else _alone(name))
        numbers = [rows[-1][column] for column in _UNITS]
        print("{:36s} {:8.2f} {:8.3f} {:9.4f} {:9d} {:6d}".format(name, *numbers), flush=True)
    path = options.output or RECORDED
    table.write(path, rows, _UNITS, maker="benchmark of the first calls")
    print(f"\nWritten to {path}")
    return 0


def _process() -> dict:
    seconds = [_timed(lambda _: _run([sys.executable, "-c", example()]), 0) for _ in range(3)]
    counted = (
        f"from statmech_attention.compiling import compilations\ncompilations()\n{example()}\nprint(compilations())"
    )
    compiled = int(_run([sys.executable, "-c", counted]).split()[-1])
    return {
        "what": README,
        "cold": min(seconds),
        "other": float("nan"),
        "compilations": compiled,
        "compilations_other": 0,
        "warm": float("nan"),
    }


def _alone(name: str) -> dict:
    return json.loads(_run([sys.executable, "-m", "benchmarks.calls", "--one", name]).splitlines()[-1])


def _run(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def _timed(call, number: int) -> float:
    start = time.perf_counter()
    jax.block_until_ready(call(number))
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
