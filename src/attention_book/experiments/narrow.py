"""The theory on a trained network's queries and keys if its heads had a value dimension, over dimensions and widths, recorded."""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr
from statmech_attention.training.network import TrainedNetwork

from attention_book.experiments.again import Again, largest_difference
from attention_book.experiments.experiment import Part, axis, different
from attention_book.experiments.networks import OnNetwork
from attention_book.experiments.theory_points import Draw, Sequences, draw_of, solved_points
from attention_book.tasks.one_shot_sets import OneShotSuite
from statmech_attention import checks, results
from statmech_attention.layers.chains import chain
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.evidence import evidence_slopes, log_evidence

PLAIN_HEADS = math.inf  # the dimension of heads with full matrices, their limit


@dataclass(frozen=True, kw_only=True)
class NarrowHeads(OnNetwork):
    r"""The saddle point (11) for every width $N$ and head dimension $d$, on the attention that was trained without a bottleneck.

    The record has over draws, widths, dimensions, the largest of them infinite for heads with full matrices, and temperatures the
    accuracies of the predictor (9), the log evidence in nats, and the order parameter $U^{(1)}$. Names that begin with `gp` are of the
    Gaussian-process limit, the `evidence_slopes` over stages among them. Sequences are those of `Theory` of the same network and the same numbers of sequences.

    Attributes:
        draws: how many draws of training and test sequences; they come from the seed, too.
        widths: $N$, in any order; sorted.
        values: $d$, in any order; sorted.
        temperatures: $T$, in any order; sorted.
        examples: $P$, training sequences of a draw.
        test_examples: sequences of every test set, and of the validation classes, in a draw.
    """

    draws: int
    widths: Sequence[float | int]
    values: Sequence[float | int]
    temperatures: Sequence[float | int]
    examples: int
    test_examples: int

    name: ClassVar[str] = "narrow"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "point"
    needs: ClassVar[tuple[str, ...]] = ("network",)

    def __post_init__(self):
        for name in ("widths", "values", "temperatures"):
            object.__setattr__(self, name, different(name, getattr(self, name)))

    def check(self) -> None:
        super().check()
        for name in ("draws", "examples", "test_examples"):
            checks.whole(name, getattr(self, name))
        for one in self.values:
            self.narrow_chain(one)

    @property
    def total(self) -> int:
        return self.draws * (len(self.temperatures) + len(self.widths) * self._at_width)

    @property
    def _at_width(self) -> int:
        return (len(self.values) + 1) * len(self.temperatures)

    def make(self, state, progress):
        suite, network, draws = self.suite(), self.network(), []
        for number in range(self.draws):
            # Drawn only where a part is missing.
            draw = functools.cache(functools.partial(self.draw, number, suite, network))

            def limit(step, draw=draw):
                found = self._points(draw(), math.inf, None, None, step)[0]
                found["evidence_slope"] = (("temperature", "stage"), self._slopes(draw()))
                stages = [stage.name for stage in chain(self.narrow_chain(1)).stages]
                return found.rename({name: f"gp_{name}" for name in found.data_vars}).assign_coords(stage=stages)

            row = [(yield Part(f"draw{number}-gp", limit, len(self.temperatures)))]
            for width in self.widths:

                def solved(step, draw=draw, width=width):
                    return self._over_dimensions(draw(), width, step)

                row.append((yield Part(f"draw{number}-width{width:g}", solved, self._at_width)))
            limit_found, *found = row
            draws.append(xr.concat(found, axis("width", self.widths)).merge(limit_found))
        return xr.concat(draws, axis("draw", range(self.draws)))

    def draw(self, number: int, suite: OneShotSuite | None = None, network: TrainedNetwork | None = None) -> Draw:
        """The sequences of a draw, as the network's attention presents them."""
        counts = {"examples": self.examples, "tests": self.test_examples}
        return draw_of(suite or self.suite(), network or self.network(), seed=self.seed, number=number, **counts)

    def again(self) -> Again:
        """One point of the first draw, the narrowest in both, at the largest temperature, and the limit there."""
        heat, draw = self.temperatures[-1:], self.draw(0)
        recorded = results.load(self.path).isel(draw=0, temperature=[-1])
        names = ("accuracy", "validation_accuracy", "log_evidence", "order_parameter")
        point, _ = self._points(draw, self.widths[0], self.values[0], None, lambda: None, heat)
        apart = largest_difference(point, recorded.isel(width=0, dimension=0), names)
        limit, _ = self._points(draw, math.inf, None, None, lambda: None, heat)
        limit = limit.rename({name: f"gp_{name}" for name in names})
        limit["gp_evidence_slope"] = (("temperature", "stage"), self._slopes(draw, heat))
        apart = max(
            apart, largest_difference(limit, recorded, [*(f"gp_{name}" for name in names), "gp_evidence_slope"])
        )
        # The minimum is where the gradient is 1e-8, wherever it started.
        where = f"N = {self.widths[0]:g}, d = {self.values[0]:g}, T = {heat[0]:g}"
        return Again(f"the point {where} of the first draw, and the limit", apart, 1e-6)

    def _slopes(self, draw: Draw, temperatures=None) -> np.ndarray:
        """What every stage brings to first order at all temperatures."""
        inputs, temperatures = draw.train.inputs.values, self.temperatures if temperatures is None else temperatures
        heads = self.narrow_chain(1)  # whatever the dimension
        options = [{"heads": heads, "temperature": temperature} for temperature in temperatures]
        return np.stack([evidence_slopes(inputs, draw.train.labels, **one) for one in options])

    def _over_dimensions(self, draw: Draw, width: float | int, step) -> xr.Dataset:
        """One width; each dimension starts from the next larger one."""
        found: list[xr.Dataset] = []
        wider = None
        for values in reversed(self.values):
            dataset, wider = self._points(draw, width, values, wider, step)
            found.insert(0, dataset)
        found.append(self._points(draw, width, None, None, step)[0])
        return xr.concat(found, axis("dimension", [*self.values, PLAIN_HEADS]))

    def _points(self, draw: Draw, width: float | int, values: float | int | None, wider, step, temperatures=None):
        """One width and dimension at all temperatures, and the solutions."""
        temperatures = self.temperatures if temperatures is None else temperatures
        seen = AttentionedInputs(draw.train.inputs.values, self.narrow_chain(values))
        narrow = draw._replace(train=Sequences(seen, draw.train.labels))
        dataset, solutions = solved_points(narrow, width, temperatures, wider or [None] * len(temperatures), step)
        dataset["log_evidence"] = ("temperature", [float(log_evidence(one)) for one in solutions])
        overlaps = np.stack([np.asarray(one.order_parameter, np.float32) for one in solutions])
        dataset["order_parameter"] = (("temperature", "path", "path_other"), overlaps)
        return dataset, solutions
