"""How often a search misses the lowest minimum of the action: `python -m benchmarks.searches`.

Random problems of ten kinds, 32 of each, are solved from the prior (`solve`), from the prior and a
narrower network ("before"), by `minima` ("after"), and by separate code from 64 starts. The lowest
minimum is the lowest that any of them found. Fewer problems follow in which the Hessian is not
formed, and with more outputs and paths. The record is written after each problem, and a run that
was interrupted goes on. Remove `results/searches.nc` to begin again, or give `--record`.
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from tqdm import tqdm

import statmech_attention as sma
from attention_book.runs import results
from benchmarks.numpy_action import lowest_of
from statmech_attention.layers import Chain, Heads, Linear, Outputs, SkipHeads
from statmech_attention.theory.search import search
from statmech_attention.theory.starts import Start, starts

EACH = 32  # problems of a kind
REFERENCE = 64  # starts of the separate code
SEARCHES = ("solve", "before", "after", "separate")
BEFORE = ("prior", "narrow")  # the starts that were all once
LOWER = 1e-2  # nats, by which a minimum is lower
REVISION = 3  # raised when what is measured changes


class Noisy(NamedTuple):
    """A kind of problem whose paths share most of their noise, in groups."""

    layers: tuple
    examples: int = 32
    groups: int = 2
    loads: tuple[float, float] = (4.0, 15.0)


KINDS: dict[str, Noisy | None] = {
    "4 heads": Noisy((4,)),
    "2 x 2 heads": Noisy((2, 2)),
    "2 x 2 x 2 heads": Noisy((2, 2, 2)),
    "3 x 3 heads": Noisy((3, 3), groups=3),
    "a skip": Noisy((2, SkipHeads(2)), groups=3),
    "narrow heads": Noisy((Heads(2, values=3), Linear(), 2)),
    "2 outputs": Noisy((2, Outputs(2)), groups=1, loads=(4.4, 6.7)),
    "3 outputs": Noisy((2, Outputs(3)), examples=24, groups=1, loads=(4.0, 7.0)),
    "large labels": None,
    "weak directions": None,
}
PRODUCTS = "Hessian not formed"  # problems of the ten kinds in turn
MORE: dict[str, Noisy | None] = {
    PRODUCTS: None,
    "4 outputs": Noisy((2, Outputs(4)), examples=16, groups=1, loads=(4.0, 7.0)),
    "6 outputs": Noisy((2, Outputs(6)), examples=16, groups=1, loads=(4.0, 7.0)),
    "4 x 4 heads": Noisy((4, 4)),
    "8 x 8 heads": Noisy((8, 8), examples=24),
}
EACH_OF_MORE = {PRODUCTS: 20, "4 outputs": 6, "6 outputs": 6, "4 x 4 heads": 6, "8 x 8 heads": 3}


def main() -> None:
    """Compare on the problems that are not recorded yet, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.searches", description=__doc__)
    default = Path(__file__).resolve().parents[1] / "results" / "searches.nc"
    parser.add_argument("--record", type=Path, default=default, help="where to keep it")
    parser.add_argument("--each", type=int, default=EACH, help="problems of a kind")
    options = parser.parse_args()
    sma.enable_x64()
    rows = results.load(options.record).to_dataframe().to_dict("records") if options.record.is_file() else []
    done, warm = {(row["kind"], row["number"]) for row in rows}, set[tuple]()
    each = dict.fromkeys(KINDS, options.each) | EACH_OF_MORE
    planned = [(kind, number) for number in range(max(each.values())) for kind in each if number < each[kind]]
    for kind, number in tqdm([one for one in planned if one not in done], unit="problem"):
        rows.append(row(kind, number, warm))
        columns = {name: ("problem", np.array([one[name] for one in rows])) for name in rows[0]}
        parameters = {"starts of the separate code": REFERENCE, "lower": LOWER}
        results.save(
            xr.Dataset(columns), options.record, parameters=parameters, revision=REVISION, maker="benchmarks", seed=0
        )
    print(table(results.load(options.record)).to_string())


def table(record: xr.Dataset):
    """Problems of every kind, those with several minima, those that each search missed, and its time in solves."""
    frame = record.to_dataframe()
    groups = frame.groupby("kind", sort=False)
    found = {"problems": groups.size(), "several minima": groups["minima"].agg(lambda count: (count > 1).sum())}
    for name in SEARCHES:
        found[f"{name}: missed"] = groups[f"{name} missed"].agg(lambda nats: (nats > LOWER).sum())
    found["after: most nats"] = groups["after missed"].max().round(3)
    for name in SEARCHES[1:3]:
        found[f"{name}: time in solves"] = groups[f"{name} seconds"].median() / groups["solve seconds"].median()
    return pd.DataFrame(found)


def problem(kind: str, number: int) -> sma.Problem:
    """A random problem of a kind."""
    names = [*KINDS, *MORE]
    if kind == PRODUCTS:
        return problem(names[number % len(KINDS)], EACH + number // len(KINDS))
    random, noisy = np.random.default_rng([names.index(kind), number]), (KINDS | MORE)[kind]
    if noisy is not None:
        return _noisy(random, noisy)
    return _large(random, number) if kind == "large labels" else _weak(random, number)


def _noisy(random, kind: Noisy) -> sma.Problem:
    """Labels along one path, of several outputs along the first; paths of a group share noise but for little."""
    chain, features = Chain.of(kind.layers), 4 * kind.examples
    own = np.sqrt(10 ** random.uniform(-3, -1.5))  # one minus the correlation
    group = np.arange(chain.paths) % kind.groups
    common = random.normal(size=(kind.examples, kind.groups, features))
    noise = random.normal(size=(kind.examples, chain.paths, features))
    inputs = np.sqrt(1 - own**2) * common[:, group] + own * noise
    labels = random.choice([-1.0, 1.0], size=(kind.examples, chain.outputs))
    path = random.integers(chain.paths) if chain.outputs == 1 else 0
    for output in range(chain.outputs):
        inputs[:, path, output] += random.uniform(0.5, 1.2) * labels[:, output]
    numbers = {"width": kind.examples / random.uniform(*kind.loads), "temperature": 10 ** random.uniform(-2.5, -1)}
    return sma.Problem(inputs, labels if chain.readout.axes else labels[:, 0], layers=kind.layers, **numbers)


def _large(random, number: int) -> sma.Problem:
    """Labels of order one, small inputs without structure, and fewer neurons than examples."""
    layers = ((2, 2), (2, SkipHeads(2)), (2, 2, 2), (3, 3))[number % 4]
    examples = int(random.integers(7, 15))
    shape = examples, Chain.of(layers).paths, (examples + 1) // 2
    inputs = random.normal(size=shape) * 10 ** random.uniform(-2, -1.3)
    labels = random.choice([-1.0, 1.0], size=examples)
    numbers = {"width": random.uniform(2, 3), "temperature": 10 ** random.uniform(-4.5, -3.5)}
    return sma.Problem(inputs, labels, layers=layers, **numbers)


def _weak(random, number: int) -> sma.Problem:
    """Examples without a label along strong directions of the kernel, and one or two with one along weak directions."""
    layers = ((1,), (2,), (1, 1), (2, 2))[number % 4]
    paths, weak = Chain.of(layers).paths, int(random.integers(1, 3))
    sizes = np.concatenate([10 ** random.uniform(1, 3, 24 - weak), 10 ** random.uniform(-3, -1, weak)])
    inputs = np.diag(np.sqrt(sizes * len(sizes)))[:, None] * np.ones((paths, 1))
    inputs = inputs + 0.1 * random.normal(size=inputs.shape) * (paths > 1) * np.sqrt(sizes)[:, None, None]
    labels = np.where(np.arange(24) < 24 - weak, 0.0, 10 ** random.uniform(1, 1.7, 24))
    return sma.Problem(inputs, labels, layers=layers, width=random.uniform(3, 30), temperature=1.0)


def row(kind: str, number: int, warm: set[tuple]) -> dict:
    """What each search missed on a problem, in nats, and its seconds of the processor, without compilation."""
    asked, found, seconds = problem(kind, number), {}, {}
    method = "products" if kind == PRODUCTS else "auto"
    searches = {
        "solve": lambda: [sma.solve(asked, method=method)],
        "before": lambda: search(asked, before, method=method),
        "after": lambda: sma.minima(asked, method=method),
    }
    shapes = method, asked.layers, asked.attentioned.values.shape
    for name, call in searches.items():
        if shapes not in warm:
            call()  # which compiles
        begun = time.process_time()
        found[name] = call()
        seconds[f"{name} seconds"] = time.process_time() - begun
    warm.add(shapes)
    lowest = {name: float(each[0].action) for name, each in found.items()}
    lowest["separate"] = lowest_of(asked, REFERENCE, number)
    least, unit = min(lowest.values()), max(asked.width) / 2
    missed = {f"{name} missed": unit * (action - least) for name, action in lowest.items()}
    return {"kind": kind, "number": number, "minima": len(found["after"]), **missed, **seconds}


def before(*given) -> list[Start]:
    """The starts that were all once."""
    return [one for one in starts(*given) if one.name in BEFORE]


if __name__ == "__main__":
    main()
