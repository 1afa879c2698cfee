"""Diagrams of the mean-field dynamics of 1-bit self-attention, recorded: bifurcations, exponents, regimes."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from tqdm import tqdm

from statmech_attention import checks, results
from statmech_attention.dmft.diagrams import Bifurcation, attractors, bifurcation_diagram, continuation
from statmech_attention.dmft.mean_field import advance
from statmech_attention.dmft.model import dynamics as dynamics_of
from statmech_attention.dmft.patterns import segments
from statmech_attention.dmft.windows import start as start_of
from statmech_attention.dmft.windows import window_from_attention
from statmech_attention.experiments._parts import Parts

PAIRS = ((0, 1), (0, 2))  # sections that are recorded: of the first overlap where the second, or third, is zero

_MODULES = ("experiments.dynamics",)
_LEAST = {"networks": 2, "transient": 0, "steps": 1, "levels": 2, "count": 2, "gammas": 2, "parts": 1}


def dynamics_file(folder: str | os.PathLike, diagram: str, seed: int, low: float, high: float) -> Path:
    """Where a diagram is recorded.

    Args:
        folder: of the results.
        diagram: "bifurcation", "continuation", "exponents" or "phases".
        seed: of the patterns.
        low, high: the range of beta.

    Returns:
        A path ending in `.nc`.
    """
    return Path(folder) / f"{diagram}-seed{seed}-beta{low:g}-{high:g}.nc"


def dynamics(
    folder: str | os.PathLike,
    *,
    diagram: str = "bifurcation",
    seed: int = 1,
    window: int = 4,
    gamma: float = 220.0,
    epsilon: float = 0.02,
    low: float = 0.0,
    high: float = 3.0,
    networks: int = 4001,
    start: float = 3.0,
    transient: int = 100_000,
    steps: int = 20_000,
    levels: int = 4001,
    limit: float = 1.0,
    count: int = 12,
    gammas: int = 200,
    parts: int = 16,
    progress: bool | None = None,
) -> Path:
    r"""Record a diagram over $\beta$ for patterns by segments, unless that is done.

    "bifurcation": values and sections of the first output overlap; every network from one window. "continuation": the same, up and
    down, every network from the window its neighbour ended in. "exponents": Lyapunov exponents, periods and regimes. "phases": the
    same over $\gamma$ from 0 to `gamma`, too. A part that is done is kept beside the result until all are; an interrupted run
    goes on from there.

    Args:
        folder: of the results.
        diagram: which.
        seed: of the published draws of patterns.
        window: $L$.
        gamma: $\gamma$, the largest one for "phases".
        epsilon: $\epsilon$.
        low, high: the range of $\beta$.
        networks: values of $\beta$.
        start: all begin with the window in which a run at this $\beta$ ends, after `transient` steps from `dmft.start`.
        transient: steps of every network that are dropped.
        steps: steps that are looked at, or that exponents are averaged over.
        levels, limit: as for `dmft.bifurcation_diagram`.
        count: exponents, at least 2.
        gammas: values of $\gamma$, for "phases".
        parts: how many the run is divided into.
        progress: True or False for a progress bar or none; by default one on a terminal.

    Returns:
        The recorded result. Levels are packed, see `marked`.

    Raises:
        ValueError: numbers out of range, an unknown diagram, single precision.
    """
    if diagram not in _kinds():
        raise ValueError(f"diagram: wanted one of {sorted(_kinds())}, got {diagram!r}.")
    parameters = {"diagram": diagram, "seed": seed, "window": window, "gamma": gamma, "epsilon": epsilon, "low": low}
    parameters |= {"high": high, "networks": networks, "start": start, "transient": transient, "steps": steps}
    parameters |= {"levels": levels, "limit": limit, "count": count, "gammas": gammas, "parts": parts}
    for name, least in _LEAST.items():
        if not checks.is_whole(parameters[name], least):
            raise ValueError(f"{name}: wanted a whole number of at least {least}, got {parameters[name]!r}.")
    if not 0 <= low < high or parts > networks:
        raise ValueError(
            f"low, high, parts: wanted 0 <= low < high and at most {networks} parts, got {low}, {high} and {parts}."
        )
    path = dynamics_file(folder, diagram, seed, low, high)
    if results.is_current(path, parameters):
        return path
    begin, first = _beginning(parameters)
    kept, found = Parts(path, parameters, _MODULES), []
    pieces = _pieces(parameters)
    for number in tqdm(range(parts), unit="part", disable=None if progress is None else not progress):

        def compute(piece=pieces[number], before=found[-1] if found else None):
            began = time.perf_counter()
            part = _kinds()[diagram](begin, first, parameters, piece, before)
            about = {"units": "s", "long_name": "wall time of a part"}
            return part.assign(seconds=("part", [time.perf_counter() - began], about))

        found.append(kept.part(f"part{number}", compute))
    return kept.finish(_together(found), seed)


def marked(packed: xr.DataArray, levels: int) -> np.ndarray:
    """Unpack `visited` or `sections` of a recorded diagram.

    Args:
        packed: eight levels a byte along its last axis.
        levels: the parameter of that run.

    Returns:
        Truth values, `(.., levels)`, for the values `np.linspace(-limit, limit, levels)`.
    """
    return np.unpackbits(packed.values, axis=-1, count=levels).astype(bool)


def first_part(parameters: Mapping[str, Any]) -> xr.Dataset:
    """The first of a run's parts computed again: the networks of lowest beta.

    Args:
        parameters: as a record keeps them.

    Returns:
        What the record has of these networks, a continuation on its way up alone.
    """
    found = _kinds()[parameters["diagram"]](*_beginning(parameters), parameters, _pieces(parameters)[0], None)
    found = found[[name for name in found if name not in ("state", "slot")]]
    return found.isel(way=0).assign(beta=found["beta"].isel(way=0)) if "way" in found.dims else found


def _kinds() -> dict[str, Callable]:
    return {"bifurcation": _bifurcation, "continuation": _continuation, "exponents": _exponents, "phases": _phases}


def _beginning(parameters):
    """The model at the beta of the start, and the window that all networks begin with."""
    beta, gamma, epsilon = (parameters[name] for name in ("start", "gamma", "epsilon"))
    patterns = segments(seed=parameters["seed"], window=parameters["window"])
    begin = dynamics_of(patterns, beta=beta, gamma=gamma, epsilon=epsilon)
    return begin, advance(begin, start_of(begin), parameters["transient"])


def _pieces(parameters) -> list[np.ndarray]:
    return np.array_split(np.arange(parameters["networks"]), parameters["parts"])


def _bifurcation(begin, first, parameters, piece, before) -> xr.Dataset:
    model = begin.at(beta=_betas(parameters)[piece])
    return _levels(_values(parameters)(model, first), ("network",), model.beta)


def _continuation(begin, first, parameters, piece, before) -> xr.Dataset:
    """The next networks on the way up, and as many on the way down."""
    betas = _betas(parameters)
    model = begin.at(beta=np.stack([betas[piece], betas[::-1][piece]]))
    if before is not None:
        first = window_from_attention(begin.at(beta=np.zeros(2)), before["state"].values, slot=int(before["slot"]))
    found = continuation(model, first, _values(parameters))
    state = xr.Dataset({"state": (("way", "age", "feature"), found.window.newest_first())})
    return _levels(found, ("way", "network"), model.beta).merge(state.assign(slot=int(found.window.slot)))


def _exponents(begin, first, parameters, piece, before) -> xr.Dataset:
    return _attractors(begin.at(beta=_betas(parameters)[piece]), first, parameters, ("network",))


def _phases(begin, first, parameters, piece, before) -> xr.Dataset:
    gammas = np.linspace(0, parameters["gamma"], parameters["gammas"])
    model = begin.at(beta=_betas(parameters)[piece][:, None], gamma=gammas[None])
    return _attractors(model, first, parameters, ("network", "gamma")).assign_coords(gamma=gammas)


def _betas(parameters) -> np.ndarray:
    return np.linspace(parameters["low"], parameters["high"], parameters["networks"])


def _values(parameters):
    options = {name: parameters[name] for name in ("transient", "steps", "levels", "limit")}
    return partial(bifurcation_diagram, pairs=PAIRS, **options)


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


def _attractors(model, window, parameters, axes: tuple[str, ...]) -> xr.Dataset:
    options = {name: parameters[name] for name in ("transient", "steps", "count")}
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
