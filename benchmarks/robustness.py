"""Random problems, harmless and not: does the saddle point converge, or say why it does not? `python -m benchmarks.robustness`.

Layers, heads, examples and features come in a few combinations, since each is compiled once; all else is drawn for every problem.
"""

import argparse
import json
import math
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import xarray as xr
from tqdm import tqdm

import statmech_attention as sma
from statmech_attention import results

RECORDED = Path(__file__).resolve().parents[1] / "results" / "robustness.nc"
MAKER, REVISION = "benchmark of the robustness", 1
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
    """A problem.

    Args:
        seed: the same one gives the same problem.

    Returns:
        `kind`, `heads`, `width`, `temperature`, `scale`, `inputs` (examples, paths, features) and `labels` (examples,).
    """
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
    return {"kind": kind, "heads": heads, "width": width, "temperature": temperature, "scale": scale} | {
        "inputs": inputs,
        "labels": labels,
    }


def solve(problem: dict) -> dict:
    """What became of a problem.

    Args:
        problem: of `draw`.

    Returns:
        A row: `outcome`, `said`, `action`, and the fields of the problem that are numbers or texts.
    """
    row = {name: problem[name] for name in ("kind", "width", "temperature", "scale")}
    row |= {"heads": json.dumps(problem["heads"]), "examples": len(problem["labels"])}
    row |= {"features": problem["inputs"].shape[-1], "said": "", "action": math.nan, "steps": 0}
    asked = {name: problem[name] for name in ("heads", "width", "temperature")}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            solution = sma.solve(problem["inputs"], problem["labels"], **asked)
            mean, variance = solution.predict(problem["inputs"][:5])
    except sma.NotConverged as error:
        return row | {"outcome": SAID, "said": sma.Outcome(int(error.solution.outcome)).name}
    except ValueError as error:
        return row | {"outcome": SAID, "said": str(error)[:60]}
    except Exception as error:  # nobody is told what to do by these
        return row | {"outcome": OTHER, "said": f"{type(error).__name__}: {error}"[:60]}
    row |= {"action": float(solution.action), "steps": int(solution.steps)}
    wrong = _wrong(solution, np.asarray(mean), np.asarray(variance))
    return row | ({"outcome": OTHER, "said": wrong} if wrong else {"outcome": CONVERGED})


def _wrong(solution, mean, variance) -> str:
    """What a solution that says it converged cannot be."""
    matrix = np.asarray(solution.order_parameter)
    if not (np.isfinite(matrix).all() and np.isfinite(mean).all() and np.isfinite(variance).all()):
        return "not finite"
    if np.linalg.eigvalsh(matrix)[0] < -1e-9 * np.linalg.norm(matrix):
        return "an order parameter that is not positive"
    return "" if (variance >= 0).all() else "a negative variance"


def record(count: int, path: Path) -> xr.Dataset:
    """Solve problems and record what became of them.

    Args:
        count: how many.
        path: of the record.

    Returns:
        What is recorded.
    """
    began = time.monotonic()
    # Those of one shape after one another.
    seeds = sorted(range(count), key=lambda seed: seed % len(SHAPES))
    rows = [solve(draw(seed)) for seed in tqdm(seeds, unit="problem", disable=None)]
    dataset = xr.Dataset({name: ("problem", np.array([row[name] for row in rows])) for name in rows[0]})
    for name, (unit, text) in UNITS.items():
        dataset[name].attrs.update(units=unit, long_name=text)
    from benchmarks.checksums import CHECKSUMS  # which reads this module

    dataset.attrs["checksum"] = CHECKSUMS[MAKER]().ravel()
    parameters = {"problems": count}
    results.save(
        dataset,
        path,
        parameters=parameters,
        revision=REVISION,
        maker=MAKER,
        seed=0,
        wall_seconds=time.monotonic() - began,
    )
    return dataset


def main() -> int:
    """Run the command line; returns 1 if anything but an answer or a reason came out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness", description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=500, help="how many (500)")
    parser.add_argument("--output", type=Path, default=RECORDED, metavar="FILE.nc", help="where to write")
    options = parser.parse_args()
    sma.enable_x64()
    dataset = record(options.problems, options.output)
    found = Counter(dataset["outcome"].values.tolist())
    for outcome in (CONVERGED, SAID, OTHER):
        print(f"{found[outcome]:5d} {outcome}")
    for said, number in Counter(filter(None, dataset["said"].values.tolist())).most_common():
        print(f"{number:5d} {said}")
    return 1 if found[OTHER] else 0


if __name__ == "__main__":
    sys.exit(main())
