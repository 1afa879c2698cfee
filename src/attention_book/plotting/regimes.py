"""Panels on the regimes of the dynamics: diagrams, exponents."""

from typing import Any

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from attention_book.plotting.panels import REGIME_COLOURS, REGIMES
from statmech_attention.plotting.style import DARK, axes_or_new

_FEW = 80  # values, below which a network without a regime counts as periodic
_MANY = 200_000  # dots, above which neighbours are drawn as one


def bifurcation(
    parameter: ArrayLike,
    visited: ArrayLike,
    values: ArrayLike,
    *,
    regimes: ArrayLike | None = None,
    sections: ArrayLike | None = None,
    axes: Axes | None = None,
):
    """Values `(networks, levels)` visited by an overlap against a parameter, by regime."""
    parameter, visited, values = np.asarray(parameter), np.asarray(visited), np.asarray(values)
    axes = axes_or_new(axes)
    groups: dict[str | None, np.ndarray] = {None: np.ones(len(parameter), bool)}
    if regimes is not None:
        groups = {REGIMES[number]: np.asarray(regimes) == number for number in np.unique(regimes)}

    def dots(table, colour, size):
        place, level = _dots(table)
        look = {"markersize": size, "markeredgewidth": 0, "rasterized": True}
        axes.plot(parameter[place], values[level], ".", color=colour, **look)

    whole = visited.sum(axis=1) < _FEW if regimes is None else groups.get("periodic", np.zeros(len(parameter), bool))
    for name, mine in groups.items():
        if sections is not None and np.any(mine & ~whole):
            dots(visited & (mine & ~whole)[:, None], _pale(REGIME_COLOURS.get(name or "", DARK)), 0.8)
    for name, mine in groups.items():
        shown = visited if sections is None else np.where(whole[:, None], visited, np.asarray(sections))
        dots(shown & mine[:, None], REGIME_COLOURS.get(name or "", DARK), 1.0 if name == "periodic" else 1.6)
        if name is not None:
            axes.plot([], [], "o", color=REGIME_COLOURS[name], label=name)
    axes.set(xlabel=r"inverse temperature $\beta$", ylabel="$m^o$")
    return axes


def regime_map(parameter: ArrayLike, other: ArrayLike, regimes: ArrayLike, *, axes: Axes | None = None):
    """Regime over two evenly spaced parameters, from `(networks, others)`."""
    regimes, parameter, other = np.asarray(regimes), np.asarray(parameter), np.asarray(other)
    axes = axes_or_new(axes)
    _colours(regimes.T, parameter, other, axes)
    for number in np.unique(regimes):
        axes.plot([], [], "s", color=REGIME_COLOURS[REGIMES[number]], label=REGIMES[number])
    axes.set(xlabel=r"inverse temperature $\beta$", ylabel=r"$\gamma$")
    return axes


def _colours(table, parameter, other, axes) -> None:
    """Draw a table of regime numbers as an image, its first row at the bottom."""
    colours = np.array([to_rgb(colour) for colour in REGIME_COLOURS.values()])
    steps = [(places[-1] - places[0]) / (len(places) - 1) if len(places) > 1 else 1.0 for places in (parameter, other)]
    extent = [
        places[end] + sign * step / 2
        for places, step in zip((parameter, other), steps, strict=True)
        for end, sign in ((0, -1), (-1, 1))
    ]
    axes.imshow(colours[table], origin="lower", aspect="auto", extent=extent, interpolation="nearest")


def _pale(colour):
    """Mix a colour with three parts of white."""
    return tuple(0.25 * part + 0.75 for part in to_rgb(colour))


def _dots(table):
    """Row and column of true entries; of very many, one per cell of a grid finer than any page."""
    place, level = np.nonzero(table)
    if len(place) > _MANY:
        cells = [numbers * 1000 // size for numbers, size in zip((place, level), table.shape, strict=True)]
        first = np.unique(cells[0] * 1000 + cells[1], return_index=True)[1]
        place, level = place[first], level[first]
    return place, level


def exponents(
    parameter: ArrayLike,
    values: ArrayLike,
    errors: ArrayLike | None = None,
    *,
    regimes: ArrayLike | None = None,
    axes: Axes | None = None,
):
    """Lyapunov exponents `(networks, count)` against a parameter, the largest on top."""
    parameter, values = np.asarray(parameter), np.asarray(values)
    axes = axes_or_new(axes)
    axes.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    for number in reversed(range(values.shape[1])):
        error = None if errors is None else np.asarray(errors)[:, number]
        colour = str(0.25 + 0.5 * number / values.shape[1])  # grey: colours are those of regimes
        label = rf"$\lambda_{{{number + 1}}}$"
        if number == 0 and regimes is not None:
            axes.plot(parameter, values[:, 0], "-", color="0.75", linewidth=0.8, zorder=1)
            for regime in np.unique(regimes):
                mine = np.asarray(regimes) == regime
                look: dict[str, Any] = {
                    "color": REGIME_COLOURS[REGIMES[regime]],
                    "label": rf"$\lambda_1$, {REGIMES[regime]}",
                }
                bar = None if error is None else error[mine]
                axes.errorbar(parameter[mine], values[mine, 0], bar, fmt="o", markersize=3, elinewidth=0.8, **look)
        else:
            axes.errorbar(parameter, values[:, number], error, color=colour, label=label, linewidth=1, elinewidth=0.8)
    axes.set(xlabel=r"inverse temperature $\beta$", ylabel="Lyapunov exponent (per step)")
    return axes
