r"""The theory alone on a pretrained encoder's attention, recorded: with more labels than heads are scored with, or with skips.

The network, the split of the sentences and their features are those of the deep network of `EncodedHeads`, so that results are
paired sentence by sentence. With skips the inputs are smaller by a factor, so that the outputs' prior variance is 1 in the limit of
infinite width, as it is without them: else evidence would tell scales apart. With $P$ labels and $\mathcal P$ paths a step of the
saddle point costs about $P^2 \mathcal P^2$.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import xarray as xr

from attention_book.experiments.again import Again, difference
from attention_book.experiments.encoded_grid import TOLERANCE, Problem, grid
from attention_book.experiments.encoded_tasks import Words, checked, encoded_task, missing, part_of, words
from attention_book.experiments.experiment import Experiment, Part, different
from statmech_attention import checks, results
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.action import gp_order_parameters
from statmech_attention.theory.kernels import kernel
from statmech_attention.theory.saddle_point import solve

_NETWORK = "deep"


@dataclass(frozen=True, kw_only=True)
class EncodedPoints(Experiment):
    r"""Accuracy and evidence over widths, infinity among them, and temperatures: what `encoded_grid.grid` gives.

    Attributes:
        seed: of the split.
        task: a name of `encoded_tasks.TASKS`.
        split: how many training sentences, validation sentences among them, and test sentences are drawn.
        layers: the encoder's, for the layers of the network, counted from 0.
        skips: a skip beside the heads of every layer.
        fitted: features are fitted to so many training sentences.
        examples: $P$.
        validation_examples: sentences to choose by.
        directions: $N_0$.
        widths: $N$, in any order.
        temperatures: $T$, in any order.
    """

    seed: int
    task: str
    split: Sequence[int]
    layers: Sequence[int]
    skips: bool
    fitted: int
    examples: int
    validation_examples: int
    directions: int
    widths: Sequence[float | int]
    temperatures: Sequence[float | int]
    read: Callable[..., Words] = field(default=words, metadata={"recorded": False}, repr=False)

    name: ClassVar[str] = "points"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "temperature"

    def __post_init__(self):
        for name in ("widths", "temperatures"):
            object.__setattr__(self, name, different(name, getattr(self, name)))
        for name in ("layers", "split"):
            object.__setattr__(self, name, list(getattr(self, name)))

    @property
    def path(self) -> Path:
        kind = f"{self.examples}-skips" if self.skips else f"{self.examples}"
        return Path(self.folder) / f"{self.name}{kind}-{self.task}-seed{self.seed}.nc"

    def check(self) -> None:
        checked(self.task, self.split)
        checks.whole("validation_examples", self.validation_examples, 1, self.split[0] - 1)
        most = self.split[0] - self.validation_examples
        for name in ("fitted", "examples"):
            checks.whole(name, getattr(self, name), 2, most)
        checks.whole("directions", self.directions, 1)

    @property
    def missing(self) -> str:
        return missing(self.task)

    @property
    def total(self) -> int:
        return len(self.temperatures)

    def make(self, state, progress):
        problem, found = functools.cache(self.problem), []
        for heat in reversed(self.temperatures):  # the hottest is the quickest
            found.append((yield Part(f"temperature{heat:g}", functools.partial(self._at, problem, heat))))
        return xr.concat(found[::-1], "temperature", data_vars="minimal")

    def problem(self) -> Problem:
        """What the network learns from and is tested on."""
        read = self.read(self.task, self.seed, *self.split)
        encoded = encoded_task(read, {_NETWORK: self.layers}, self.fitted, self.directions, skips=self.skips)
        inputs = encoded.networks[_NETWORK]
        if self.skips:
            fitted = part_of(inputs, slice(0, self.fitted))
            size = jnp.mean(jnp.diagonal(kernel(fitted, fitted, gp_order_parameters(inputs.heads)[0])))
            inputs = AttentionedInputs(inputs.values / jnp.sqrt(size), inputs.heads)
        return Problem.of(inputs, encoded.labels, self.examples, self.validation_examples, self.split[1])

    def again(self) -> Again:
        """The saddle point at the smallest width and the largest temperature."""
        width, heat, problem = self.widths[0], self.temperatures[-1], self.problem()
        solution = solve(problem.train, problem.labels, width=width, temperature=heat, tolerance=TOLERANCE / 100)
        there = results.load(self.path).sel(width=width, temperature=heat)
        apart = max(
            difference(solution.log_evidence(), there["log_evidence"]),
            difference(solution.head_scores(), there["score"].sel(definition="both")),
        )
        # As for `EncodedHeads`: recorded to a gradient of 1e-4.
        return Again(f"the theory at N = {width:g}, T = {heat:g}", apart, 1e-3)

    def _at(self, problem, heat: float, step) -> xr.Dataset:
        found = grid(problem(), [*self.widths[::-1], np.inf], [heat])
        step()
        return found
