"""Theory, limit and rescaled limit on streams of hidden Markov chains: where does the gain of finite width end?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import jax
import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.experiment import Experiment, Part, Recheck, axis, largest_difference, parameter
from attention_book.temperatures import LIMIT, RESCALED, THEORY, ReducedTrial, compare
from statmech_attention import AttentionedInputs, Problem, attention_from_products, attentioned_inputs
from statmech_attention.tasks import HiddenMarkov

CURVES = {"theory": THEORY, "limit": LIMIT, "rescaled": RESCALED}


@dataclass(frozen=True, kw_only=True)
class LearningCurve(Experiment):
    """Test accuracies at the best temperatures on the first $P$ chains of one stream per draw, for all $P$.

    The record has over `draw`, `examples` and `width`, for each of `CURVES`, its accuracy, and
    `.._temperature`, the geometric mean of the temperatures chosen on the two halves of the test
    chains.
    """

    seed: int = parameter("seed of the draws")
    draws: int = parameter("draws of data and heads", ge=1)
    length: int = parameter("visible states of a chain", ge=2)
    token_size: int = parameter("entries of a token before the position", ge=2)
    counts: Sequence[int] = parameter("$P$", each=int)
    widths: Sequence[float | int] = parameter("$N$", each=float)
    temperatures: Sequence[float | int] = parameter("$T$, extended where an end is the best", each=float)
    test_examples: int = parameter("test chains, one half to choose the other's temperature by", ge=2)
    chunk: int = parameter("most chains in memory", ge=1)

    name: ClassVar[str] = "learning_curve"
    revision: ClassVar[int] = 1  # 1: as first recorded
    stem: ClassVar[str] = "learning-curve-seed{seed}"
    unit: ClassVar[str] = "P"

    @property
    def total(self) -> int:
        return self.draws * len(self.counts)

    def make(self, state, progress):
        found = []
        for number in range(self.draws):
            row = []
            for count in self.counts:

                def compute(step, number=number, count=count):
                    compared = self._compared(self.trial(number, count), self.widths)
                    step()
                    return compared

                row.append((yield Part(f"draw{number}-examples{count}", compute)))
            found.append(xr.concat(row, axis("examples", self.counts)))
        return xr.concat(found, axis("draw", range(self.draws)))

    def trial(self, number: int, count: int) -> ReducedTrial:
        """The first `count` chains of a draw, reduced, and its test chains."""
        problem: Any = sum(Problem(*chunk) for chunk in self.chunks(number, count))
        _, heads, key = self._keys(number)
        return ReducedTrial(problem.reduce(), *self._seen(heads, key, self.test_examples))

    def chunks(self, number: int, count: int) -> Iterator[tuple[AttentionedInputs, Any]]:
        """The chunks of the first `count` chains of a draw."""
        train, heads, _ = self._keys(number)
        for place, size in enumerate(self.sizes(count)):
            yield self._seen(heads, jax.random.fold_in(train, place), size)

    def _keys(self, number: int):
        return jax.random.split(jax.random.fold_in(jax.random.key(self.seed), number), 3)

    def _seen(self, heads, key, examples: int) -> tuple[AttentionedInputs, Any]:
        task = HiddenMarkov(length=self.length, token_size=self.token_size)
        sample = task.sample(key, examples)
        return attentioned_inputs(sample.inputs, attention_from_products(task.heads(heads))), sample.labels

    def sizes(self, count: int) -> list[int]:
        """Sizes of the chunks of the first `count` chains, which end at every $P$ on the way."""
        ends = [0, *(one for one in self.counts if one < count), count]
        steps = [(low, high) for low, high in pairwise(ends)]
        return [min(self.chunk, high - start) for low, high in steps for start in range(low, high, self.chunk)]

    def recheck(self) -> Recheck:
        """Compare on the fewest chains of the first draw at the smallest width."""
        found = self._compared(self.trial(0, self.counts[0]), self.widths[:1])
        there = results.load(self.path).isel(draw=0, examples=0).sel(width=self.widths[:1])
        what = f"P = {self.counts[0]}, N = {self.widths[0]:g} of the first draw"
        return Recheck(what, largest_difference(found, there), 1e-3)

    def _compared(self, trial: ReducedTrial, widths) -> xr.Dataset:
        rows = []
        for width in widths:
            one = compare([trial], width=width, temperatures=self.temperatures)
            row = {name: float(one.at_best(curve)[0]) for name, curve in CURVES.items()}
            rows.append(row | {f"{name}_temperature": one.temperature(curve) for name, curve in CURVES.items()})
        columns = {name: ("width", np.array([row[name] for row in rows])) for name in rows[0]}
        return xr.Dataset(columns, {"width": list(widths)})
