"""The theory on a trained network's queries and keys, over widths and temperatures, recorded: Figures 3 and 6."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import xarray as xr
from statmech_attention.training.network import TrainedNetwork

from attention_book.experiments.again import Again, largest_difference
from attention_book.experiments.experiment import Part, axis, different
from attention_book.experiments.networks import OnNetwork
from attention_book.experiments.theory_points import Draw, draw_of, gp_limit, one_width
from attention_book.tasks.one_shot_sets import OneShotSuite
from statmech_attention import checks, results

_STARTS = "start_"  # what is kept for narrower widths only


@dataclass(frozen=True, kw_only=True)
class Theory(OnNetwork):
    r"""The saddle point (11) for every width and temperature, and tests of the predictor (9).

    For each draw of the training sequences, every width starts from the solution at the next larger one. Widths and
    temperatures are sorted; `best_temperature` and the order parameters, which are at that temperature, are chosen by accuracy in
    distribution, as in the paper.

    Attributes:
        draws: how many draws of training and test sequences; they come from the seed, too.
        widths: $N$, in any order.
        temperatures: $T$, in any order.
        examples: $P$, training sequences of a draw.
        test_examples: sequences of every test set, and of the validation classes, in a draw.
    """

    draws: int
    widths: Sequence[float | int]
    temperatures: Sequence[float | int]
    examples: int
    test_examples: int

    name: ClassVar[str] = "theory"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "point"
    needs: ClassVar[tuple[str, ...]] = ("network",)

    def __post_init__(self):
        for name in ("widths", "temperatures"):
            object.__setattr__(self, name, different(name, getattr(self, name)))

    def check(self) -> None:
        super().check()
        for name in ("draws", "examples", "test_examples"):
            checks.whole(name, getattr(self, name))

    @property
    def total(self) -> int:
        return self.draws * len(self.widths) * len(self.temperatures)

    def make(self, state, progress):
        suite, network, draws = self.suite(), self.network(), []
        for number in range(self.draws):
            # Drawn only where a part is missing.
            draw = functools.cache(functools.partial(self.draw, number, suite, network))
            limit = yield Part(f"draw{number}-gp", lambda step, draw=draw: gp_limit(draw(), self.temperatures), 0)
            found, wider = [], None
            for width in reversed(self.widths):

                def solved(step, draw=draw, width=width, wider=wider):
                    return one_width(draw(), width, self.temperatures, wider, step)

                wider = yield Part(f"draw{number}-width{width:g}", solved, len(self.temperatures))
                found.insert(0, wider[[name for name in wider if not str(name).startswith(_STARTS)]])
            draws.append(xr.concat(found, axis("width", self.widths)).merge(limit))
        return xr.concat(draws, axis("draw", range(self.draws)))

    def draw(self, number: int, suite: OneShotSuite | None = None, network: TrainedNetwork | None = None) -> Draw:
        """The sequences of a draw, as the network's attention presents them."""
        counts = {"examples": self.examples, "tests": self.test_examples}
        return draw_of(suite or self.suite(), network or self.network(), seed=self.seed, number=number, **counts)

    def again(self) -> Again:
        """One point of the first draw: the narrowest network at its best temperature, from the Gaussian-process limit."""
        recorded = results.load(self.path).isel(draw=0)
        narrow, draw = recorded.isel(width=0), self.draw(0)
        best = float(narrow["best_temperature"])
        point = one_width(draw, self.widths[0], [best], None, lambda: None)
        names = ("accuracy", "validation_accuracy", "action", "energy", "entropy", "order_parameter", "alignment")
        apart = largest_difference(point, narrow.sel(temperature=[best]), names)
        limit = gp_limit(draw, [best])
        gp_names = ("gp_accuracy", "gp_alignment", "gp_eigenvalue")
        apart = max(apart, largest_difference(limit, recorded.sel(temperature=[best]), gp_names))
        # The minimum is where the gradient is 1e-8, wherever it started.
        return Again(f"the point N = {self.widths[0]:g}, T = {best:g} of the first draw, and the limit", apart, 1e-6)
