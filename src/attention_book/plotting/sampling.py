"""Panels on sampling: densities, estimates against width, chains side by side."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes

from attention_book.plotting.panels import new_figure
from statmech_attention.plotting.panels import mean_and_error
from statmech_attention.plotting.style import COLOURS, DARK, MUTED, axes_or_new

# Colour and marker of each sampler, wherever it is drawn.
SAMPLERS = {
    "exact posterior": (COLOURS["exact"], "s"),
    "weights, NUTS": (COLOURS["weights"], "D"),
    "weights, Gibbs": (MUTED["rose"], "^"),
    "all weights, weighted": (COLOURS["weights"], "D"),
}

# The theory, then its corrections.
_LINES = (COLOURS["theory"], MUTED["green"], DARK)
_NAMED = {"theory": "theory", "GP limit": "gp", "exact": "exact", "rescaled limit": "neutral"}
_WIDTHS = ("0.0", "0.45", "0.7", "0.85")


def law(
    draws: ArrayLike,
    *,
    label: str,
    bins: ArrayLike = 40,
    weights: ArrayLike | None = None,
    filled: bool = False,
    saddle_point: float | None = None,
    axes: Axes | None = None,
):
    """Density of a number over (weighted) draws, as a histogram."""
    draws = np.ravel(np.asarray(draws, float))
    axes, (colour, _) = axes_or_new(axes), SAMPLERS.get(label, ("0.5", "o"))
    style: dict[str, Any] = dict(histtype="stepfilled", alpha=0.35) if filled else dict(histtype="step", linewidth=1.6)
    given = None if weights is None else np.ravel(np.asarray(weights, float))
    axes.hist(draws, weights=given, density=True, color=colour, label=label, **style | {"bins": bins})
    if saddle_point is not None:
        axes.axvline(saddle_point, color=COLOURS["theory"], linewidth=1.6, label="saddle point")
    axes.set(ylabel="density")
    return axes


def over_temperatures(
    temperatures: ArrayLike,
    curves: Mapping,
    *,
    errors: Mapping | None = None,
    mark: bool = False,
    axes: Axes | None = None,
):
    """Numbers against temperature, one line per name; `mark` puts a ring around each maximum."""
    axes, temperatures = axes_or_new(axes), np.asarray(temperatures, float)
    order = np.argsort(temperatures)
    others = [name for name in curves if name not in _NAMED]
    for name, values in curves.items():
        values = np.asarray(values, float)[order]
        error = None if errors is None or name not in errors else np.asarray(errors[name], float)[order]
        place = others.index(name) if name in others else 0
        colour = COLOURS[_NAMED[name]] if name in _NAMED else _WIDTHS[place % len(_WIDTHS)]
        marker = "^" if name in _NAMED else "osDv"[place % 4]
        style: dict[str, Any] = dict(fmt=marker + "-", color=colour, capsize=2, markersize=4, label=name)
        axes.errorbar(temperatures[order], values, error, **style)
        if mark:
            best = int(np.argmax(values))
            axes.plot(temperatures[order][best], values[best], "o", color=colour, markersize=10, fillstyle="none")
    axes.set(xscale="log", xlabel="temperature $T$")
    return axes


def compared(found: Mapping):
    """One panel per `temperatures.Comparison`: curves over temperature, and a ring at the choices of each."""
    columns = min(len(found), 2)
    rows = -(-len(found) // columns)
    size = max(5.0, 1.2 + 2.6 * columns), 0.8 + 2.6 * rows
    figure, panels = new_figure(rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False)
    for panel, (name, one) in zip(panels.flat, found.items(), strict=False):
        shown = {curve: mean_and_error(values.mean(axis=1)) for curve, values in one.accuracy.items()}
        curves, errors = ({curve: pair[part] for curve, pair in shown.items()} for part in (0, 1))
        over_temperatures(one.temperatures, curves, errors=errors, axes=panel)
        for curve, drawn in zip(curves, list(panel.containers), strict=True):
            best = one.temperature(curve), one.at_best(curve).mean()
            panel.plot(*best, "o", color=drawn.lines[0].get_color(), markersize=10, fillstyle="none")
        panel.set(title=name, ylabel="test accuracy" if panel in panels[:, 0] else "")
    for panel in panels.flat[len(found) :]:
        panel.axis("off")
        panels[-2, -1].tick_params(labelbottom=True)
    columns = 3 if len(panels[0, 0].containers) != 4 else 2
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=columns)
    return figure
