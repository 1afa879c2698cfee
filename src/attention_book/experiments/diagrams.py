"""Diagrams of the mean-field dynamics of 1-bit self-attention, recorded: bifurcations, exponents, regimes, many starts."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import xarray as xr

from attention_book.dynamics import continuation
from attention_book.experiments import many_starts
from attention_book.experiments.again import Again, difference, largest_difference
from attention_book.experiments.experiment import Experiment, Part
from statmech_attention import checks, dmft, results
from statmech_attention.dmft import Bifurcation, attractors, bifurcation_diagram

PAIRS = ((0, 1), (0, 2))  # sections that are recorded: of the first overlap where the second, or third, is zero

_AGAIN = 16  # networks that are computed again
_LEAST = {"networks": 2, "transient": 0, "steps": 1, "levels": 2, "count": 2, "gammas": 2, "parts": 1}
_LEAST |= {"starts": 1, "blocks": 2, "sets": 1}
_ENSEMBLES = ("segments", "independent")


@dataclass(frozen=True, kw_only=True)
class Diagram(Experiment):
    r"""A diagram over $\beta$ of the mean-field dynamics of 1-bit self-attention.

    "bifurcation": values and sections of the first output overlap; every network from one window. "continuation": the same, up and
    down, every network from the window its neighbour ended in. "exponents": Lyapunov exponents, periods and regimes. "phases": the
    same over $\gamma$ from 0 to `gamma`, too. "lifetimes": the first exponent block by block in a long run from many starts that are all but
    equal. "patterns": regimes for many sets of patterns, each from many starts, with $\beta$ in units of the set's own onset
    $\beta_0 / (1 - \epsilon)$. Levels are packed, see `marked`.

    Attributes:
        diagram: which.
        seed: of the published draws of patterns; of "patterns" the first.
        ensemble: "segments" or "independent".
        window: $L$.
        gamma: $\gamma$, the largest one for "phases".
        epsilon: $\epsilon$.
        low: smallest $\beta$.
        high: largest $\beta$.
        networks: values of $\beta$.
        start: all begin with the window in which a run at this $\beta$ ends, after `transient` steps from `dmft.initial_window`.
        transient: steps of every network that are dropped.
        steps: steps that are looked at, or that exponents are averaged over.
        levels: as for `dmft.bifurcation_diagram`.
        limit: as for `dmft.bifurcation_diagram`.
        count: exponents, at least 2.
        gammas: values of $\gamma$, for "phases".
        starts: runs of every network, for "lifetimes" and "patterns".
        blocks: that each run of "lifetimes" is divided into.
        sets: seeds, one after the other, for "patterns".
        parts: how many the run is divided into.
    """

    diagram: str
    seed: int
    ensemble: str = "segments"
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
    starts: int = 8
    blocks: int = 200
    sets: int = 32
    parts: int

    name: ClassVar[str] = "diagram"
    revision: ClassVar[int] = (
        2  # 2: one threshold for all regimes, and what comes back is periodic; 1: as first recorded
    )
    unit: ClassVar[str] = "part"

    @property
    def path(self) -> Path:
        other = [self.ensemble] if self.ensemble != "segments" else []
        other += [f"window{self.window}"] if self.window != 4 else []
        name = "-".join([self.diagram, *other, f"seed{self.seed}", f"beta{self.low:g}", f"{self.high:g}"])
        return Path(self.folder) / f"{name}.nc"

    def check(self) -> None:
        if self.diagram not in self._diagrams:
            raise ValueError(f"diagram: wanted one of {sorted(self._diagrams)}, got {self.diagram!r}.")
        for name, least in _LEAST.items():
            checks.whole(name, getattr(self, name), least)
        if self.ensemble not in _ENSEMBLES:
            raise ValueError(f"ensemble: wanted one of {_ENSEMBLES}, got {self.ensemble!r}.")
        most = self.sets if self.diagram == "patterns" else self.networks
        if not 0 <= self.low < self.high or self.parts > most:
            raise ValueError(
                f"low, high, parts: wanted 0 <= low < high and at most {most} parts, got {self.low}, {self.high} "
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
        return _together(found, "set" if self.diagram == "patterns" else "network")

    def again(self) -> Again:
        """The networks of lowest beta; of a continuation those on its way up alone; of many starts see below."""
        if self.diagram in ("lifetimes", "patterns"):
            return getattr(self, f"_{self.diagram}_again")()
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
            "lifetimes": self._lifetimes,
            "patterns": self._patterns,
        }

    @cached_property
    def _beginning(self):
        """The model at the beta of the start, and the window that all networks begin with."""
        patterns = many_starts.drawn(self.ensemble, self.seed, self.window)
        begin = dmft.dynamics(patterns, beta=self.start, gamma=self.gamma, epsilon=self.epsilon)
        return begin, dmft.advance(begin, dmft.initial_window(begin), steps=self.transient)

    @property
    def _pieces(self) -> list[np.ndarray]:
        """The networks of every part; of "patterns", its seeds."""
        numbers = self.seed + np.arange(self.sets) if self.diagram == "patterns" else np.arange(self.networks)
        return np.array_split(numbers, self.parts)

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

    def _lifetimes(self, piece, before) -> xr.Dataset:
        begin, first = self._beginning
        options = {name: getattr(self, name) for name in ("starts", "steps", "blocks")}
        return many_starts.lifetimes(begin.at(beta=self._betas[piece]), first, **options)

    def _lifetimes_again(self) -> Again:
        """The mean of the first block over starts: chaos is the same on no two machines, its statistics are."""
        short = replace(self, steps=self.steps // self.blocks * 2, blocks=2)
        found, recorded = short._lifetimes(self._pieces[0][:2], None), results.load(self.path).isel(network=slice(2))
        first, then = (one["block_exponent"].isel(block=0).mean("start").values for one in (found, recorded))
        return Again("the first block of 2 networks, mean over starts", difference(first, then), 0.1)

    def _patterns(self, piece, before, networks: slice = slice(None)) -> xr.Dataset:
        options = {name: getattr(self, name) for name in ("gamma", "epsilon", "starts", "transient", "steps")}
        scale = self._betas[networks]
        found = [
            many_starts.survey(many_starts.drawn(self.ensemble, int(seed), self.window), scale=scale, **options)
            for seed in piece
        ]
        kept = xr.concat(found, "set").assign_coords(set=piece)
        return kept.assign(scale=("network", scale))

    def _patterns_again(self) -> Again:
        """The first patterns at the lowest temperatures' end, where nothing is chaotic."""
        below = slice(max(int(np.sum(self._betas < 1)), 1))
        found, recorded = self._patterns(self._pieces[0][:1], None, below), results.load(self.path)
        recorded = recorded.isel(set=slice(1), network=below)
        found = found.drop_vars("set")
        return Again("the first patterns below their onset", largest_difference(found, recorded, list(found)), 1e-4)

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


def _together(found: list[xr.Dataset], axis: str) -> xr.Dataset:
    """All parts, both ways of a continuation in the order of increasing beta."""
    names = [name for name in found[0] if name not in ("state", "slot", "seconds")]
    dataset = xr.concat([part[names] for part in found], axis, data_vars="minimal")
    if "way" in dataset.dims:
        down = dataset.isel(way=1, network=slice(None, None, -1))
        dataset = xr.concat([dataset.isel(way=0), down], xr.DataArray(["up", "down"], dims="way", name="way"))
        dataset["beta"] = dataset["beta"].isel(way=0, drop=True)
    dataset["seconds"] = xr.concat([part["seconds"] for part in found], "part")
    return dataset
