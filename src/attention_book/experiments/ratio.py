"""The theory over numbers of labels P and widths N: is its gain over the limit a function of P/N?"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.encoded_heads import EncodedPoints
from attention_book.experiments.encoded_inputs import MADE, TASKS
from attention_book.experiments.experiment import Experiment, Part, Recheck, axis, largest_difference, parameter
from attention_book.experiments.networks import Draw, Sequences, draw_of
from attention_book.pruning import predictor_vectors
from attention_book.tasks import OneShotSuite, one_shot_suite
from attention_book.training import load_network
from statmech_attention import AttentionedInputs, Problem, accuracy, solve_sweep
from statmech_attention.tasks import HiddenMarkov

_FIRST = 1000  # number of the first draw: those of `Theory` are below
_TOLERANCE = 1e-5
_CHOOSE = 300  # sentences to choose temperatures by


@dataclass(frozen=True, kw_only=True)
class Ratio(Experiment):
    r"""Saddle points over $P$ and $N$ on the first $P$ sequences of every draw, and the limit.

    The record has over `draw`, `examples`, `width` and `temperature` the `accuracy` and
    `validation_accuracy`, the mean diagonal u of $U$ (`scale`), `departure` $|U/u - 1|$ in the
    Frobenius norm, `rescaled`, the test accuracy of $U = u$, and the `outcome` of the solve; of the
    limit `gp_accuracy` and `gp_validation_accuracy`.
    """

    network: str = parameter('recorded network of one-shot sequences, as "2x4-seed0"; "" for hidden Markov chains')
    sentences: str = parameter("task of encoded sentences instead of either; a draw is a split", "", among=("", *TASKS))
    data: str = parameter("name for `one_shot_suite`, of a network")
    seed: int = parameter("seed of the sequences")
    draws: int = parameter("draws of sequences, on chains also of heads", ge=1)
    counts: Sequence[int] = parameter("$P$", each=int)
    widths: Sequence[float | int] = parameter("$N$", each=float)
    temperatures: Sequence[float | int] = parameter("$T$", each=float)
    test_examples: int = parameter("sequences to test on; as many to choose temperatures by, of sentences 300", ge=1)
    suites: Callable[[str], OneShotSuite] = field(default=one_shot_suite, repr=False)

    name: ClassVar[str] = "ratio"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "sweep"

    @property
    def path(self) -> Path:
        return Path(self.folder) / f"ratio-{self.sentences or self.network or 'hidden-markov'}.nc"

    @property
    def parameters(self):
        # Records of the other tasks were made before there were sentences.
        return {name: value for name, value in super().parameters.items() if (name, value) != ("sentences", "")}

    @property
    def missing(self) -> str:
        return self._points(0).missing if self.sentences else super().missing

    def check(self) -> None:
        super().check()
        if self.sentences and self.network:
            raise ValueError(f"network: wanted none beside sentences, got {self.network!r}.")

    @property
    def sources(self) -> dict[str, Path]:
        return {"network": Path(self.folder) / f"network-{self.network}.nc"} if self.network else {}

    @property
    def total(self) -> int:
        return self.draws * len(self.counts)

    def make(self, state, progress):
        found = []
        for number in range(self.draws):
            draw, row = functools.cache(functools.partial(self.draw, number)), []
            for count in self.counts:

                def compute(step, draw=draw, count=count):
                    swept = self._swept(draw(), count, self.widths, self.temperatures)
                    step()
                    return swept

                row.append((yield Part(f"draw{number}-examples{count}", compute)))
            found.append(xr.concat(row, axis("examples", self.counts)))
        return xr.concat(found, axis("draw", range(self.draws)))

    def draw(self, number: int) -> Draw:
        """Sequences as attention presents them, as many to train on as the largest $P$."""
        most, tests = self.counts[-1], self.test_examples
        if self.sentences:
            found = self._points(number).problem()
            train = Sequences(found.train, jnp.asarray(found.labels))
            validation = Sequences(found.validation, jnp.asarray(found.validation_labels))
            return Draw(train, validation, {self.sentences: Sequences(found.test, jnp.asarray(found.test_labels))})
        if self.network:
            counts = {"seed": self.seed, "number": _FIRST + number, "examples": most, "tests": tests, "sets": 1}
            return draw_of(self.suites(self.data), load_network(self.sources["network"]), **counts)
        key = jax.random.fold_in(jax.random.key(self.seed), number)
        trial = HiddenMarkov().trial(key, most, 2 * tests)
        train = Sequences(trial.train, trial.labels)
        validation, test = (
            Sequences(AttentionedInputs(trial.test.values[part], trial.test.layers), trial.test_labels[part])
            for part in (slice(0, tests), slice(tests, None))
        )
        return Draw(train, validation, {"chains": test})

    def _points(self, number: int) -> EncodedPoints:
        """The sentences as for the run at chosen points; choices are made on 300, and `test_examples` are tested on."""
        layers, directions = ([0, 1], 4) if self.sentences == MADE else ([2, 4], 64)
        return EncodedPoints(
            **{name: getattr(self, name) for name in ("folder", "widths", "temperatures")},
            task=self.sentences,
            seed=self.seed + number,
            split=[self.counts[-1] + _CHOOSE, self.test_examples],
            layers=layers,
            skips=False,
            fitted=min(200, self.counts[-1]),
            examples=self.counts[-1],
            validation_examples=_CHOOSE,
            directions=directions,
        )

    def recheck(self) -> Recheck:
        """Solve the first draw with the fewest sequences, at the narrowest width and the highest temperature."""
        found = self._swept(self.draw(0), self.counts[0], self.widths[:1], self.temperatures[-1:])
        there = results.load(self.path).isel(draw=0, examples=0)
        there = there.sel(width=self.widths[:1], temperature=self.temperatures[-1:])
        what = f"P = {self.counts[0]}, N = {self.widths[0]:g}, T = {self.temperatures[-1]:g} of the first draw"
        return Recheck(what, largest_difference(found, there), 1e-3)

    def _swept(self, draw: Draw, count: int, widths, temperatures) -> xr.Dataset:
        """All widths and temperatures on the first sequences, and the limit."""
        inputs, labels = (
            AttentionedInputs(draw.train.inputs.values[:count], draw.train.inputs.layers),
            draw.train.labels,
        )
        problem = Problem(inputs, labels[:count])
        sweep = solve_sweep(problem, widths=widths, temperatures=temperatures, tolerance=_TOLERANCE, throw=False)
        fewer, both = problem.reduce(), (draw.validation, next(iter(draw.tests.values())))

        def right(overlap, heat) -> list[float]:
            """Accuracy on validation and test sequences."""
            vectors = predictor_vectors(fewer.replace(temperature=heat), overlap)
            return [float(accuracy(jnp.einsum("epi,pi->e", one.inputs.values, vectors), one.labels)) for one in both]

        shape, flat = (len(widths), len(temperatures)), jnp.eye(inputs.values.shape[1])
        rows = np.empty((*shape, 5))
        for width, place in np.ndindex(shape):
            overlap, heat = sweep.order_parameter[width, place], temperatures[place]
            size = float(jnp.mean(jnp.diagonal(overlap)))
            departure = float(jnp.linalg.norm(overlap / size - flat))
            rows[width, place] = *right(overlap, heat), right(size * flat, heat)[1], size, departure
        limit = np.array([right(flat, heat) for heat in temperatures]).T
        names = ("validation_accuracy", "accuracy", "rescaled", "scale", "departure")
        by_width = ("width", "temperature")
        columns: dict[str, Any] = {name: (by_width, rows[..., place]) for place, name in enumerate(names)}
        columns |= {f"gp_{name}": ("temperature", one) for name, one in zip(names, limit, strict=False)}
        columns |= {"outcome": (by_width, np.asarray(sweep.outcome))}
        return xr.Dataset(columns, {"width": list(widths), "temperature": list(temperatures)})
