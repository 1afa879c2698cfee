"""Samples of the posterior on a trained network's queries and keys: Figures 3(b) and 3(c)."""

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.experiment import Part, Recheck, axis, largest_difference, parameter
from attention_book.experiments.networks import Draw, OnTheory
from attention_book.measures import mean_accuracy
from statmech_attention import AttentionedInputs, Problem
from statmech_attention.model import Estimate
from statmech_attention.sampling import (
    Chains,
    effective_size,
    estimate,
    posterior,
    predictors,
    r_hat,
    weights_posterior,
)

SAMPLERS = ("posterior", "weights")
# Chains forget nothing: draws of the run itself rest on all of its warm-up. An opening does not, and differs for
# another sampler.
OPENING = Chains(draws=4, warmup=2, progress=False, warn=False)
_REPORTED = ("steps", "potential")
_KEPT = ("steps", "acceptance", "diverging", "potential")


@dataclass(frozen=True, kw_only=True)
class Samples(OnTheory):
    """The posterior at the theory's best temperature of each width, on the theory's sequences."""

    widths: Sequence[float | int] = parameter("$N$, among those of the theory", each=int)
    sampler: str = parameter("of the order parameters, exactly, or of all weights, by NUTS", among=SAMPLERS)
    number: int = parameter("number of the theory's draw of sequences", ge=0)
    chains: int = parameter("chains side by side", ge=2)
    warmup: int = parameter("iterations in which the sampler adapts", ge=0)
    draws: int = parameter("draws per chain that are kept", ge=4)
    thinning: int = parameter("iterations per draw", ge=1)

    name: ClassVar[str] = "samples"
    revision: ClassVar[int] = 1  # 1: as first recorded

    @property
    def path(self) -> Path:
        return self.file(self.sampler)

    def check_sources(self) -> None:
        super().check_sources()
        if self.number >= self.made["draws"]:
            raise ValueError(f"number: wanted a draw of the theory's {self.made['draws']}, from 0, got {self.number}.")

    @property
    def _chains(self) -> Chains:
        return Chains(draws=self.draws, count=self.chains, warmup=self.warmup, thinning=self.thinning, warn=False)

    def make(self, state, progress):
        drawn, rows = functools.cache(lambda: self.draw(self.number)), []
        for width in self.widths:
            name = f"width{width:g}"

            def compute(step, width=width):
                sequences, began = drawn(), time.monotonic()
                chains = replace(self._chains, progress=progress)
                row = _summary(*self._drawn(sequences, width, chains), sequences)
                opening = self.opening(sequences, width)
                return row.assign(temperature=self._temperature(width), seconds=time.monotonic() - began).merge(opening)

            rows.append((yield Part(name, compute)))
        return xr.concat(rows, axis("width", self.widths))

    def opening(self, sequences: Draw, width: float | int) -> xr.Dataset:
        """Report of a few draws after hardly any warm-up."""
        found, _ = self._drawn(sequences, width, replace(OPENING, count=self.chains))
        return opening_of(found)

    def recheck(self) -> Recheck:
        """Draw the opening at the narrowest width."""
        found = self.opening(self.draw(self.number), self.widths[0])
        return recheck_of(found, results.load(self.path).isel(width=0))

    def _temperature(self, width: float | int) -> float:
        return float(self.temperatures.sel(draw=self.number, width=width))

    def _drawn(self, sequences: Draw, width: float | int, chains: Chains) -> tuple[xr.Dataset, np.ndarray]:
        """Draws at one width, and their outputs on all test sequences."""
        train = sequences.train
        tests = jnp.concatenate([seen.inputs.values for seen in sequences.tests.values()])
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), self.number), width)
        problem = Problem(train.inputs, train.labels, width=width, temperature=self._temperature(width))
        if self.sampler == "weights":
            seen = AttentionedInputs(tests, train.inputs.layers)
            found = weights_posterior(problem, key=key, test=seen, chains=chains)
            return found, found["output"].values
        found = posterior(problem, key=key, chains=chains)
        vectors = np.asarray(predictors(found, problem))
        leading = vectors.shape[:2]
        # One product for all draws and test sequences.
        outputs = vectors.reshape(np.prod(leading), -1) @ np.asarray(tests).reshape(len(tests), -1).T
        return found, outputs.reshape(*leading, -1)


def opening_of(found: xr.Dataset) -> xr.Dataset:
    """The recorded part of an opening."""
    axes = ("chain", "opening_draw")
    return xr.Dataset({f"opening_{name}": (axes, found[name].values) for name in _REPORTED})


def recheck_of(found: xr.Dataset, recorded: xr.Dataset) -> Recheck:
    """An opening beside the recorded one."""
    draws, chains = found.sizes["opening_draw"], found.sizes["chain"]
    # Trajectories let rounding grow, which differs between processors.
    return Recheck(f"{draws} draws of {chains} chains", largest_difference(found, recorded), 1e-6)


def _summary(found: xr.Dataset, outputs: np.ndarray, drawn: Draw) -> xr.Dataset:
    """The recorded part of the draws: means, errors and diagnostics."""
    labels = np.stack([np.asarray(seen.labels) for seen in drawn.tests.values()])
    means = Estimate(*(values.reshape(labels.shape) for values in estimate(outputs)))
    accuracies = [mean_accuracy(Estimate(*one), right) for *one, right in zip(*means, labels, strict=True)]
    overlaps, paths, tests = found["order_parameter"].values, ("path", "other_path"), ("test_set", "example")
    return xr.Dataset(
        {
            "accuracy": ("test_set", [one.mean for one in accuracies]),
            "accuracy_error": ("test_set", [one.error for one in accuracies]),
            "order_parameter": (paths, estimate(overlaps).mean),
            "order_parameter_error": (paths, estimate(overlaps).error),
            "order_parameter_spread": (paths, overlaps.std(axis=(0, 1), ddof=1)),
            "order_parameter_r_hat": (paths, r_hat(overlaps)),
            "order_parameter_effective_size": (paths, effective_size(overlaps)),
            "output": (tests, means.mean),
            "output_error": (tests, means.error),
            "output_r_hat": (tests, r_hat(outputs).reshape(labels.shape)),
            "output_effective_size": (tests, effective_size(outputs).reshape(labels.shape)),
            "test_labels": (tests, labels),
            **{name: (("chain", "draw"), found[name].values) for name in _KEPT},
        },
        coords={"test_set": list(drawn.tests)},
    )
