"""Measure how streams of chunks grow with the number of examples: `python -m benchmarks.streams`.

Every case is a process of its own, with 5,000 examples per chunk. Cases with workers add the same
stream on a local Dask cluster. An interrupted run continues; it takes ten minutes on an idle core.
"""

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from functools import cache, partial
from itertools import islice

import jax
import numpy as np
from tqdm import tqdm

import statmech_attention as sma
from benchmarks import table

RECORDED, MAKER = table.RESULTS / "benchmarks_streams.nc", "benchmark of the streams"
UNITS = {
    "seconds": ("s", "from the first chunk to the sum"),
    "cpu": ("s", "of the process on a core; of a cluster not known"),
    "made": ("s", "of these for making the chunks, attention included"),
    "peak_megabytes": ("MiB", "peak resident memory of the process, Python and JAX included"),
    "load": ("", "processes that were waiting for a core before the case began, on average over a minute"),
}
COLUMNS = ["what", "examples", "paths", "features", "workers", *UNITS]
CHUNK = 5000
CHAINS, NUMBERS = "hidden Markov chains", "random numbers"


def cases() -> Iterator[dict]:
    """Yield the cases in the order in which they run."""
    for examples in (10**5, 10**6, 10**7):
        yield {"what": CHAINS, "examples": examples, "paths": 4, "features": 16, "workers": 0}
    for examples in (10**4, 10**5, 10**6):
        yield {"what": NUMBERS, "examples": examples, "paths": 4, "features": 231, "workers": 0}
    yield {"what": NUMBERS, "examples": 10**5, "paths": 16, "features": 64, "workers": 0}
    for workers in (1, 2):
        yield {"what": CHAINS, "examples": 10**6, "paths": 4, "features": 16, "workers": workers}


@cache
def _task():
    """Chains of 7 states and 8 entries per token, and their heads."""
    task = sma.tasks.HiddenMarkov(length=7, token_size=8)
    return task, sma.attention_from_products(task.heads(jax.random.key(0)))


def chunk(number: int, what: str, paths: int, features: int, size: int = CHUNK):
    """Return the attentioned inputs and labels of a chunk."""
    sma.enable_x64()  # on a worker, too
    if what == CHAINS:
        task, attention = _task()
        sample = task.sample(jax.random.fold_in(jax.random.key(1), number), size)
        return sma.attentioned_inputs(sample.inputs, attention), sample.labels
    random = np.random.default_rng(number)
    values = random.standard_normal((size, paths, features))
    return values, np.sign(values[:, 0, 0] + random.standard_normal(size))


def layers(paths: int) -> tuple[int, int]:
    """Two layers of as many heads."""
    return (round(paths**0.5),) * 2


def measure(case: dict) -> dict:
    """Return the row of a case, measured in this process."""
    make = partial(chunk, **{name: case[name] for name in ("what", "paths", "features")})
    count, common = case["examples"] // CHUNK, {"layers": layers(case["paths"]), "width": 100, "temperature": 0.1}
    load = os.getloadavg()[0]
    sma.Problem.of_chunks([make(0)], **common)  # everything is compiled and imported
    if case["workers"]:
        return {**case, **_on_workers(make, count, common, case["workers"]), "load": load}
    made = 0.0

    def chunks(done: int):
        nonlocal made
        for number in islice(range(count), done, None):
            began = time.process_time()
            values, labels = make(number)
            jax.block_until_ready((values, labels))
            made += time.process_time() - began
            yield values, labels
            del values, labels

    began, busy = time.monotonic(), time.process_time()
    problem = sma.Problem.of_chunks(chunks, **common)
    seconds, cpu = time.monotonic() - began, time.process_time() - busy
    assert problem.examples == case["examples"]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**case, "seconds": seconds, "cpu": cpu, "made": made, "peak_megabytes": peak, "load": load}


def _on_workers(make, count: int, common: dict, workers: int) -> dict:
    from dask.distributed import Client, LocalCluster

    options = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(**options) as cluster, Client(cluster) as client:
        sma.cluster.problem_of([partial(make, number) for number in range(2 * workers)], client, **common)
        began = time.monotonic()
        sma.cluster.problem_of([partial(make, number) for number in range(count)], client, **common)
        seconds = time.monotonic() - began
    return {"seconds": seconds, "cpu": np.nan, "made": np.nan, "peak_megabytes": np.nan}


def checksum() -> np.ndarray:
    """Energies of streams of three chunks."""
    found = []
    for what, paths, features in ((CHAINS, 4, 16), (NUMBERS, 4, 5)):
        parts = [chunk(number, what, paths, features, 50) for number in range(3)]
        problem = sma.Problem.of_chunks(parts, layers=layers(paths), temperature=0.1)
        found.append(float(sma.theory.energy(problem, np.eye(paths))))
    return np.array(found)


def main() -> int:
    """Measure the cases that are not recorded yet."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streams", description=__doc__)
    parser.add_argument("--one", metavar="CASE", help="measure a case, given in JSON, in this process")
    options = parser.parse_args()
    sma.enable_x64()
    if options.one:
        print(json.dumps(measure(json.loads(options.one))))
        return 0
    rows, began = table.read(RECORDED), time.monotonic()
    done = {json.dumps({name: row[name] for name in COLUMNS[:5]}) for row in rows}
    for case in tqdm([case for case in cases() if json.dumps(case) not in done], unit="case"):
        rows.append(table.alone("benchmarks.streams", json.dumps(case)))
        found = table.write(RECORDED, rows, UNITS, maker=MAKER, checksum=checksum(), began=began)
        table.show(found, COLUMNS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
