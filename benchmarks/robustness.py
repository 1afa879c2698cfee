"""Solve random problems, harmless and not: `python -m benchmarks.robustness`.

Does each converge, or say why not? Layers, heads, examples and features come in a few combinations,
since each is compiled once; all else is drawn for every problem.
"""

import argparse
import json
import math
import sys
import time
import warnings
from collections import Counter

import numpy as np
from tqdm import tqdm

import statmech_attention as sma
from benchmarks import table

RECORDED, MAKER = table.RESULTS / "robustness.nc", "benchmark of the robustness"
# Heads of each layer, examples, features.
SHAPES = (
    ((1,), 2, 1),
    ((5,), 200, 1),
    ((3,), 50, 12),
    ((2, 2), 5, 40),
    ((2, 2), 120, 7),
    ((4, 3), 60, 5),
    ((1, 1, 1), 30, 3),
    ((2, 2, 2), 20, 1),
    ((2, 3, 1), 90, 10),
    ((1, 5), 3, 6),
    ((2, 2, 2, 2), 40, 8),
    ((1, 2, 1, 3), 200, 4),
)
KINDS = (
    "as drawn",
    "examples twice",
    "examples twice, labels opposed",
    "constant labels",
    "constant features",
    "a feature of zero",
)
CONVERGED, SAID, OTHER = "converged", "says why", "anything else"
UNITS = {
    "width": ("", "N, from 1 to a million"),
    "temperature": ("", "T, from 1e-6 to 10"),
    "scale": ("", "of the inputs, from 0.01 to 100"),
    "outcome": ("", f"{CONVERGED}; {SAID}, an error of the house; or {OTHER}"),
    "said": ("", "the outcome that the error names, its first words where it names none"),
}


def draw(seed: int) -> dict:
    """Return a problem: `kind`, `heads`, `width`, `temperature`, `scale`, `inputs` and `labels`."""
    random = np.random.default_rng([18, seed])
    heads, examples, features = SHAPES[seed % len(SHAPES)]
    kind = KINDS[random.integers(len(KINDS))]
    scale = 10.0 ** random.uniform(-2, 2)
    inputs = scale * random.normal(size=(examples, math.prod(heads), features))
    labels = np.sign(random.normal(size=examples)) if random.integers(2) else random.normal(size=examples)
    half = examples // 2
    if kind.startswith("examples twice"):
        inputs[-half:] = inputs[:half]
        labels[-half:] = -labels[:half] if "opposed" in kind else labels[:half]
    elif kind == "constant labels":
        labels[:] = 1
    elif kind == "constant features":
        inputs[:] = inputs[:1]
    elif kind == "a feature of zero":
        inputs[..., 0] = 0
    width, temperature = 10.0 ** random.uniform(0, 6), 10.0 ** random.uniform(-6, 1)
    numbers = {"width": width, "temperature": temperature, "scale": scale}
    return {"kind": kind, "heads": heads, "inputs": inputs, "labels": labels} | numbers


def solve(problem: dict) -> dict:
    """Return the row of a problem: its outcome, and its fields that are numbers or texts."""
    row = {name: problem[name] for name in ("kind", "width", "temperature", "scale")}
    row |= {"heads": json.dumps(problem["heads"]), "examples": len(problem["labels"])}
    row |= {"features": problem["inputs"].shape[-1], "said": "", "action": math.nan, "steps": 0}
    asked = {"layers": problem["heads"], "width": problem["width"], "temperature": problem["temperature"]}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            solution = sma.solve(sma.Problem(problem["inputs"], problem["labels"], **asked))
            mean, variance = solution.predict(problem["inputs"][:5])
    except sma.NotConverged as error:
        return row | {"outcome": SAID, "said": sma.Outcome(int(error.solution.outcome)).name}
    except ValueError as error:
        return row | {"outcome": SAID, "said": str(error)[:60]}
    except Exception as error:  # these do not say what to do
        return row | {"outcome": OTHER, "said": f"{type(error).__name__}: {error}"[:60]}
    row |= {"action": float(solution.action), "steps": int(solution.steps)}
    wrong = _wrong(solution, np.asarray(mean), np.asarray(variance))
    return row | ({"outcome": OTHER, "said": wrong} if wrong else {"outcome": CONVERGED})


def _wrong(solution, mean, variance) -> str:
    """Return what is impossible about a converged solution; empty if nothing is."""
    matrix = np.asarray(solution.order_parameter)
    if not (np.isfinite(matrix).all() and np.isfinite(mean).all() and np.isfinite(variance).all()):
        return "not finite"
    if np.linalg.eigvalsh(matrix)[0] < -1e-9 * np.linalg.norm(matrix):
        return "an order parameter that is not positive"
    return "" if (variance >= 0).all() else "a negative variance"


def checksum() -> np.ndarray:
    """Actions of the first random problems; minus one where there is none."""
    rows = (solve(draw(seed)) for seed in range(4))
    return np.array([row["action"] if row["outcome"] == CONVERGED else -1.0 for row in rows])


def main() -> int:
    """Solve, record and count; return 1 if anything but an answer or a reason came out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness", description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=500, help="number of problems (500)")
    count, began = parser.parse_args().problems, time.monotonic()
    sma.enable_x64()
    seeds = sorted(range(count), key=lambda seed: seed % len(SHAPES))  # shape by shape
    rows = [solve(draw(seed)) for seed in tqdm(seeds, unit="problem")]
    about = {"dimension": "problem", "parameters": {"problems": count}, "revision": 1}
    table.write(RECORDED, rows, UNITS, maker=MAKER, checksum=checksum(), began=began, **about)
    for (outcome, said), number in Counter((row["outcome"], row["said"]) for row in rows).most_common():
        print(f"{number:5d} {outcome}  {said}")
    return int(any(row["outcome"] == OTHER for row in rows))


if __name__ == "__main__":
    sys.exit(main())
