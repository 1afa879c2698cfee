"""Streams and solves on many machines: chunks become problems where they are read, and are added in a tree by Dask.

Dask schedules, moves and repeats what a lost worker has computed. What its workers compute is pure,
so the answer does not depend on where and how often. A client of any Dask cluster will do, also of
`dask_jobqueue.SLURMCluster`.
"""

import pickle
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from statmech_attention.installed import need

need("cluster", "statmech_attention.cluster")

from dask.distributed import Client, LocalCluster
from distributed.scheduler import KilledWorker

from statmech_attention import checks, enable_x64
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.saddle_point import solve
from statmech_attention.theory.solution import Solution
from statmech_attention.theory.streams import ChunkError, added, said

_MOST_NAMED = 5  # refused chunks in a message


def problem_of(
    chunks: Sequence[Callable[[], Any] | tuple | Problem], client: Client | None = None, *, layers=None, **numbers
) -> Problem:
    """The sum of the problems of all `chunks`, reduced; see `Problem.of_chunks`.

    Args:
        chunks: functions without arguments that return pairs (attentioned inputs, labels), called on
            the workers; or the pairs themselves, which are sent there. A function that returns
            `Problem.of_chunks(..., checkpoint=...)` adds a stream of its own, which goes on after an
            interruption.
        client: of a Dask cluster; if None, of a local one with a process per core, for this call. In
            a script this needs `if __name__ == "__main__":`.
        layers: only for plain arrays, as in `Problem`.
        **numbers: width, temperature and variance, as in `Problem`.

    Raises:
        ChunkError: chunks that cannot be read or do not fit; all of them are named, and the exception
            carries the sum of the others.
        RuntimeError: the scheduler is gone, or a chunk ended several workers.
    """
    checks.need_double("problem_of", np.zeros(()))
    given = checks.listed("chunks", chunks, "functions or pairs")
    with _working(client) as client:
        part = partial(_part, layers=layers, numbers=numbers)
        first = client.submit(part, 0, given[0], pure=False)
        like = client.submit(_seen, first, pure=False)
        parts = [first, *client.map(part, range(1, len(given)), given[1:], like=like, pure=False)]
        while len(parts) > 1:
            pairs = [parts[place : place + 2] for place in range(0, len(parts), 2)]
            parts = [client.submit(_joined, *pair, pure=False) if len(pair) > 1 else pair[0] for pair in pairs]
        packed, refused = parts[0].result()
    total = None if packed is None else _opened(packed)
    if refused:
        named = "; ".join(f"chunk {number}: {refused[number]}" for number in sorted(refused)[:_MOST_NAMED])
        raise ChunkError(
            f"{named} ({len(refused)} of {len(given)} chunks, counted from 0, are left out of the sum, the .problem of "
            "this exception.)",
            total,
            len(given) - len(refused),
        )
    assert total is not None  # there is a chunk, and none was refused
    return total


def solutions(problems: Sequence[Problem], client: Client | None = None, **options) -> list[Solution]:
    """`solve` of each problem, as of many widths and temperatures, with its `options`, on the workers.

    Raises:
        ValueError, NotConverged: as `solve`.
        RuntimeError: as `problem_of`.
    """
    checks.need_double("solutions", np.zeros(()))
    packed = list(map(pickle.dumps, checks.listed("problems", problems, "problems")))
    with _working(client) as client:
        found = client.gather(client.map(partial(_solved, options=options), packed, pure=False))
    return list(map(_opened, found))


@contextmanager
def _working(client: Client | None):
    """A client, and errors that say what became of its cluster."""
    if client is None:
        with LocalCluster(threads_per_worker=1, dashboard_address=None) as local, Client(local) as own:
            yield own
        return
    if not isinstance(client, Client):
        raise ValueError(f"client: wanted a dask.distributed.Client, got {type(client).__name__}.")
    try:
        yield client
    except KilledWorker as error:
        raise RuntimeError(
            f"A chunk ended several workers, perhaps for want of memory: make chunks smaller. {error}"
        ) from error
    except Exception as error:
        if client.status == "running":
            raise
        raise RuntimeError(
            f"The scheduler is gone ({type(error).__name__}: {error}). Connect a new client and call this again."
        ) from error


def _part(number: int, chunk, layers, numbers, like=None) -> tuple[bytes | None, dict[int, str]]:
    """The packed problem of a chunk that is `like` the first one; or why the chunk is refused."""
    enable_x64()
    try:
        problem = added(None, chunk() if callable(chunk) else chunk, layers=layers, numbers=numbers)
        if like not in (None, _layers_and_features(problem)):
            raise ValueError(f"wanted layers and features {like}, as in chunk 0, got {_layers_and_features(problem)}.")
    except Exception as error:
        return None, {number: said(error)}
    return pickle.dumps(problem), {}


def _seen(part):
    """Layers and features that all other chunks must have."""
    return None if part[0] is None else _layers_and_features(_opened(part[0]))


def _layers_and_features(problem: Problem) -> tuple:
    return problem.layers, problem.attentioned.values.shape[-1]


def _joined(one, other) -> tuple[bytes | None, dict[int, str]]:
    """The packed sum of two parts."""
    (first, refused), (second, more) = one, other
    if first is None or second is None:
        return first or second, refused | more
    return pickle.dumps(_opened(first) + _opened(second)), refused | more


def _solved(packed: bytes, options: dict[str, Any]) -> bytes:
    return pickle.dumps(solve(_opened(packed), **options))


def _opened(packed: bytes) -> Any:
    """A problem or solution that was sent as bytes: arrays would lose digits in a worker that is not yet double."""
    enable_x64()
    return pickle.loads(packed)
