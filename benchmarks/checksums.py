"""A few numbers that each benchmark computes, kept beside its times: `make verify` computes them again."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np

import statmech_attention as sma
from attention_book.experiments.experiment import Recheck, difference
from benchmarks import killed, problems, robustness
from statmech_attention import dmft, results


def minimisers() -> np.ndarray:
    """Actions at the saddle points of the hidden Markov problem."""
    inputs, labels = problems.make("hidden Markov", examples=100, heads=(2, 2), features=231)
    return np.array([sma.solve(inputs, labels, width=width, temperature=0.01).action for width in (1000, 100, 10)])


def dynamics() -> np.ndarray:
    """Sums over networks of their overlaps in the first steps; later ones are chaotic where beta is large."""
    model = dmft.dynamics(dmft.segments(seed=1, window=4), beta=np.linspace(1.0, 3.0, 16), gamma=220.0, epsilon=0.02)
    overlaps = dmft.trajectory(model, dmft.start(model), steps=40)
    return np.array([np.sum(np.asarray(leaf)) for leaf in jax.tree.leaves(overlaps)])


def samplers() -> np.ndarray:
    """Potentials of the first draws of the order parameters, after hardly any warm-up."""
    inputs, labels = problems.make("hidden Markov", examples=100, heads=(2, 2), features=231)
    options = {"width": 10, "temperature": 0.01, "warmup": 2, "draws": 4, "warn": False, "progress": False}
    return sma.sampling.posterior(inputs, labels, key=jax.random.key(0), **options)["potential"].values


def random_problems() -> np.ndarray:
    """Actions of the first random problems; minus one where there is none."""
    rows = (robustness.solve(robustness.draw(seed)) for seed in range(4))
    return np.array([row["action"] if row["outcome"] == robustness.CONVERGED else -1.0 for row in rows])


def left_alone() -> np.ndarray:
    """Actions of the sweep that is killed, left alone."""
    with tempfile.TemporaryDirectory() as folder:
        return results.load(killed.sweep(Path(folder)))["action"].values


CHECKSUMS: dict[str, Callable[[], np.ndarray]] = {
    "benchmark of the minimisers": minimisers,
    "benchmark of the first calls": minimisers,
    "benchmark of the dynamics": dynamics,
    "benchmark of the samplers": samplers,
    robustness.MAKER: random_problems,
    killed.MAKER: left_alone,
}


def again(path) -> Recheck:
    """The numbers of a recorded benchmark, computed again; its times are not looked at."""
    compute = CHECKSUMS[results.record(path)["maker"]]
    apart = difference(compute().ravel(), results.load(path).attrs["checksum"])
    return Recheck(compute.__doc__.split(";")[0].split(".")[0].lower(), apart, 1e-6)
