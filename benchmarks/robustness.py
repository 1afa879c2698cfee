"""Solve random problems, harmless and not: `python -m benchmarks.robustness`.

Does each converge, or say why not? Layers, examples and features come in a few combinations, since
each is compiled once; all else is drawn for every problem. A minimum is compared with the action at
random points beside it.
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
from statmech_attention.layers.chains import layers_to_json
from statmech_attention.theory.coordinates import full_rank, order_parameters
from statmech_attention.theory.inverse import point_of

RECORDED, MAKER = table.RESULTS / "robustness.nc", "benchmark of the robustness"
# Layers, examples, features.
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
    ((sma.SkipHeads(2), sma.SkipHeads(2)), 40, 5),
    ((sma.SkipHeads(1), 2, 2), 15, 20),
    ((2, sma.Linear(), 2), 60, 6),
    ((sma.Linear(), 3), 4, 2),
    ((sma.Linear(), sma.SkipHeads(3), sma.Outputs(2)), 30, 4),
    ((2, 2, sma.Outputs(3)), 50, 8),
    ((4, sma.Outputs(4)), 12, 1),
    ((sma.Heads(2, values=3), 2), 40, 6),
)
KINDS = (
    "as drawn",
    "examples twice",
    "examples twice, labels opposed",
    "constant labels",
    "constant features",
    "a feature of zero",
    "equal paths",
    "a path of zero",
    "mixed scales",
)
CONVERGED, SAID, OTHER = "converged", "says why", "anything else"
ROUNDING = 1e-12  # relative, of the action
UNITS = {
    "width": ("", "N, from 1 to a million"),
    "temperature": ("", "T, from 1e-6 to 10"),
    "scale": ("", "of the inputs, from 0.01 to 100"),
    "outcome": ("", f"{CONVERGED}; {SAID}, an error of the house; or {OTHER}"),
    "said": ("", "the outcome that the error names, its first words where it names none"),
}


def draw(seed: int) -> dict:
    """Return a problem: `kind`, `layers`, `width`, `temperature`, `scale`, `inputs` and `labels`."""
    random = np.random.default_rng([18, seed])
    layers, examples, features = SHAPES[seed % len(SHAPES)]
    chain = sma.layers.chain(layers)
    kind = KINDS[random.integers(len(KINDS))]
    scale = 10.0 ** random.uniform(-2, 2)
    inputs = scale * random.normal(size=(examples, chain.paths, features))
    labels = random.normal(size=(examples, *[chain.outputs] * len(chain.readout.axes)))
    labels = np.sign(labels) if random.integers(2) else labels
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
    elif kind == "equal paths":
        inputs[:] = inputs[:, :1]
    elif kind == "a path of zero":
        inputs[:, 0] = 0
    elif kind == "mixed scales":
        inputs *= 10.0 ** random.uniform(-3, 3, size=(examples, 1, 1))
    width, temperature = 10.0 ** random.uniform(0, 6), 10.0 ** random.uniform(-6, 1)
    numbers = {"width": width, "temperature": temperature, "scale": scale}
    return {"kind": kind, "layers": layers, "inputs": inputs, "labels": labels} | numbers


def solve(problem: dict) -> dict:
    """Return the row of a problem: its outcome, and its fields that are numbers or texts."""
    row = {name: problem[name] for name in ("kind", "width", "temperature", "scale")}
    row |= {"layers": json.dumps(layers_to_json(problem["layers"])), "examples": len(problem["labels"])}
    row |= {"features": problem["inputs"].shape[-1], "said": "", "action": math.nan, "steps": 0}
    asked = {"layers": problem["layers"], "width": problem["width"], "temperature": problem["temperature"]}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            posed = sma.Problem(problem["inputs"], problem["labels"], **asked)
            solution = sma.solve(posed)
            mean, variance = solution.predict(problem["inputs"][:5])
    except sma.NotConverged as error:
        return row | {"outcome": SAID, "said": sma.Outcome(int(error.solution.outcome)).name}
    except ValueError as error:
        return row | {"outcome": SAID, "said": str(error)[:60]}
    except Exception as error:  # these do not say what to do
        return row | {"outcome": OTHER, "said": f"{type(error).__name__}: {error}"[:60]}
    row |= {"action": float(solution.action), "steps": int(solution.steps)}
    wrong = _wrong(posed, solution, np.asarray(mean), np.asarray(variance))
    return row | ({"outcome": OTHER, "said": wrong} if wrong else {"outcome": CONVERGED})


def _wrong(posed, solution, mean, variance) -> str:
    """Return what is impossible about a converged solution; empty if nothing is."""
    matrix = np.asarray(solution.order_parameter)
    if not (np.isfinite(matrix).all() and np.isfinite(mean).all() and np.isfinite(variance).all()):
        return "not finite"
    if np.linalg.eigvalsh(matrix)[0] < -1e-9 * np.linalg.norm(matrix):
        return "an order parameter that is not positive"
    if not (variance >= 0).all():
        return "a negative variance"
    factors, random = full_rank(posed.architecture), np.random.default_rng(0)
    minimum = point_of(solution.order_parameters, factors)
    action = _action(posed, order_parameters(minimum, factors))
    for size in (1e-3, 1e-2, 1e-1):
        beside = order_parameters(minimum + size * random.normal(size=minimum.shape), factors)
        if _action(posed, beside) < action - ROUNDING * abs(action):
            return f"a lower action {size:g} beside the minimum"
    return ""


def _action(posed, overlaps) -> float:
    """The action (11) by singular values of the features, where the kernel is too ill-conditioned to factorise."""
    chain = posed.attentioned.chain
    inputs = np.asarray(posed.attentioned.values) * chain.path_gains[:, None]
    design = np.einsum("iaf,cd->icadf", inputs, np.eye(chain.outputs))
    values, vectors = np.linalg.eigh(overlaps[0])
    root = vectors * np.sqrt(np.maximum(values, 0))
    labels, features = np.ravel(posed.labels), inputs.shape[2]
    design = design.reshape(len(labels), len(root), features)
    rows = np.einsum("raf,ab->rbf", design, root).reshape(len(labels), -1) / (chain.divisor * features) ** 0.5
    directions, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    along, heat = directions.T @ labels, float(posed.temperature)
    rest = labels - directions @ along
    nats = np.log(sizes**2 + heat).sum() + (len(labels) - len(sizes)) * np.log(heat)
    nats += (along**2 / (sizes**2 + heat)).sum() + rest @ rest / heat
    entropy = sma.theory.entropy(overlaps, layers=posed.layers, width=posed.width)
    return float(entropy + nats / posed.architecture.unit)


def checksum() -> np.ndarray:
    """Actions of the first random problems; minus one where there is none."""
    rows = (solve(draw(seed)) for seed in range(4))
    return np.array([row["action"] if row["outcome"] == CONVERGED else -1.0 for row in rows])


def main() -> int:
    """Solve, record and count; return 1 if anything but an answer or a reason came out."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.robustness", description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=1100, help="number of problems (1100)")
    count, began = parser.parse_args().problems, time.monotonic()
    sma.enable_x64()
    seeds = sorted(range(count), key=lambda seed: seed % len(SHAPES))  # shape by shape
    rows = [solve(draw(seed)) for seed in tqdm(seeds, unit="problem")]
    about = {"dimension": "problem", "parameters": {"problems": count}, "revision": 2}  # 2: further layers and kinds
    table.write(RECORDED, rows, UNITS, maker=MAKER, checksum=checksum(), began=began, **about)
    for (outcome, said), number in Counter((row["outcome"], row["said"]) for row in rows).most_common():
        print(f"{number:5d} {outcome}  {said}")
    return int(any(row["outcome"] == OTHER for row in rows))


if __name__ == "__main__":
    sys.exit(main())
