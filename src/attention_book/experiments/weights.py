"""NUTS on all weights for the hidden Markov chains: the samples of Figures 2(c) and 2(e)."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import jax
import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.experiment import Experiment, Part, Recheck, parameter
from attention_book.experiments.samples import OPENING, opening_of, recheck_of
from statmech_attention import Problem, checks
from statmech_attention.sampling import Chains, estimate, weights_posterior
from statmech_attention.tasks import HiddenMarkov, HiddenMarkovTrial

# Heads that are kept in each layer.
NETWORKS = {"all": ((0, 1), (0, 1)), "good and denoising": ((0, 1), (0,))}


@dataclass(frozen=True, kw_only=True)
class HiddenMarkovWeights(Experiment):
    """The posterior (8) of all weights by NUTS, with an `opening` as in `Samples`."""

    width: int = parameter("$N$", ge=1)
    seed: int = parameter("seed of data, heads and draws")
    network: str = parameter("heads that are kept", among=tuple(NETWORKS))
    noise: float = parameter(r"$\sigma_\perp$")
    temperature: float = parameter("$T$", gt=0)
    examples: int = parameter("training chains", ge=1)
    test_examples: int = parameter("test chains", ge=1)
    chains: int = parameter("chains side by side, started from the prior", ge=2)
    warmup: int = parameter("iterations in which step size and masses adapt", ge=0)
    draws: int = parameter("draws per chain that are kept", ge=4)
    thinning: int = parameter("iterations per draw", ge=1)

    name: ClassVar[str] = "hidden Markov weights"
    revision: ClassVar[int] = 1  # 1: as first recorded

    @property
    def path(self) -> Path:
        named = f"{self.network.replace(' ', '-')}-noise{self.noise:g}-width{self.width}-seed{self.seed}"
        return Path(self.folder) / f"weights-{named}.nc"

    def make(self, state, progress):
        trial = self.trial()

        def compute(step):
            sizes = Chains(draws=self.draws, count=self.chains, warmup=self.warmup, thinning=self.thinning, warn=False)
            drawn = self._drawn(trial, replace(sizes, progress=progress))
            return _summary(drawn, trial).merge(self.opening(trial))

        return (yield Part("weights", compute))

    def trial(self) -> HiddenMarkovTrial:
        """Data and heads."""
        counts = {"examples": self.examples, "test_examples": self.test_examples}
        return sampling_trial(self.seed, network=self.network, noise=self.noise, **counts)

    def opening(self, trial: HiddenMarkovTrial) -> xr.Dataset:
        """NUTS' report of a few draws after hardly any warm-up."""
        return opening_of(self._drawn(trial, replace(OPENING, count=self.chains)))

    def recheck(self) -> Recheck:
        """Draw the opening."""
        return recheck_of(self.opening(self.trial()), results.load(self.path))

    def _drawn(self, trial: HiddenMarkovTrial, chains: Chains) -> xr.Dataset:
        problem = Problem(trial.train, trial.labels, width=self.width, temperature=self.temperature)
        key = jax.random.fold_in(jax.random.key(self.seed), self.width)
        return weights_posterior(problem, key=key, test=trial.test, chains=chains)


def sampling_trial(
    seed: int, *, network: str = "all", noise: float = 1.0, examples: int = 100, test_examples: int = 1000
) -> HiddenMarkovTrial:
    r"""Data and heads of the hidden Markov chains, as a network of `NETWORKS` sees them."""
    trial = HiddenMarkov(perpendicular_noise=noise).trial(jax.random.key(seed), examples, test_examples)
    kept = NETWORKS[checks.choice("network", network, NETWORKS)]
    return trial._replace(train=trial.train.keep_heads(kept), test=trial.test.keep_heads(kept))


def recorded_sampling(folder: str | os.PathLike) -> list[xr.Dataset]:
    """All recorded draws in a folder, in the order of their files' names."""
    files = sorted(Path(folder).glob("weights-*.nc"))
    return [results.load(path).assign_attrs(results.record(path)["parameters"]) for path in files]


def _summary(found: xr.Dataset, trial: HiddenMarkovTrial) -> xr.Dataset:
    """The draws without the outputs of each, which are many."""
    every = found["output"]
    summary = found.drop_vars("output").assign(
        output_mean=every.mean("draw"),
        output_variance=every.var("draw"),
        output_error=("example", estimate(every).error),
        test_labels=("example", np.asarray(trial.test_labels)),
    )
    # The record has these as parameters.
    return summary.drop_attrs().assign_attrs({name: found.attrs[name] for name in ("sampler", "warning")})
