"""Experiments on the theory's own sequences, each width at the temperature that the theory found best there."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import xarray as xr

from attention_book.experiments.networks import OnNetwork
from attention_book.experiments.theory_points import Draw, draw_of
from statmech_attention import results


@dataclass(frozen=True, kw_only=True)
class OnTheory(OnNetwork):
    """An experiment at some of the widths of the theory on a network.

    Attributes:
        widths: $N$, among those of the theory, in any order; sorted.
    """

    widths: Sequence[float | int]

    needs: ClassVar[tuple[str, ...]] = ("network", "theory")

    def check_sources(self) -> None:
        super().check_sources()
        missing = sorted(set(self.widths) - set(self.made["widths"]))
        if missing:
            raise ValueError(f"widths: wanted some of the theory's, {self.made['widths']}, got also {missing}.")

    @property
    def made(self) -> dict[str, Any]:
        """The theory's parameters."""
        return results.record(self.file("theory"))["parameters"]

    @property
    def temperatures(self) -> xr.DataArray:
        """The best one by draw and width."""
        return results.load(self.file("theory"))["best_temperature"]

    def draw(self, number: int, tests: int | None = None) -> Draw:
        """The theory's sequences, once more; so many of every test set, or as many as the theory has."""
        counts = {"examples": self.made["examples"], "tests": tests or self.made["test_examples"]}
        return draw_of(self.suite(), self.network(), seed=self.seed, number=number, **counts)
