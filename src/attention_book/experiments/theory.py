"""The theory of narrow heads on a trained network's queries and keys."""

import functools
import math
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import jax.numpy as jnp
import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.experiment import Part, Recheck, axis, difference, largest_difference, parameter
from attention_book.experiments.networks import Draw, OnNetwork, Sequences, draw_of
from attention_book.pruning import predictor_vectors
from attention_book.tasks import OneShotSuite
from attention_book.training import TrainedNetwork
from statmech_attention import AttentionedInputs, Problem, Solution, accuracy, log_evidence, solve
from statmech_attention.layers import chain
from statmech_attention.theory import evidence_slopes

PLAIN_HEADS = math.inf  # the dimension of heads with full matrices, their limit


@dataclass(frozen=True, kw_only=True)
class _Points(OnNetwork):
    """Saddle points over draws, widths and temperatures, and the Gaussian-process limit."""

    draws: int = parameter("draws of training and test sequences; they come from the seed, too", ge=1)
    widths: Sequence[float | int] = parameter("$N$", each=float)
    temperatures: Sequence[float | int] = parameter("$T$", each=float)
    examples: int = parameter("$P$, training sequences of a draw", ge=1)
    test_examples: int = parameter("sequences of every test set, and of the validation classes, in a draw", ge=1)

    unit: ClassVar[str] = "point"
    needs: ClassVar[tuple[str, ...]] = ("network",)

    @property
    def total(self) -> int:
        return self.draws * (len(self.temperatures) + len(self.widths) * self._at_width)

    @property
    def _at_width(self) -> int:
        return len(self.temperatures)

    @abstractmethod
    def _limit(self, draw: Draw, step, temperatures: Sequence[float] | None = None) -> xr.Dataset:
        """The Gaussian-process limit."""

    @abstractmethod
    def _width(self, draw: Draw, width: float | int, wider: xr.Dataset | None, step) -> xr.Dataset:
        """All points at one width; they may start from those at the next larger one."""

    def make(self, state, progress):
        suite, network, draws = self.suite(), self.network(), []
        for number in range(self.draws):
            # Drawn only where a part is missing.
            draw = functools.cache(functools.partial(self.draw, number, suite, network))

            def limit(step, draw=draw):
                found = self._limit(draw(), step)
                return found.rename({name: f"gp_{name}" for name in found.data_vars})

            limit_found, found, wider = (yield Part(f"draw{number}-gp", limit, len(self.temperatures))), [], None
            for width in reversed(self.widths):

                def solved(step, draw=draw, width=width, wider=wider):
                    return self._width(draw(), width, wider, step)

                wider = yield Part(f"draw{number}-width{width:g}", solved, self._at_width)
                found.insert(0, wider)
            draws.append(xr.concat(found, axis("width", self.widths)).merge(limit_found))
        return xr.concat(draws, axis("draw", range(self.draws)))

    def draw(self, number: int, suite: OneShotSuite | None = None, network: TrainedNetwork | None = None) -> Draw:
        """The sequences of a draw, as the network's attention presents them."""
        counts = {"examples": self.examples, "tests": self.test_examples}
        return draw_of(suite or self.suite(), network or self.network(), seed=self.seed, number=number, **counts)


@dataclass(frozen=True, kw_only=True)
class NarrowHeads(_Points):
    """The saddle point (11) for every width $N$ and head dimension $d$, on the attention of full heads."""

    values: Sequence[float | int] = parameter("$d$", each=float)

    name: ClassVar[str] = "narrow"
    revision: ClassVar[int] = 1  # 1: as first recorded

    def check(self) -> None:
        super().check()
        for one in self.values:
            self.narrow_chain(one)

    @property
    def _at_width(self) -> int:
        return (len(self.values) + 1) * len(self.temperatures)

    def recheck(self) -> Recheck:
        """Solve the narrowest network and heads of the first draw at the largest temperature."""
        recorded, draw = results.load(self.path).isel(draw=0, temperature=[-1]), self.draw(0)
        width, values, heat = self.widths[0], self.values[0], self.temperatures[-1:]
        point, _ = self._points(draw, width, values, None, _nothing, heat)
        names = ["accuracy", "validation_accuracy", "log_evidence", "order_parameter"]
        apart = largest_difference(point, recorded.isel(width=0, dimension=0), names)
        limit = self._limit(draw, _nothing, heat)
        apart = max(apart, _limits_apart(limit, recorded, [*names, "evidence_slope"]))
        where = f"N = {width:g}, d = {values:g}, T = {heat[0]:g}"
        # As for `Theory`.
        return Recheck(f"the point {where} of the first draw, and the limit", apart, 1e-6)

    def _limit(self, draw, step, temperatures=None):
        temperatures = self.temperatures if temperatures is None else temperatures
        found, _ = self._points(draw, math.inf, None, None, step, temperatures)
        layers = self.narrow_chain(1)  # slopes are the same in any dimension
        problem = Problem(draw.train.inputs.values, draw.train.labels, layers=layers)
        slopes = np.stack([evidence_slopes(problem.replace(temperature=heat)) for heat in temperatures])
        stages = [stage.name for stage in chain(layers).stages]
        return found.assign(evidence_slope=(("temperature", "stage"), slopes)).assign_coords(stage=stages)

    def _width(self, draw, width, wider, step):
        """Each dimension starts from the next larger one; what is wider does not matter."""
        found: list[xr.Dataset] = []
        larger = None
        for values in reversed(self.values):
            dataset, larger = self._points(draw, width, values, larger, step)
            found.insert(0, dataset)
        found.append(self._points(draw, width, None, None, step)[0])
        return xr.concat(found, axis("dimension", [*self.values, PLAIN_HEADS]))

    def _points(self, draw: Draw, width: float | int, values: float | int | None, larger, step, temperatures=None):
        """One width and dimension at all temperatures, and the solutions."""
        temperatures = self.temperatures if temperatures is None else temperatures
        seen = AttentionedInputs(draw.train.inputs.values, self.narrow_chain(values))
        narrow = draw._replace(train=Sequences(seen, draw.train.labels))
        dataset, solutions = solved_points(narrow, width, temperatures, larger or [None] * len(temperatures), step)
        dataset["log_evidence"] = ("temperature", [float(log_evidence(one)) for one in solutions])
        overlaps = np.stack([np.asarray(one.order_parameter, np.float32) for one in solutions])
        dataset["order_parameter"] = (("temperature", "path", "other_path"), overlaps)
        return dataset, solutions


def solved_points(
    draw: Draw, width: float | int, temperatures: Sequence[float], starts: Sequence, step: Callable[[], object]
) -> tuple[xr.Dataset, list[Solution]]:
    """Saddle points at one width, their accuracies and convergence; and the solutions."""
    solutions, rows, seconds = [], [], []
    for temperature, start in zip(temperatures, starts, strict=True):
        began = time.monotonic()
        problem = Problem(draw.train.inputs, draw.train.labels, width=width, temperature=temperature)
        found = solve(problem, start=start, throw=False)
        rows.append(_accuracies(draw, found.order_parameter, temperature))
        solutions.append(found)
        seconds.append(time.monotonic() - began)
        step()
    validation, *tests = np.array(rows).T
    dataset = xr.Dataset(
        {
            "accuracy": (("test_set", "temperature"), np.array(tests)),
            "validation_accuracy": ("temperature", validation),
            "best_temperature": temperatures[int(np.argmax(tests[0]))],
            "seconds": ("temperature", seconds),
        },
        coords={"test_set": list(draw.tests), "temperature": list(temperatures)},
    )
    for name in ("action", "energy", "entropy", "gradient_norm", "steps", "outcome"):
        dataset[name] = ("temperature", [np.asarray(getattr(found, name)).item() for found in solutions])
    return dataset, solutions


def _accuracies(draw: Draw, order_parameter, temperature: float) -> list[float]:
    """Accuracy of the mean predictor (9) on the validation classes, then on every test set."""
    problem = Problem(draw.train.inputs, draw.train.labels, temperature=temperature)
    vectors = predictor_vectors(problem, order_parameter)
    every = (draw.validation, *draw.tests.values())
    return [float(accuracy(jnp.einsum("epi,pi->e", seen.inputs.values, vectors), seen.labels)) for seen in every]


def _limits_apart(limit: xr.Dataset, recorded: xr.Dataset, names) -> float:
    """The largest difference of a limit from the recorded one."""
    return max(difference(limit[name], recorded[f"gp_{name}"]) for name in names)


def _nothing() -> None:
    """A step of no progress bar."""
