"""Whole models and many texts: what a projected network costs, and how many texts a second it sees."""

from collections.abc import Iterator
from functools import partial

import numpy as np

import statmech_attention as sma
from benchmarks.timing import timed, twice, uncounted

LAYERS, HEADS, TOKENS, FEATURES, WORDS = 6, 12, 20, 64, 400
AT_ONCE = 250  # of many texts, whose attention maps are in memory


def measure(texts: int, components: int, single: bool) -> list[dict]:
    """Return rows of what is chosen, seen, solved and what heads are worth.

    The seconds in which texts are made, as often as they are read, do not count.
    """
    first, _ = next(parts(texts))
    chosen, network = timed(lambda: sma.projection(first, components))
    del first  # its attention maps are as large as all that is seen of ten thousand texts
    rows = [{"what": "projection", "texts": texts, "seconds": chosen}]
    seconds, size = seen(network, texts, single)
    rows.append({"what": "texts seen", "texts": texts, **seconds})
    taken, problem = timed(reading(network, texts, single, (1 / size, *np.ones(LAYERS + 1))).reduce)
    more, solution = timed(lambda: sma.solve(problem, settle=0.03, throw=False))
    rows.append({"what": "solve", "texts": texts, "seconds": taken + more, "directions": solution.directions.count})
    inputs = next(parts(texts))[0] if problem.count is None else parts(texts)
    worth, _ = timed(lambda: sma.pruning.head_worth(solution, inputs=inputs, removal=False).slopes)
    return [*rows, {"what": "worth of heads", "texts": texts, "seconds": worth}]


def seen(network, texts: int, single: bool) -> tuple[dict, float]:
    """Seconds that the network takes, from those of one part, and the size of what it sees."""
    some, _ = next(parts(texts))
    taken, found = twice(lambda: network(some, single=single))
    rate = len(some) / taken["seconds"]
    return taken | {"seconds": texts / rate, "per second": rate}, float(np.mean(found.own))


def reading(network, texts: int, single: bool, variance) -> sma.Problem:
    """The problem of all parts, each of which is forgotten when the next is read."""
    topics: list = []
    inputs = network(read(texts, topics), single=single)
    return sma.Problem(inputs, np.concatenate(topics), width=30, temperature=0.3, variance=variance)


def read(texts: int, topics: list) -> Iterator[sma.TokenInputs]:
    """The texts of all parts, whose topics go into the list."""
    for inputs, own in parts(texts):
        topics.append(own)
        yield inputs


def parts(texts: int) -> Iterator[tuple]:
    """Texts and their topics, some at a time, so that attention maps do not fill the memory."""
    size = texts if texts <= 4 * AT_ONCE else AT_ONCE
    for number in range(0, texts, size):
        yield uncounted(partial(made, min(size, texts - number), 1 + number))


def made(texts: int, seed: int = 1):
    """Texts of two topics, drawn as words, with attention by queries and keys of random heads."""
    model, draw = np.random.default_rng(0), np.random.default_rng(seed)
    words, places = model.normal(size=(WORDS, FEATURES)), 0.3 * model.normal(size=(TOKENS, FEATURES))
    shares = np.exp(model.normal(size=(2, WORDS)))
    maps = model.normal(size=(2, LAYERS, HEADS, 8, FEATURES)) / np.sqrt(FEATURES)
    topics = draw.choice([-1.0, 1.0], texts)
    drawn = [draw.choice(WORDS, TOKENS, p=shares[int(topic > 0)] / shares[int(topic > 0)].sum()) for topic in topics]
    tokens = words[np.array(drawn)] + places
    attention = []
    for queries, keys in zip(*maps, strict=True):
        asked, known = (np.einsum("eti,hki->ehtk", tokens, each, optimize=True) for each in (queries, keys))
        logits = known @ asked.swapaxes(2, 3) / np.sqrt(2)  # keys before queries
        weights = np.exp(logits - logits.max(axis=2, keepdims=True))
        attention.append(weights / weights.sum(axis=2, keepdims=True))
    return sma.token_inputs(tokens, attention, layers=[sma.SkipHeads(HEADS)] * LAYERS, readout="mean"), topics
