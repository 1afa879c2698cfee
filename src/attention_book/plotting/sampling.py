"""Panels on sampling: densities, estimates against width, chains side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes

from attention_book.plotting.panels import new_figure
from statmech_attention.plotting.panels import mean_and_error
from statmech_attention.plotting.style import COLOURS, DARK, MUTED, axes_or_new, powers_of_ten

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


def estimates(
    widths: ArrayLike, means: ArrayLike, errors: ArrayLike, *, label: str, style: str = "", axes: Axes | None = None
):
    """Estimates with standard errors against width, as points."""
    axes, (colour, marker) = axes_or_new(axes), SAMPLERS.get(label, ("0.5", "o"))
    axes.errorbar(widths, means, errors, fmt=style or marker, color=colour, capsize=3, markersize=5, label=label)
    axes.set(xscale="log", xlabel="width $N$")
    powers_of_ten(axes.xaxis)
    return axes


def entries_sampled(saddle_point: ArrayLike, means: ArrayLike, errors: ArrayLike, *, axes: Axes | None = None):
    """Posterior means of a matrix's entries against those of the saddle point."""
    matrices = [np.asarray(values, float) for values in (saddle_point, means, errors)]
    axes = axes_or_new(axes, figsize=(4.2, 4.0))
    size = len(matrices[0])
    low, high = min(np.min(one) for one in matrices[:2]), max(np.max(one) for one in matrices[:2])
    axes.plot([low, high], [low, high], color="0.7", linewidth=0.8, zorder=0)
    for label, places, colour, marker in (
        ("off the diagonal", np.triu_indices(size, 1), "#999999", "o"),
        ("on the diagonal", np.diag_indices(size), COLOURS["neutral"], "s"),
    ):
        across, upwards, error = (one[places] for one in matrices)
        axes.errorbar(across, upwards, error, fmt=marker, color=colour, markersize=3.5, elinewidth=0.8, label=label)
    axes.set(xlabel="$U$, saddle point", ylabel="$E[U]$, exact posterior")
    return axes


def distance_against_width(
    widths: ArrayLike,
    distances: Mapping,
    *,
    errors: Mapping | None = None,
    slopes: Sequence[float] = (),
    axes: Axes | None = None,
):
    """Distances between estimates against width, with powers `slopes` of the width."""
    axes = axes_or_new(axes)
    order = np.argsort(widths)
    widths = np.asarray(widths, float)[order]
    for place, (name, values) in enumerate(distances.items()):
        error = None if errors is None or name not in errors else np.asarray(errors[name])[order]
        style: dict[str, Any] = dict(fmt="os^Dv"[place % 5] + "-", color=_LINES[place % len(_LINES)], capsize=2)
        axes.errorbar(widths, np.asarray(values)[order], error, label=name, **style)
    for slope, values, line in zip(slopes, distances.values(), (":", "--", "-."), strict=False):
        start = np.asarray(values)[order][0]
        axes.plot(widths, start * (widths / widths[0]) ** slope, line, color="0.5", label=f"$N^{{{slope:g}}}$")
    axes.set(xscale="log", yscale="log", xlabel="width $N$")
    return axes


def approach(
    values: ArrayLike, distances: Mapping, *, xlabel: str, slope: float | None = None, axes: Axes | None = None
):
    """Distances to a limit against the quantity that leads there, and a power `slope` of it."""
    values = np.asarray(values, float)
    axes = distance_against_width(values, distances, axes=axes)
    if slope is not None:
        first = np.asarray(next(iter(distances.values())), float)[np.argmin(values)]
        ends = np.array([values.min(), values.max()])
        axes.plot(ends, first / 2 * (ends / ends[0]) ** slope, ":", color="0.5", label=f"slope {slope:g}")
    axes.set_xlabel(xlabel)
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


def coverage(
    levels: ArrayLike, fractions: ArrayLike, band: ArrayLike, *, label: str, colour: str, axes: Axes | None = None
):
    """Fraction of intervals that hold the truth, minus their level, against the level."""
    levels, fractions, band = (np.asarray(values, float) for values in (levels, fractions, band))
    axes = axes_or_new(axes)
    axes.plot(levels, fractions - levels, color=colour, label=label)
    axes.fill_between(
        levels, fractions - levels - band, fractions - levels + band, color=colour, alpha=0.15, linewidth=0
    )
    axes.set(xlabel="level")
    return axes
