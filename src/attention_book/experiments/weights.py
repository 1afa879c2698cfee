"""NUTS on all weights for the hidden Markov chains, recorded: the samples of Figures 2(c) and 2(e)."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import jax
import numpy as np
import xarray as xr

from attention_book.experiments.again import Again
from attention_book.experiments.experiment import Experiment, Part
from attention_book.experiments.samples import OPENING, again_of, opening_of
from statmech_attention import results
from statmech_attention.sampling.diagnostics import estimate
from statmech_attention.sampling.weights import weights_posterior
from statmech_attention.tasks import HiddenMarkov, HiddenMarkovTrial

# Heads that are kept in each layer.
NETWORKS = {"all": ((0, 1), (0, 1)), "good and denoising": ((0, 1), (0,))}


@dataclass(frozen=True, kw_only=True)
class HiddenMarkovWeights(Experiment):
    """The posterior (8) of all weights by NUTS.

    The record has the order parameters of every draw, what NUTS reports of it, and of the outputs on the test chains their mean and
    variance in every chain, with R-hat and effective size; and the `opening`, as that of `Samples`.

    Attributes:
        width: $N$.
        seed: of data, heads and draws.
        network: as for `sampling_trial`.
        noise: as for `sampling_trial`.
        temperature: $T$.
        examples: $P$.
        test_examples: test chains.
        chains: chains side by side, started from the prior.
        warmup: iterations in which step size and masses adapt.
        draws: draws a chain that are kept.
        thinning: iterations a draw.
    """

    width: int
    seed: int
    network: str
    noise: float
    temperature: float
    examples: int
    test_examples: int
    chains: int
    warmup: int
    draws: int
    thinning: int

    name: ClassVar[str] = "hidden Markov weights"
    revision: ClassVar[int] = 1  # 1: as first recorded

    @property
    def path(self) -> Path:
        named = f"{self.network.replace(' ', '-')}-noise{self.noise:g}-width{self.width}-seed{self.seed}"
        return Path(self.folder) / f"weights-{named}.nc"

    def make(self, state, progress):
        trial = self.trial()

        def compute(step):
            counts = {name: getattr(self, name) for name in ("chains", "warmup", "draws", "thinning")}
            drawn = self._drawn(trial, checkpoint=state("weights"), progress=progress, **counts)
            return _summary(drawn, trial).merge(self.opening(trial))

        return (yield Part("weights", compute))

    def trial(self) -> HiddenMarkovTrial:
        """Data and heads."""
        counts = {"examples": self.examples, "test_examples": self.test_examples}
        return sampling_trial(self.seed, network=self.network, noise=self.noise, **counts)

    def opening(self, trial: HiddenMarkovTrial) -> xr.Dataset:
        """What NUTS reports of a few draws after hardly any warm-up."""
        return opening_of(self._drawn(trial, chains=self.chains, **OPENING))

    def again(self) -> Again:
        """The opening."""
        return again_of(self.opening(self.trial()), results.load(self.path))

    def _drawn(self, trial: HiddenMarkovTrial, **options) -> xr.Dataset:
        options |= {"width": self.width, "temperature": self.temperature, "attentioned_test": trial.test, "warn": False}
        key = jax.random.fold_in(jax.random.key(self.seed), self.width)
        return weights_posterior(trial.train, trial.labels, key=key, **options)


def sampling_trial(
    seed: int, *, network: str = "all", noise: float = 1.0, examples: int = 100, test_examples: int = 1000
) -> HiddenMarkovTrial:
    r"""Data and heads of the hidden Markov chains, as one of the paper's networks sees them.

    Args:
        seed: of data and heads.
        network: "all" paths, or "good and denoising" only.
        noise: $\sigma_\perp$.
        examples: training chains.
        test_examples: test chains.

    Returns:
        `HiddenMarkovTrial`.

    Raises:
        ValueError: an unknown network, numbers out of range.
    """
    if network not in NETWORKS:
        raise ValueError(f"network: wanted one of {', '.join(NETWORKS)}, got {network!r}.")
    trial = HiddenMarkov(perpendicular_noise=noise).trial(jax.random.key(seed), examples, test_examples)
    kept = NETWORKS[network]
    return trial._replace(train=trial.train.keep_heads(kept), test=trial.test.keep_heads(kept))


def recorded_sampling(folder: str | os.PathLike) -> list[xr.Dataset]:
    """All recorded draws in a folder, in the order of their files' names; an empty list where there are none.

    Args:
        folder: of the results.

    Returns:
        Datasets, with the parameters of the run as attributes besides their own.

    Raises:
        ValueError: as `results.load`.
    """
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
