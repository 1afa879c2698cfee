"""Problems that workers make and add are the problem of all their examples, also after a worker was killed."""

import operator
import os
import signal
import subprocess
import sys
from functools import partial

import jax
import numpy as np
import pytest

import statmech_attention as sma

pytest.importorskip("distributed")

import dask.bag
from dask.distributed import Client, LocalCluster


def drawn(seed):
    random = np.random.default_rng(seed)
    return random.normal(size=(20 + seed, 4, 3)), np.sign(random.normal(size=20 + seed))


def problem(values, labels):
    return sma.Problem(values, labels, layers=(2, 2), width=9, temperature=0.3).reduce()


def texts(seed):
    random, layers = np.random.default_rng(seed), [sma.SkipHeads(2)] * 2
    matrices = random.uniform(size=(2, 20 + seed, 2, 3, 3))
    matrices /= matrices.sum(axis=-2, keepdims=True)
    return sma.token_inputs(random.normal(size=(20 + seed, 3, 2)), list(matrices), layers=layers)


def seen(network, seed):
    labels = np.sign(np.random.default_rng(seed).normal(size=20 + seed))
    return sma.Problem(network(texts(seed)), labels, width=9, temperature=0.3).reduce()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_dask_bag_adds_problems_although_a_worker_is_killed(tmp_path, monkeypatch):
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    mark = tmp_path / "killed"

    def part(seed):
        if seed == 4 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return problem(*drawn(seed))

    network = sma.projection(texts(0), 4)
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        seeds = dask.bag.from_sequence(range(7), npartitions=7)
        found = seeds.map(part).fold(operator.add).compute()
        whole = seeds.map(partial(seen, network)).fold(operator.add).compute()
    assert mark.exists() and found.examples == sum(range(20, 27))
    values, labels = (np.concatenate(parts) for parts in zip(*map(drawn, range(7)), strict=True))
    assert jax.dtypes.result_type(found.labels) == np.float64
    wanted = sma.solve(problem(values, labels))
    np.testing.assert_allclose(sma.solve(found).order_parameter, wanted.order_parameter, rtol=1e-7)
    backwards = sum(seen(network, seed) for seed in reversed(range(7)))
    assert whole.examples == backwards.examples == found.examples
    np.testing.assert_allclose(sma.solve(whole).excess, sma.solve(backwards).excess, rtol=1e-9)


FOUR = """
import jax, numpy as np, statmech_attention as sma
sma.enable_x64()
draw, layers = np.random.default_rng(0), [sma.SkipHeads(2)] * 2
matrices = draw.uniform(size=(2, 40, 2, 3, 3))
rows = sma.token_inputs(draw.normal(size=(40, 3, 2)), list(matrices / matrices.sum(-2, keepdims=True)), layers=layers)
network = sma.projection(rows, 4)
seen = network(rows)
kernel = sma.kernel(rows, rows, single=True)
np.save({path!r}, np.concatenate([np.ravel(seen.values), [jax.device_count()], np.ravel(kernel)]))
"""


@pytest.mark.slow
def test_devices_share_the_texts_of_a_block(tmp_path):
    found = []
    for count in (1, 4):
        path = str(tmp_path / f"{count}.npy")
        flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={count}", "JAX_PLATFORMS": "cpu"}
        subprocess.run([sys.executable, "-c", FOUR.format(path=path)], check=True, env=os.environ | flags)
        found.append(np.load(path))
    assert found[1][40 * 2 * 4] == 4
    np.testing.assert_allclose(np.delete(found[1], 320), np.delete(found[0], 320), rtol=1e-5, atol=1e-6)
