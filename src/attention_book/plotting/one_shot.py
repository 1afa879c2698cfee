"""Panels on the theory of trained networks."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator, PercentFormatter

from statmech_attention.layers.chains import Layers
from statmech_attention.model.paths import path_indices
from statmech_attention.plotting.panels import against_width, mean_and_error
from statmech_attention.plotting.style import COLOURS, MUTED, axes_or_new, powers_of_ten

_GROUPS = ("same path", "same head in layer 1", "other pairs")
_GROUP_COLOURS = (MUTED["indigo"], MUTED["teal"], "0.6")


def against_temperature(
    temperatures: ArrayLike, values: Mapping, *, limit: ArrayLike | None = None, axes: Axes | None = None
):
    """Mean accuracy against temperature, from `(draws, temperatures)` per width."""
    lines = dict(values) if limit is None else {**values, "GP limit": limit}
    axes, shades = axes_or_new(axes), plt.get_cmap("viridis")(np.linspace(0, 0.9, max(len(values), 2)))
    for place, (width, rows) in enumerate(lines.items()):
        mean, error = mean_and_error(rows)
        last = width == "GP limit"
        style = dict(fmt="--", color=COLOURS["gp"]) if last else dict(fmt="o-", color=shades[place])
        label = width if last else f"$N$ = {width:g}"
        axes.errorbar(temperatures, mean, error, markersize=3.5, linewidth=1.3, elinewidth=0.9, label=label, **style)
    axes.set(xscale="log", xlabel="temperature $T$", ylabel="test accuracy")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    return axes


def best_temperatures(
    widths: ArrayLike,
    temperatures: ArrayLike,
    *,
    label: str,
    colour: str = "theory",
    axes: Axes | None = None,
):
    """Best temperatures `(draws, widths)` against width, with their geometric means."""
    temperatures = np.asarray(temperatures, float)
    before = axes.get_ylim() if axes is not None and axes.lines else ()
    axes = against_width(widths, np.log10(temperatures), label=label, colour=colour, axes=axes)
    # Means are taken of logarithms; the axis is in temperatures.
    line, band = axes.lines[-1], axes.collections[-1]
    line.set_ydata(10.0 ** np.asarray(line.get_ydata()))
    band.remove()
    for width, column in zip(np.asarray(widths, float), temperatures.T, strict=True):
        values, counts = np.unique(column, return_counts=True)
        axes.scatter(
            np.full(len(values), width), values, s=14 * counts, color=line.get_color(), alpha=0.35, linewidths=0
        )
    ends = (*before, temperatures.min() / 1.4, 1.4 * temperatures.max())
    axes.set(yscale="log", ylabel="best temperature $T$", ylim=(min(ends), max(ends)))
    powers_of_ten(axes.yaxis)
    return axes


def entries_compared(matrix: ArrayLike, other: ArrayLike, *, layers: Layers, axes: Axes | None = None):
    """Entries of one order parameter against another, in units of the mean diagonal."""
    paths = np.asarray(path_indices(layers))
    matrix, other = (np.asarray(one, float) for one in (matrix, other))
    axes = axes_or_new(axes, figsize=(4.4, 4.2))
    rows, columns = np.triu_indices(len(paths))
    group = np.where(rows == columns, 0, np.where(paths[rows, 0] == paths[columns, 0], 1, 2))
    across, upwards = (one[rows, columns] / np.mean(np.diag(one)) for one in (matrix, other))
    for place in (2, 1, 0):
        mine = group == place
        style: dict[str, Any] = dict(s=16, color=_GROUP_COLOURS[place], alpha=0.8, linewidths=0)
        axes.scatter(across[mine], upwards[mine], label=_GROUPS[place], **style)
    axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
        scale("symlog", linthresh=0.1)
        axis.set_minor_locator(NullLocator())
    return axes
