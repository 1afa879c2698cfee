"""The hidden Markov network with and without skip connections: theory, limit and exact posterior."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.experiment import Experiment, Part, Recheck, axis, largest_difference, parameter
from attention_book.measures import mean_accuracy
from statmech_attention.layers import SkipHeads
from statmech_attention.model.accuracy import right
from statmech_attention.model.attention import attention_from_products
from statmech_attention.model.paths import AttentionedInputs, attentioned_inputs, path_indices
from statmech_attention.sampling import Chains, estimate, posterior
from statmech_attention.tasks import HiddenMarkov, HiddenMarkovTrial
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.saddle_point import solve_sweep

KINDS: dict[str, tuple[int | SkipHeads, ...]] = {"heads": (2, 2), "skip": (SkipHeads(2), SkipHeads(2))}


@dataclass(frozen=True, kw_only=True)
class Skips(Experiment):
    """Accuracies with and without skip connections, over draws of data and random heads."""

    seed: int = parameter("seed of all random numbers")
    draws: int = parameter("independent draws of data and heads", ge=1)
    examples: int = parameter("training chains $P$", ge=1)
    test_examples: int = parameter("test chains", ge=1)
    widths: Sequence[float | int] = parameter("$N$; the smallest is a whole number", each=float)
    temperatures: Sequence[float | int] = parameter("$T$", each=float)
    chains: int = parameter("chains of the sampler", ge=2)
    warmup: int = parameter("iterations in which it adapts", ge=0)
    samples: int = parameter("draws per chain that are kept", ge=4)
    thinning: int = parameter("iterations per draw", ge=1)

    name: ClassVar[str] = "skips"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "sampling"
    stem: ClassVar[str] = "skips-seed{seed}"

    def check(self) -> None:
        super().check()
        if not float(self.widths[0]).is_integer():
            raise ValueError(f"widths: wanted a whole number as the smallest, got {self.widths[0]}.")

    @property
    def total(self) -> int:
        return self.draws * len(KINDS) * len(self.temperatures)

    def make(self, state, progress):
        found = []
        for number in range(self.draws):
            trials = functools.cache(functools.partial(self.trials, number))
            parts = []
            for kind in KINDS:

                def compute(step, kind=kind, trials=trials, number=number):
                    theory = self._theory(trials()[kind])
                    exact = []
                    for place, temperature in enumerate(self.temperatures):
                        exact.append(self._exact(trials()[kind], theory, temperature, place, number))
                        step()
                    return theory.drop_vars("output").merge(xr.concat(exact, axis("temperature", self.temperatures)))

                part = yield Part(f"draw{number}-{kind}", compute, len(self.temperatures))
                parts.append(_named(part, kind))
            found.append(xr.merge(parts))
        return xr.concat(found, axis("draw", range(self.draws)))

    def trials(self, number: int) -> dict[str, HiddenMarkovTrial]:
        """One draw of data as the same random heads present it, by kind."""
        task = HiddenMarkov()
        keys = jax.random.split(jax.random.fold_in(jax.random.key(self.seed), number), 3)
        attention = attention_from_products(task.heads(keys[2]))
        samples = task.sample(keys[0], self.examples), task.sample(keys[1], self.test_examples)
        options: dict[str, Any] = {"readout": "last", "layers": KINDS["skip"]}
        beside = [attentioned_inputs(sample.inputs, attention, **options) for sample in samples]
        # The paths through two heads are the network without skips.
        kept = np.flatnonzero((path_indices(KINDS["skip"]) >= 0).all(axis=1))
        plain = [AttentionedInputs(seen.values[:, kept], KINDS["heads"]) for seen in beside]
        labels = [sample.labels for sample in samples]
        return {
            kind: HiddenMarkovTrial(seen[0], labels[0], seen[1], labels[1])
            for kind, seen in (("heads", plain), ("skip", beside))
        }

    def recheck(self) -> Recheck:
        """Solve the theory of the first draw with skips at the lowest temperature."""
        recorded, heat = results.load(self.path).isel(draw=0, temperature=[0]), self.temperatures[:1]
        found = _named(self._theory(self.trials(0)["skip"], heat).drop_vars(["output", "gradient_norm"]), "skip")
        return Recheck(f"the theory of the first draw at T = {heat[0]:g}", largest_difference(found, recorded), 1e-6)

    def _theory(self, trial: HiddenMarkovTrial, temperatures=None) -> xr.Dataset:
        """Saddle points and the limit, their accuracies on the test chains, and order parameters."""
        temperatures = self.temperatures if temperatures is None else temperatures
        problem, both = Problem(trial.train, trial.labels), ("width", "temperature")
        sweep = solve_sweep(problem, widths=[*self.widths, np.inf], temperatures=temperatures)
        places = np.ndindex(sweep.action.shape)
        outputs = np.array([sweep[place].predict(trial.test).mean for place in places])
        outputs = outputs.reshape(*sweep.action.shape, -1)
        hits = right(outputs, np.asarray(trial.test_labels)).mean(axis=-1)
        return xr.Dataset(
            {
                "accuracy": (both, hits[:-1]),
                "gp_accuracy": ("temperature", hits[-1]),
                "order_parameter": ((*both, "path", "other_path"), sweep.order_parameter[:-1]),
                "gradient_norm": (both, sweep.gradient_norm[:-1]),
                "output": (("temperature", "example"), outputs[0]),
            },
            {"width": self.widths, "temperature": temperatures},
        )

    def _exact(self, trial, theory: xr.Dataset, temperature: float, place: int, number: int) -> xr.Dataset:
        """The exact posterior at the narrowest width, and its distance from the theory's mean outputs."""
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed + 1), number), place)
        sizes = Chains(draws=self.samples, count=self.chains, warmup=self.warmup, thinning=self.thinning, warn=False)
        problem = Problem(trial.train, trial.labels, width=int(self.widths[0]), temperature=temperature)
        drawn = posterior(problem, key=key, test=trial.test, chains=replace(sizes, progress=False))
        output, overlap = estimate(drawn["output"]), estimate(drawn["order_parameter"])
        hits = mean_accuracy(output, np.asarray(trial.test_labels))
        gap, paths = theory["output"].sel(temperature=temperature).values - output.mean, ("path", "other_path")
        return xr.Dataset(
            {
                "exact_accuracy": hits.mean,
                "exact_accuracy_error": hits.error,
                "exact_order_parameter": (paths, overlap.mean),
                "exact_order_parameter_error": (paths, overlap.error),
                "distance": math.sqrt(np.mean(gap**2)),
                "distance_error": math.sqrt(np.mean(np.asarray(output.error) ** 2)),
                "output_size": math.sqrt(np.mean(np.asarray(output.mean) ** 2)),
                "r_hat": float(drawn["order_parameter_r_hat"].max()),
                "effective_size": float(drawn["order_parameter_effective_size"].min()),
                "diverged": int(drawn["diverging"].sum()),
            }
        )


def _named(found: xr.Dataset, kind: str) -> xr.Dataset:
    """Rename variables and paths by kind, since the two have different numbers of paths."""
    axes = {name: f"{name}_{kind}" for name in ("path", "other_path") if name in found.dims}
    return found.rename({**axes, **{name: f"{name}_{kind}" for name in found.data_vars}})
