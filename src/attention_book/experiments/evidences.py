"""Evidence of the labels over widths and temperatures, for many draws of hidden Markov chains."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.experiment import Experiment, Part, Recheck, axis, largest_difference, parameter
from attention_book.experiments.weights import sampling_trial
from statmech_attention import Problem, accuracy, solve
from statmech_attention.sampling import importance
from statmech_attention.tasks import HiddenMarkovTrial


@dataclass(frozen=True, kw_only=True)
class Evidences(Experiment):
    """Evidence and test accuracy over draws of data, widths and temperatures, and of the GP limit."""

    seed: int = parameter("seed of the first draw of data and heads; the others have the numbers that follow")
    draws: int = parameter("draws of data and heads", ge=1)
    examples: int = parameter("$P$", ge=1)
    test_examples: int = parameter("test chains", ge=1)
    widths: Sequence[int] = parameter("$N$", each=int)
    temperatures: Sequence[float] = parameter("$T$", each=float)
    points: int = parameter("pairs of points on each of 16 sequences, a power of two", ge=4)

    name: ClassVar[str] = "evidences"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "evidences-examples{examples}-seed{seed}"
    unit: ClassVar[str] = "draw"

    @property
    def total(self) -> int:
        return self.draws

    def make(self, state, progress):
        found = []
        for number in range(self.draws):

            def compute(step, number=number):
                began, trial = time.monotonic(), self.trial(number)
                rows = [self._at_width(trial, number, width) for width in self.widths]
                row = xr.concat(rows, axis("width", self.widths)).merge(self._limit(trial, self.temperatures))
                step()
                return row.assign(seconds=time.monotonic() - began)

            found.append((yield Part(f"draw{number}", compute)))
        return xr.concat(found, axis("draw", range(self.draws)))

    def trial(self, number: int) -> HiddenMarkovTrial:
        """Data and heads of one draw."""
        return sampling_trial(self.seed + number, examples=self.examples, test_examples=self.test_examples)

    def recheck(self) -> Recheck:
        """Compute the first draw at the largest width and highest temperature, and its GP limit."""
        trial, last = self.trial(0), self.temperatures[-1:]
        found = self._at_width(trial, 0, self.widths[-1], last).merge(self._limit(trial, last))
        recorded = results.load(self.path).isel(draw=0, width=-1).sel(temperature=last)
        return Recheck("a draw at one width and temperature", largest_difference(found, recorded), 1e-6)

    def _at_width(self, trial: HiddenMarkovTrial, number: int, width: int, temperatures=None) -> xr.Dataset:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), number), width)
        heats = self.temperatures if temperatures is None else temperatures
        # A key for every temperature, whichever are asked for.
        keys = dict(zip(self.temperatures, jax.random.split(key, len(self.temperatures)), strict=True))
        rows = [self._at_temperature(trial, width, heat, keys[heat]) for heat in heats]
        return xr.concat(rows, "temperature")

    def _at_temperature(self, trial: HiddenMarkovTrial, width: int, heat: float, key) -> xr.Dataset:
        problem = Problem(trial.train, trial.labels, width=width, temperature=heat)
        (key,) = jax.random.split(key, 1)
        found = importance(problem, key=key, points=self.points, warn=False)
        _, right = _solved(trial, width, heat)
        columns = dict(zip(("log_evidence", "error"), map(float, found.log_evidence), strict=True))
        columns |= {"effective_size": found.effective_size, "laplace": found.laplace, "theory": found.theory}
        variables = {name: ("temperature", [value]) for name, value in (columns | {"accuracy": right}).items()}
        return xr.Dataset(variables, {"temperature": [heat]})

    def _limit(self, trial: HiddenMarkovTrial, temperatures: Sequence[float]) -> xr.Dataset:
        evidence, accuracy = np.array([_solved(trial, np.inf, heat) for heat in temperatures]).T
        columns = {"gp_log_evidence": ("temperature", evidence), "gp_accuracy": ("temperature", accuracy)}
        return xr.Dataset(columns, {"temperature": temperatures})


def _solved(trial: HiddenMarkovTrial, width: float | int, temperature: float) -> tuple[float, float]:
    """Log evidence and test accuracy at the saddle point."""
    solution = solve(Problem(trial.train, trial.labels, width=width, temperature=temperature))
    right = accuracy(solution.predict(trial.test).mean, trial.test_labels)
    return float(solution.log_evidence()), float(right)
