"""Diagrams of the mean-field dynamics of 1-bit self-attention: bifurcations, exponents, regimes."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import xarray as xr

from attention_book import results
from attention_book.dynamics import Bifurcation, attractors, bifurcation_diagram, continuation
from attention_book.experiments.experiment import (
    Experiment,
    Part,
    Recheck,
    difference,
    largest_difference,
    parameter,
)
from statmech_attention import dmft

PAIRS = ((0, 1), (0, 2))  # sections that are recorded: of the first overlap where the second, or third, is zero

_RECHECKED = 16  # networks
_NUDGE = 1e-12  # by which the starts of `lifetimes` differ
_APART = 0.5  # entries of random windows go from minus this to this
_ENSEMBLES: dict[str, Callable] = {
    "segments": dmft.published_patterns,
    "independent": partial(dmft.published_patterns, segments=None),
}
_DIAGRAMS = ("bifurcation", "continuation", "exponents", "phases", "lifetimes", "patterns")


@dataclass(frozen=True, kw_only=True)
class Diagram(Experiment):
    r"""A diagram over $\beta$ of the mean-field dynamics of 1-bit self-attention.

    "bifurcation": values and sections of the first output overlap; every network from one window.
    "continuation": the same, up and down, every network from the window its neighbour ended in.
    "exponents": Lyapunov exponents, periods and regimes. "phases": the same over $\gamma$ from 0 to
    `gamma`, too. "lifetimes": the first exponent block by block in a long run from many starts that
    are all but equal. "patterns": regimes for many sets of patterns, each from many starts, with
    $\beta$ in units of the set's own onset $\beta_0 / (1 - \epsilon)$. Levels are packed, see
    `marked`.
    """

    diagram: str = parameter("kind of diagram", among=_DIAGRAMS)
    seed: int = parameter("seed of the published draws of patterns; the first one for `patterns`")
    ensemble: str = parameter("how patterns are drawn", "segments", among=tuple(_ENSEMBLES))
    window: int = parameter("$L$")
    gamma: float = parameter(r"$\gamma$, the largest one for `phases`")
    epsilon: float = parameter(r"$\epsilon$")
    low: float = parameter(r"smallest $\beta$")
    high: float = parameter(r"largest $\beta$")
    networks: int = parameter(r"values of $\beta$", ge=2)
    start: float = parameter(
        r"$\beta$ of a run of `transient` steps from `dmft.initial_window`; all begin with its last window"
    )
    transient: int = parameter("steps of every network that are dropped", ge=0)
    steps: int = parameter("steps that are looked at, or that exponents are averaged over", ge=1)
    levels: int = parameter("levels of `bifurcation_diagram`", ge=2)
    limit: float = parameter("limit of `bifurcation_diagram`")
    count: int = parameter("exponents", ge=2)
    gammas: int = parameter(r"values of $\gamma$, for `phases`", ge=2)
    starts: int = parameter("runs of every network, for `lifetimes` and `patterns`", 8, ge=1)
    blocks: int = parameter("blocks of each run of `lifetimes`", 200, ge=2)
    sets: int = parameter("seeds, one after the other, for `patterns`", 32, ge=1)
    parts: int = parameter("parts that the run is divided into", ge=1)

    name: ClassVar[str] = "diagram"
    # 2: one threshold for all regimes, and whatever recurs is periodic; 1: as first recorded
    revision: ClassVar[int] = 2
    unit: ClassVar[str] = "part"

    @property
    def path(self) -> Path:
        other = [self.ensemble] if self.ensemble != "segments" else []
        other += [f"window{self.window}"] if self.window != 4 else []
        name = "-".join([self.diagram, *other, f"seed{self.seed}", f"beta{self.low:g}", f"{self.high:g}"])
        return Path(self.folder) / f"{name}.nc"

    def check(self) -> None:
        super().check()
        most = self.sets if self.diagram == "patterns" else self.networks
        if not 0 <= self.low < self.high or self.parts > most:
            got = f"{self.low}, {self.high} and {self.parts}"
            raise ValueError(f"low, high, parts: wanted 0 <= low < high and at most {most} parts, got {got}.")

    @property
    def total(self) -> int:
        return self.parts

    def make(self, state, progress):
        found = []
        for number, piece in enumerate(self._pieces):

            def compute(step, piece=piece, before=found[-1] if found else None):
                began = time.perf_counter()
                part = self._part(piece, before)
                step()
                about = {"units": "s", "long_name": "wall time of a part"}
                return part.assign(seconds=("part", [time.perf_counter() - began], about))

            found.append((yield Part(f"part{number}", compute)))
        return _together(found, "set" if self.diagram == "patterns" else "network")

    def recheck(self) -> Recheck:
        """Run the networks of lowest beta again; of a continuation only their way up."""
        recorded = results.load(self.path)
        if self.diagram == "lifetimes":
            return self._recheck_lifetimes(recorded)
        if self.diagram == "patterns":
            return self._recheck_patterns(recorded)
        found = self._part(self._pieces[0][:_RECHECKED], None).drop_vars(["state", "slot"], errors="ignore")
        if "way" in found.dims:
            found, recorded = found.isel(way=0).assign(beta=found["beta"].isel(way=0)), recorded.isel(way=0)
        count = found.sizes["network"]
        apart = largest_difference(found, recorded.isel(network=slice(count)))
        return Recheck(f"{count} networks of lowest beta", apart, 1e-6)

    def _part(self, piece, before) -> xr.Dataset:
        """A part of the diagram, for some networks or seeds; `before` is the part before it."""
        return getattr(self, f"_{self.diagram}")(piece, before)

    @cached_property
    def _beginning(self):
        """The model at the beta of the start, and the window that all networks begin with."""
        patterns = _ENSEMBLES[self.ensemble](seed=self.seed, window=self.window)
        begin = dmft.dynamics(patterns, beta=self.start, gamma=self.gamma, epsilon=self.epsilon)
        return begin, dmft.advance(begin, dmft.initial_window(begin), steps=self.transient)

    @property
    def _pieces(self) -> list[np.ndarray]:
        """The networks, or for "patterns" the seeds, of every part."""
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
            ended, slot = before["state"].values, int(before["slot"])
            first = dmft.window_from_attention(begin.at(beta=np.zeros(2)), ended, slot=slot)
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
        return lifetimes(begin.at(beta=self._betas[piece]), first, **options)

    def _recheck_lifetimes(self, recorded: xr.Dataset) -> Recheck:
        """Compare means over starts: chaos is the same on no two machines, its statistics are."""
        short = replace(self, steps=self.steps // self.blocks * 2, blocks=2)
        found = short._lifetimes(self._pieces[0][:2], None)
        first, then = (one["block_exponent"].isel(block=0, network=slice(2)).mean("start") for one in (found, recorded))
        return Recheck("the first block of 2 networks, mean over starts", difference(first, then), 0.1)

    def _patterns(self, piece, before, networks: slice = slice(None)) -> xr.Dataset:
        options = {name: getattr(self, name) for name in ("gamma", "epsilon", "starts", "transient", "steps")}
        draw, scale = _ENSEMBLES[self.ensemble], self._betas[networks]
        found = [survey(draw(seed=int(seed), window=self.window), scale=scale, **options) for seed in piece]
        return xr.concat(found, "set").assign_coords(set=piece).assign(scale=("network", scale))

    def _recheck_patterns(self, recorded: xr.Dataset) -> Recheck:
        """The first patterns at the lowest beta, where nothing is chaotic."""
        below = slice(max(int(np.sum(self._betas < 1)), 1))
        found = self._patterns(self._pieces[0][:1], None, below).drop_vars("set")
        apart = largest_difference(found, recorded.isel(set=slice(1), network=below))
        return Recheck("the first patterns below their onset", apart, 1e-4)

    def _attractors(self, model, window, axes: tuple[str, ...]) -> xr.Dataset:
        options = {name: getattr(self, name) for name in ("transient", "steps", "count")}
        found = attractors(model, window, **options)
        table = {
            "exponents": ("1 a step", "Lyapunov exponents"),
            "errors": ("1 a step", "standard errors of the exponents, from blocks of the run"),
            "rounding": ("1 a step", "how far rounding may have moved the exponents"),
        }
        beta = (axes[:1], np.asarray(model.beta).reshape(-1))
        dataset = xr.Dataset({"beta": beta, **_regimes(found, axes)})
        for name, (units, text) in table.items():
            values = np.asarray(getattr(found, name)).astype(np.float32)
            dataset[name] = ((*axes, "exponent"), values, {"units": units, "long_name": text})
        return dataset


def marked(packed: xr.DataArray, levels: int) -> np.ndarray:
    """Unpack `visited` or `sections`: truth values for `np.linspace(-limit, limit, levels)`."""
    return np.unpackbits(packed.values, axis=-1, count=levels).astype(bool)


def lifetimes(model, window, *, starts: int, steps: int, blocks: int) -> xr.Dataset:
    """The first exponent of every block of a long run, from starts that are all but the same."""
    noise = np.random.default_rng(0).normal(size=(starts, *window.attention.shape)) * _NUDGE
    betas = np.repeat(np.asarray(model.beta)[:, None], starts, axis=1)
    many = model.at(beta=betas)
    state = np.broadcast_to(np.asarray(window.newest_first()) + noise, (len(betas), *noise.shape))
    there, found = dmft.window_from_attention(many, state, slot=int(window.slot)), []
    length = steps // blocks
    for _ in range(blocks):
        part = dmft.lyapunov_spectrum(many, there, steps=length - length // 10, count=1, discard=length // 10, blocks=2)
        there = part.window
        found.append(np.asarray(part.exponents)[..., 0].astype(np.float32))
    about = {"units": "1 a step", "long_name": "first Lyapunov exponent within a block of the run"}
    values = (("network", "start", "block"), np.stack(found, axis=-1), about)
    return xr.Dataset({"beta": ("network", np.asarray(model.beta)), "block_exponent": values})


def survey(patterns, *, gamma: float, epsilon: float, scale, starts: int, transient: int, steps: int) -> xr.Dataset:
    r"""Attractors of one set of patterns, over $\beta$ in units of its onset $\beta_0 / (1 - \epsilon)$."""
    onset, frequency = dmft.onset(patterns)
    unit = onset / (1 - epsilon) if np.isfinite(onset) else 1.0
    beta = np.repeat(unit * np.asarray(scale)[:, None], starts, 1)
    model = dmft.dynamics(patterns, beta=beta, gamma=gamma, epsilon=epsilon)
    common = dmft.advance(model, dmft.initial_window(model), steps=model.window - 1)  # the window is full
    random = np.random.default_rng(0).uniform(-_APART, _APART, (*model.shape, model.window, model.features))
    states = np.where(np.arange(starts)[None, :, None, None] == 0, np.asarray(common.newest_first()), random)
    begin = dmft.window_from_attention(model, states, slot=int(common.slot))
    found = attractors(model, begin, transient=transient, steps=steps)
    seen = dmft.trajectory(model, found.window, steps=max(steps // 100, 8), keep="attention").attention
    size = np.sqrt(np.mean(np.var(np.asarray(seen), axis=2), axis=2))
    axes = ("network", "start")
    values = {
        **_regimes(found, axes),
        "exponents": ((*axes, "exponent"), np.asarray(found.exponents, np.float32), {"units": "1 a step"}),
        "size": (axes, size.astype(np.float32), {"long_name": "standard deviation of the attention over time"}),
    }
    return xr.Dataset({"onset": onset, "frequency": frequency, **values})


def _regimes(found, axes: tuple[str, ...]) -> dict[str, tuple]:
    return {
        "regime": (axes, found.regime.astype(np.uint8), {"long_name": "regime, as dmft.Regime"}),
        "period": (axes, found.period.astype(np.uint16), {"long_name": "period, 0 where none was found"}),
    }


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
