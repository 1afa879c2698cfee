"""The evidence of the labels over widths and temperatures, recorded for many draws of hidden Markov chains and random heads."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attention_book.experiments.again import Again, largest_difference
from attention_book.experiments.experiment import Experiment, Part, axis, different
from attention_book.experiments.weights import sampling_trial
from statmech_attention import checks, results
from statmech_attention.sampling import evidence_by_temperature
from statmech_attention.tasks import HiddenMarkovTrial
from statmech_attention.theory.action import gp_order_parameters
from statmech_attention.theory.kernels import kernel
from statmech_attention.theory.predictor import accuracy
from statmech_attention.theory.saddle_point import solve


@dataclass(frozen=True, kw_only=True)
class Evidences(Experiment):
    r"""Evidence and test accuracy over draws of data, widths and temperatures.

    The record has over `draw`, `width` and `temperature` what `sampling.evidence_by_temperature` returns and the test `accuracy` of the
    saddle point; over `draw` and `temperature` the same of the GP limit, `gp_log_evidence` and `gp_accuracy`.

    Attributes:
        seed: of the first draw of data and heads; the others have the numbers that follow.
        draws: draws of data and heads.
        examples: $P$.
        test_examples: test chains.
        widths: $N$.
        temperatures: $T$.
        points: pairs of points on each of 16 sequences, a power of two.
    """

    seed: int
    draws: int
    examples: int
    test_examples: int
    widths: Sequence[int]
    temperatures: Sequence[float]
    points: int

    name: ClassVar[str] = "evidences"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "draw"

    def __post_init__(self):
        object.__setattr__(self, "widths", [int(width) for width in different("widths", self.widths, whole=True)])
        object.__setattr__(self, "temperatures", different("temperatures", self.temperatures))

    @property
    def path(self) -> Path:
        return Path(self.folder) / f"evidences-examples{self.examples}-seed{self.seed}.nc"

    def check(self) -> None:
        for name, least in {"draws": 1, "examples": 1, "test_examples": 1, "points": 4}.items():
            checks.whole(name, getattr(self, name), least)

    @property
    def total(self) -> int:
        return self.draws

    def make(self, state, progress):
        found = []
        for number in range(self.draws):

            def compute(step, number=number):
                began, trial = time.monotonic(), self.trial(number)
                rows = [self._at_width(trial, number, width) for width in self.widths]
                row = xr.concat(rows, axis("width", self.widths)).merge(self._limit(trial))
                step()
                return row.assign(seconds=time.monotonic() - began)

            found.append((yield Part(f"draw{number}", compute)))
        return xr.concat(found, axis("draw", range(self.draws)))

    def trial(self, number: int) -> HiddenMarkovTrial:
        """Data and heads of one draw."""
        return sampling_trial(self.seed + number, examples=self.examples, test_examples=self.test_examples)

    def again(self) -> Again:
        """The first draw at the largest width and the highest temperature, and its GP limit."""
        trial, last = self.trial(0), self.temperatures[-1:]
        found = self._at_width(trial, 0, self.widths[-1], last).merge(self._limit(trial).sel(temperature=last))
        recorded = results.load(self.path).isel(draw=0, width=-1).sel(temperature=last)
        return Again("a draw at one width and temperature", largest_difference(found, recorded, list(found)), 1e-6)

    def _at_width(self, trial: HiddenMarkovTrial, number: int, width: int, temperatures=None) -> xr.Dataset:
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(self.seed), number), width)
        heats = self.temperatures if temperatures is None else temperatures
        # A key for every temperature, whichever are asked for.
        keys = dict(zip(self.temperatures, jax.random.split(key, len(self.temperatures)), strict=True))
        rows = [self._at_temperature(trial, width, heat, keys[heat]) for heat in heats]
        return xr.concat(rows, "temperature")

    def _at_temperature(self, trial: HiddenMarkovTrial, width: int, heat: float, key) -> xr.Dataset:
        options: dict[str, Any] = {"width": width, "temperatures": [heat], "points": self.points, "warn": False}
        table = evidence_by_temperature(trial.train, trial.labels, key=key, **options)
        solved = solve(trial.train, trial.labels, width=width, temperature=heat)
        right = float(accuracy(solved.predict(trial.test).mean, trial.test_labels))
        return table.assign(accuracy=("temperature", [right]))

    def _limit(self, trial: HiddenMarkovTrial) -> xr.Dataset:
        """Evidence and accuracy of the GP limit."""
        overlap, *_ = gp_order_parameters(trial.train.heads)
        gram, across = np.asarray(kernel(trial.train, trial.train, overlap)), kernel(trial.test, trial.train, overlap)
        labels, logs, rights = np.asarray(trial.labels), [], []
        for heat in self.temperatures:
            chol = np.linalg.cholesky(gram + heat * np.eye(len(labels)))
            half = np.linalg.solve(chol, labels)
            logs.append(-0.5 * half @ half - np.sum(np.log(np.diag(chol))) - 0.5 * len(labels) * math.log(2 * math.pi))
            mean = np.asarray(across) @ np.linalg.solve(chol.T, half)
            rights.append(float(accuracy(jnp.asarray(mean), trial.test_labels)))
        columns = {"gp_log_evidence": ("temperature", logs), "gp_accuracy": ("temperature", rights)}
        return xr.Dataset(columns, {"temperature": self.temperatures})
