"""The tree on a local Dask cluster gives what one process gives, also after a worker was killed."""

import os
import signal
from functools import partial

import numpy as np
import pytest

import statmech_attention as sma

pytest.importorskip("distributed")

from dask.distributed import Client, LocalCluster

from statmech_attention.theory import ChunkError

NUMBERS = {"layers": (2, 2), "width": 9, "temperature": 0.3}
OVERLAP = np.eye(4) + 0.3


def chunk(seed, size, mark=None, features=3):
    """Examples drawn from a seed; with a `mark` that is not yet there, the end of this process."""
    if mark is not None and not os.path.exists(mark):
        with open(mark, "w"):
            os.kill(os.getpid(), signal.SIGKILL)
    random = np.random.default_rng(seed)
    return random.normal(size=(size, 4, features)), np.sign(random.normal(size=size))


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def energy(problem):
    return float(sma.theory.energy(problem, OVERLAP))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_killed_worker_changes_nothing(client, tmp_path):
    mark = tmp_path / "killed"
    chunks = [partial(chunk, seed, 20 + seed) for seed in range(7)]
    killing = [*chunks[:4], partial(chunk, 4, 24, str(mark)), *chunks[5:]]
    found = sma.cluster.problem_of(killing, client, **NUMBERS)
    assert mark.exists()
    wanted = sma.Problem.of_chunks([one() for one in chunks], **NUMBERS)
    assert found.examples == wanted.examples == sum(range(20, 27)) and found.width == wanted.width
    assert energy(found) == pytest.approx(energy(wanted), rel=1e-12)


def stream(seeds, path):
    """A task of its own: the sum of some chunks, which goes on after an interruption."""
    return sma.Problem.of_chunks([chunk(seed, 20) for seed in seeds], checkpoint=path, **NUMBERS)


def test_a_task_may_be_a_stream_with_a_checkpoint(client, tmp_path):
    tasks = [partial(stream, seeds, str(tmp_path / f"{seeds[0]}.nc")) for seeds in ((0, 1), (2, 3, 4))]
    found = sma.cluster.problem_of(tasks, client, **NUMBERS)
    wanted = sma.Problem.of_chunks([chunk(seed, 20) for seed in range(5)], **NUMBERS)
    assert found.examples == 100 and len(list(tmp_path.glob("*.nc"))) == 2
    assert energy(found) == pytest.approx(energy(wanted), rel=1e-12)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_scheduler_that_is_gone_is_named():
    cluster = LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    with Client(cluster, timeout="2s") as mine:
        cluster.close()
        with pytest.raises(RuntimeError, match="^The scheduler is gone"):
            sma.cluster.problem_of([chunk(0, 20), chunk(1, 20)], mine, **NUMBERS)


def test_refused_chunks_are_named_and_the_others_are_added(client):
    chunks = [partial(chunk, seed, 20) for seed in range(5)]
    chunks[1], chunks[3] = partial(chunk, 1, 20, features=2), lambda: 1 / 0
    with pytest.raises(
        ChunkError, match=r"^chunk 1: wanted layers and features .* chunk 3: ZeroDivisionError"
    ) as caught:
        sma.cluster.problem_of(chunks, client, **NUMBERS)
    assert caught.value.chunks == 3
    wanted = sma.Problem.of_chunks([chunks[place]() for place in (0, 2, 4)], **NUMBERS)
    assert energy(caught.value.problem) == pytest.approx(energy(wanted), rel=1e-12)


def test_solutions_are_those_of_solve(client):
    problem = sma.Problem.of_chunks([chunk(0, 50)], **NUMBERS)
    problems = [problem.replace(width=width) for width in (5, 50)]
    for found, one in zip(sma.cluster.solutions(problems, client, tolerance=1e-10), problems, strict=True):
        wanted = sma.solve(one, tolerance=1e-10)
        np.testing.assert_allclose(found.order_parameter, wanted.order_parameter, rtol=0, atol=1e-9)
        assert found.examples == 50


def test_what_is_no_cluster_or_has_no_chunks_is_refused(client):
    with pytest.raises(ValueError, match="^client: wanted a dask"):
        sma.cluster.problem_of([chunk(0, 5)], "tcp://localhost")
    with pytest.raises(ValueError, match="^chunks: wanted a list of at least one"):
        sma.cluster.problem_of([], client)
