"""Diagrams of the mean-field dynamics of 1-bit self-attention, recorded: bifurcations, exponents, regimes."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import xarray as xr

from statmech_attention import checks, dmft, results
from statmech_attention.dmft.diagrams import Bifurcation, attractors, bifurcation_diagram, continuation
from statmech_attention.experiments.experiment import Experiment, Part
from statmech_attention.results.again import Again, largest_difference

PAIRS = ((0, 1), (0, 2))  # sections that are recorded: of the first overlap where the second, or third, is zero

_AGAIN = 16  # networks that are computed again
_LEAST = {"networks": 2, "transient": 0, "steps": 1, "levels": 2, "count": 2, "gammas": 2, "parts": 1}


@dataclass(frozen=True, kw_only=True)
class Diagram(Experiment):
    r"""A diagram over $\beta$ of the mean-field dynamics of 1-bit self-attention, for patterns by segments.

    "bifurcation": values and sections of the first output overlap; every network from one window. "continuation": the same, up and
    down, every network from the window its neighbour ended in. "exponents": Lyapunov exponents, periods and regimes. "phases": the
    same over $\gamma$ from 0 to `gamma`, too. Levels are packed, see `marked`.

    Attributes:
        diagram: which.
        seed: of the published draws of patterns.
        window: $L$.
        gamma: $\gamma$, the largest one for "phases".
        epsilon: $\epsilon$.
        low: smallest $\beta$.
        high: largest $\beta$.
        networks: values of $\beta$.
        start: all begin with the window in which a run at this $\beta$ ends, after `transient` steps from `dmft.start`.
        transient: steps of every network that are dropped.
        steps: steps that are looked at, or that exponents are averaged over.
        levels: as for `dmft.bifurcation_diagram`.
        limit: as for `dmft.bifurcation_diagram`.
        count: exponents, at least 2.
        gammas: values of $\gamma$, for "phases".
        parts: how many the run is divided into.
    """

    diagram: str
    seed: int
    window: int
    gamma: float
    epsilon: float
    low: float
    high: float
    networks: int
    start: float
    transient: int
    steps: int
    levels: int
    limit: float
    count: int
    gammas: int
    parts: int

    name: ClassVar[str] = "diagram"
    revision: ClassVar[int] = 1  # 1: as first recorded
    unit: ClassVar[str] = "part"

    @property
    def path(self) -> Path:
        return Path(self.folder) / f"{self.diagram}-seed{self.seed}-beta{self.low:g}-{self.high:g}.nc"

    def check(self) -> None:
        if self.diagram not in self._diagrams:
            raise ValueError(f"diagram: wanted one of {sorted(self._diagrams)}, got {self.diagram!r}.")
        for name, least in _LEAST.items():
            checks.whole(name, getattr(self, name), least)
        if not 0 <= self.low < self.high or self.parts > self.networks:
            raise ValueError(
                f"low, high, parts: wanted 0 <= low < high and at most {self.networks} parts, got {self.low}, {self.high} "
                f"and {self.parts}."
            )

    @property
    def total(self) -> int:
        return self.parts

    def make(self, state, progress):
        found = []
        for number, piece in enumerate(self._pieces):

            def compute(step, piece=piece, before=found[-1] if found else None):
                began = time.perf_counter()
                part = self._diagrams[self.diagram](piece, before)
                step()
                about = {"units": "s", "long_name": "wall time of a part"}
                return part.assign(seconds=("part", [time.perf_counter() - began], about))

            found.append((yield Part(f"part{number}", compute)))
        return _together(found)

    def again(self) -> Again:
        """The networks of lowest beta; of a continuation those on its way up alone."""
        found = self._diagrams[self.diagram](self._pieces[0][:_AGAIN], None)
        found = found[[name for name in found if name not in ("state", "slot")]]
        recorded = results.load(self.path)
        if "way" in found.dims:
            found = found.isel(way=0).assign(beta=found["beta"].isel(way=0))
            recorded = recorded.isel(way=0)
        recorded = recorded.isel(network=slice(found.sizes["network"]))
        return Again(
            f"{found.sizes['network']} networks of lowest beta", largest_difference(found, recorded, list(found)), 1e-6
        )

    @property
    def _diagrams(self) -> dict[str, Callable]:
        return {
            "bifurcation": self._bifurcation,
            "continuation": self._continuation,
            "exponents": self._exponents,
            "phases": self._phases,
        }

    @cached_property
    def _beginning(self):
        """The model at the beta of the start, and the window that all networks begin with."""
        patterns = dmft.segments(seed=self.seed, window=self.window)
        begin = dmft.dynamics(patterns, beta=self.start, gamma=self.gamma, epsilon=self.epsilon)
        return begin, dmft.advance(begin, dmft.start(begin), self.transient)

    @property
    def _pieces(self) -> list[np.ndarray]:
        return np.array_split(np.arange(self.networks), self.parts)

    @property
    def _betas(self) -> np.ndarray:
        return np.linspace(self.low, self.high, self.networks)

    @property
    def _values(self):
        options = {name: getattr(self, name) for name in ("transient", "steps", "levels", "limit")}
        return partial(bifurcation_diagram, pairs=PAIRS, **options)

    def _bifurcation(self, piece, before) -> xr.Dataset:
        begin, first = self._beginning
        model = begin.at(beta=self._betas[piece])
        return _levels(self._values(model, first), ("network",), model.beta)

    def _continuation(self, piece, before) -> xr.Dataset:
        """The next networks on the way up, and as many on the way down."""
        (begin, first), betas = self._beginning, self._betas
        model = begin.at(beta=np.stack([betas[piece], betas[::-1][piece]]))
        if before is not None:
            first = dmft.window_from_attention(
                begin.at(beta=np.zeros(2)), before["state"].values, slot=int(before["slot"])
            )
        found = continuation(model, first, self._values)
        state = xr.Dataset({"state": (("way", "age", "feature"), found.window.newest_first())})
        return _levels(found, ("way", "network"), model.beta).merge(state.assign(slot=int(found.window.slot)))

    def _exponents(self, piece, before) -> xr.Dataset:
        begin, first = self._beginning
        return self._attractors(begin.at(beta=self._betas[piece]), first, ("network",))

    def _phases(self, piece, before) -> xr.Dataset:
        begin, first = self._beginning
        gammas = np.linspace(0, self.gamma, self.gammas)
        model = begin.at(beta=self._betas[piece][:, None], gamma=gammas[None])
        return self._attractors(model, first, ("network", "gamma")).assign_coords(gamma=gammas)

    def _attractors(self, model, window, axes: tuple[str, ...]) -> xr.Dataset:
        options = {name: getattr(self, name) for name in ("transient", "steps", "count")}
        found = attractors(model, window, **options)
        table = {
            "exponents": ("1 a step", "Lyapunov exponents"),
            "errors": ("1 a step", "standard errors of the exponents, from blocks of the run"),
            "rounding": ("1 a step", "how far rounding may have moved the exponents"),
        }
        dataset = xr.Dataset({"beta": (axes[:1], np.asarray(model.beta).reshape(-1))})
        dataset["regime"] = (axes, found.regime.astype(np.uint8), {"long_name": "regime, as dmft.Regime"})
        dataset["period"] = (axes, found.period.astype(np.uint16), {"long_name": "period, 0 where none was found"})
        for name, (units, text) in table.items():
            values = np.asarray(getattr(found, name)).astype(np.float32)
            dataset[name] = ((*axes, "exponent"), values, {"units": units, "long_name": text})
        return dataset


def marked(packed: xr.DataArray, levels: int) -> np.ndarray:
    """Unpack `visited` or `sections` of a recorded diagram.

    Args:
        packed: eight levels a byte along its last axis.
        levels: the parameter of that run.

    Returns:
        Truth values, `(.., levels)`, for the values `np.linspace(-limit, limit, levels)`.
    """
    return np.unpackbits(packed.values, axis=-1, count=levels).astype(bool)


def _levels(found: Bifurcation, axes: tuple[str, ...], beta) -> xr.Dataset:
    """The first overlap's values and sections, eight levels a byte."""
    visited, sections = (np.packbits(part, axis=-1) for part in (found.visited[..., 0, :], found.sections))
    return xr.Dataset(
        {
            "beta": (axes, np.asarray(beta)),
            "visited": ((*axes, "byte"), visited),
            "sections": ((*axes, "pair", "byte"), sections),
        }
    )


def _together(found: list[xr.Dataset]) -> xr.Dataset:
    """All parts, both ways of a continuation in the order of increasing beta."""
    names = [name for name in found[0] if name not in ("state", "slot", "seconds")]
    dataset = xr.concat([part[names] for part in found], "network")
    if "way" in dataset.dims:
        down = dataset.isel(way=1, network=slice(None, None, -1))
        dataset = xr.concat([dataset.isel(way=0), down], xr.DataArray(["up", "down"], dims="way", name="way"))
        dataset["beta"] = dataset["beta"].isel(way=0, drop=True)
    dataset["seconds"] = xr.concat([part["seconds"] for part in found], "part")
    return dataset
