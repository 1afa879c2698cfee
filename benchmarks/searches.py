"""Searches for the lowest minimum of the action, on random problems of ten kinds, against separate code."""

import time

import numpy as np

import statmech_attention as sma
from benchmarks.numpy_action import lowest_of
from statmech_attention.layers import Chain, Heads, Linear, Outputs, SkipHeads
from statmech_attention.theory.minima import search
from statmech_attention.theory.starts import starts

REFERENCE = 64  # starts of the separate code
BEFORE = ("prior", "narrow")  # the starts that were all once
APART = 1e-2  # nats, by which a minimum is lower

CORRELATED = {
    "4 heads": (4,),
    "2 x 2 heads": (2, 2),
    "2 x 2 x 2 heads": (2, 2, 2),
    "3 x 3 heads": (3, 3),
    "a skip": (2, SkipHeads(2)),
    "narrow heads": (Heads(2, values=3), Linear(), 2),
    "2 outputs": (2, Outputs(2)),
    "3 outputs": (2, Outputs(3)),
}
LARGE, WEAK = "large labels", "labels along weak directions"
KINDS = (*CORRELATED, LARGE, WEAK)


def problem(kind: str, number: int) -> sma.Problem:
    """A random problem of a kind."""
    random = np.random.default_rng([KINDS.index(kind), number])
    return {LARGE: _large, WEAK: _weak}.get(kind, lambda random: _correlated(random, CORRELATED[kind]))(random)


def _correlated(random, layers) -> sma.Problem:
    """Labels along one path per output, and noise that paths of a group share but for little."""
    chain = Chain.of(layers)
    examples, load = int(random.integers(20, 50)), 10 ** random.uniform(-0.7, 0.0)
    features = max(8, int(examples / load))
    own = np.sqrt(10 ** random.uniform(-3, -1))  # one minus the correlation
    group = np.arange(chain.paths) % 2
    common, noise = random.normal(size=(examples, 2, features)), random.normal(size=(examples, chain.paths, features))
    inputs = np.sqrt(1 - own**2) * common[:, group] + own * noise
    labels = random.choice([-1.0, 1.0], size=(examples, chain.outputs))
    for output in range(chain.outputs):
        inputs[:, random.integers(chain.paths), output] += random.uniform(0.3, 1.3) * labels[:, output]
    numbers = {"width": random.uniform(3, 20), "temperature": 10 ** random.uniform(-3, -0.5)}
    return sma.Problem(inputs, labels if chain.readout.axes else labels[:, 0], layers=layers, **numbers)


def _large(random) -> sma.Problem:
    """Labels of order one and small inputs without structure."""
    layers = ((2, 2), (2, SkipHeads(2)), (2, 2, 2), (4,))[random.integers(4)]
    inputs = random.normal(size=(7, Chain.of(layers).paths, 3)) * 10 ** random.uniform(-3, -0.5)
    labels = random.choice([-1.0, 1.0], size=7)
    numbers = {"width": random.uniform(3, 10), "temperature": 10 ** random.uniform(-4, -2)}
    return sma.Problem(inputs, labels, layers=layers, **numbers)


def _weak(random) -> sma.Problem:
    """Examples without a label along strong directions of the kernel, and one or two with one along weak directions."""
    layers = ((1,), (2,), (1, 1), (2, 2))[random.integers(4)]
    paths, strong, weak = Chain.of(layers).paths, int(random.integers(5, 30)), int(random.integers(1, 3))
    sizes = np.concatenate([10 ** random.uniform(1, 3, strong), 10 ** random.uniform(-3, -1, weak)])
    inputs = np.diag(np.sqrt(sizes * len(sizes)))[:, None] * np.ones((paths, 1))
    inputs = inputs + 0.1 * random.normal(size=inputs.shape) * (paths > 1) * np.sqrt(sizes)[:, None, None]
    labels = np.where(np.arange(len(sizes)) < strong, 0.0, 10 ** random.uniform(1, 1.7, len(sizes)))
    return sma.Problem(inputs, labels, layers=layers, width=random.uniform(3, 30), temperature=1.0)


def measure(kind: str, first: int, count: int) -> list[dict]:
    """Return a row per problem: what each search missed in nats, and seconds of the processor beside one solve."""
    return [_row(kind, number) for number in range(first, first + count)]


def _row(kind: str, number: int) -> dict:
    """The comparison on one problem."""
    asked = problem(kind, number)
    seconds, found = {}, {}
    searches = {
        "solve": lambda: [sma.solve(asked)],
        "before": lambda: search(asked, lambda *given: [one for one in starts(*given) if one.name in BEFORE]),
        "after": lambda: sma.minima(asked),
    }
    for name, call in searches.items():
        call()
        begun = time.process_time()
        found[name] = call()
        seconds[name] = time.process_time() - begun
    reference, _ = lowest_of(asked, REFERENCE, number)
    lowest = min(reference, *(float(each[0].action) for each in found.values()))
    unit = max(asked.width) / 2
    missed = {name: unit * (float(each[0].action) - lowest) for name, each in found.items()}
    return {
        "kind": kind,
        "number": number,
        "minima": len(found["after"]),
        "reference": unit * (reference - lowest),
        **{f"{name} missed": value for name, value in missed.items()},
        **{f"{name} seconds": value for name, value in seconds.items()},
    }
