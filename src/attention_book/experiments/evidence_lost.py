"""Evidence of the labels that the theory loses without each head of a trained network."""

import functools
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import xarray as xr

from attention_book import results
from attention_book.experiments.experiment import Part, Recheck, axis, difference, parameter
from attention_book.experiments.networks import OnTheory, Sequences
from statmech_attention import Problem, solve
from statmech_attention.pruning import (
    COEFFICIENTS,
    head_evidence,
    head_indices,
    log_evidence,
    order_parameters_left,
    without_head,
)


@dataclass(frozen=True, kw_only=True)
class EvidenceLost(OnTheory):
    """The theory with all heads and without each of them: log evidence lost, in nats."""

    heads: int = parameter("$H$, of every layer; one is left out", ge=2)
    draws: int = parameter("the theory's draws of sequences that are used, from the first", ge=1)

    name: ClassVar[str] = "evidence"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "head"

    def check_sources(self) -> None:
        super().check_sources()
        if self.draws > self.made["draws"]:
            raise ValueError(f"draws: wanted at most the theory's {self.made['draws']}, got {self.draws}.")

    @property
    def total(self) -> int:
        return self.draws * len(self.widths) * self._solves

    @property
    def _solves(self) -> int:
        return len(COEFFICIENTS) * self.layers * self.heads

    def make(self, state, progress):
        draws = []
        for number in range(self.draws):
            train = functools.cache(lambda number=number: self.draw(number, tests=1).train)
            row = []
            for width in self.widths:
                temperature = float(self.temperatures.sel(draw=number, width=width))

                def compute(step, train=train, width=width, temperature=temperature):
                    return _without_each_head(train(), width, temperature, step)

                row.append((yield Part(f"draw{number}-width{width:g}", compute, self._solves)))
            draws.append(xr.concat(row, axis("width", self.widths)))
        return xr.concat(draws, axis("draw", range(self.draws)))

    def recheck(self) -> Recheck:
        """Compute one loss again: of the first head, at the narrowest width, coefficients kept."""
        here = results.load(self.path).isel(draw=0, width=0)
        seen = self.draw(0, tests=1).train
        problem = Problem(seen.inputs, seen.labels, width=self.widths[0], temperature=float(here["temperature"]))
        whole = solve(problem)
        less = solve(problem.replace(attentioned=without_head(seen.inputs, 0)), start=order_parameters_left(whole, 0))
        lost = float(log_evidence(whole) - log_evidence(less))
        apart = max(
            difference(float(log_evidence(whole)), here["log_evidence"].values),
            # As small as what is lost may be, it is the difference of two large numbers.
            abs(lost - float(here["lost"].sel(coefficients="kept")[0])) / abs(float(here["log_evidence"])),
        )
        return Recheck(f"what head 1 of layer 1 is worth at N = {self.widths[0]:g}", apart, 1e-6)


def _without_each_head(seen: Sequences, width: float, temperature: float, step) -> xr.Dataset:
    """Both choices of coefficients at one width."""
    began = time.monotonic()
    indices = head_indices(seen.inputs.layers)
    problem = Problem(seen.inputs, seen.labels, width=width, temperature=temperature)
    found, start = [], None
    for coefficients in COEFFICIENTS:
        one = head_evidence(problem, coefficients=coefficients, start=start, throw=False)
        start = one.whole  # is there already
        found.append(one)
        step(len(indices))
    axes = ("coefficients", "head")
    return xr.Dataset(
        {
            "lost": (axes, np.array([one.lost for one in found])),
            **{
                name: (axes, np.array([[getattr(head, name).item() for head in one.without] for one in found]))
                for name in ("steps", "outcome", "gradient_norm")
            },
            "log_evidence": float(log_evidence(found[0].whole)),
            "action": float(found[0].whole.action),
            "whole_outcome": int(found[0].whole.outcome),
            "temperature": temperature,
            "seconds": time.monotonic() - began,
        },
        coords={
            "coefficients": list(COEFFICIENTS),
            "head_layer": ("head", indices[:, 0] + 1),
            "head_number": ("head", indices[:, 1] + 1),
        },
    )
