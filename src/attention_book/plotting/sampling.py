"""Panels on sampling: densities, estimates against width, chains side by side."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from attention_book.arguments import Axes, Number, Numbers
from statmech_attention.plotting.style import COLOURS, DARK, MUTED, axes_or_new, powers_of_ten

# One colour and marker a sampler, wherever it is drawn.
SAMPLERS = {
    "exact posterior": (COLOURS["exact"], "s"),
    "weights, NUTS": (COLOURS["weights"], "D"),
    "weights, Gibbs": (MUTED["rose"], "^"),
    "all weights, weighted": (COLOURS["weights"], "D"),
}

# For theory first, then for what improves on it.
_LINES = (COLOURS["theory"], MUTED["green"], DARK)
_NAMED = {"theory": "theory", "GP limit": "gp", "exact": "exact"}
_WIDTHS = ("0.0", "0.45", "0.7", "0.85")
_CHAINS = (MUTED["purple"], MUTED["cyan"], MUTED["rose"], MUTED["green"])


def law(
    draws: Numbers,
    *,
    label: str,
    bins: Numbers = 40,
    weights: Numbers | None = None,
    filled: bool = False,
    saddle_point: Number | None = None,
    axes: Axes | None = None,
):
    """Density of a number over (weighted) draws, as a histogram.

    Args:
        draws: numbers, of any shape.
        label: for the legend; the name of a sampler in `SAMPLERS` gives its colour.
        bins: how many, or their edges.
        weights: one a draw, where draws are weighted.
        filled: fill it.
        saddle_point: where theory puts the number, as a vertical line; none where None.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: weights that do not fit the draws.
    """
    draws = np.ravel(np.asarray(draws, float))
    if weights is not None and np.size(weights) != draws.size:
        raise ValueError(f"weights: wanted {draws.size}, one a draw, got {np.size(weights)}.")
    axes, (colour, _) = axes_or_new(axes), SAMPLERS.get(label, ("0.5", "o"))
    style: dict[str, Any] = dict(histtype="stepfilled", alpha=0.35) if filled else dict(histtype="step", linewidth=1.6)
    given = None if weights is None else np.ravel(np.asarray(weights, float))
    axes.hist(draws, weights=given, density=True, color=colour, label=label, **style | {"bins": bins})
    if saddle_point is not None:
        axes.axvline(float(saddle_point), color=COLOURS["theory"], linewidth=1.6, label="saddle point")
    axes.set(ylabel="density")
    return axes


def estimates(
    widths: Numbers, means: Numbers, errors: Numbers, *, label: str, style: str = "", axes: Axes | None = None
):
    """Estimates with standard errors against width, as points.

    Args:
        widths: `(widths,)`.
        means: `(widths,)`.
        errors: `(widths,)`.
        label: for the legend; the name of a sampler in `SAMPLERS` gives its colour and marker.
        style: a marker instead of the sampler's.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes, with a logarithmic width axis.

    Raises:
        ValueError: arrays of different lengths.
    """
    widths, means, errors = (np.asarray(values, float) for values in (widths, means, errors))
    if widths.ndim != 1 or not widths.shape == means.shape == errors.shape:
        raise ValueError(
            f"means: wanted one mean and error a width, got {widths.shape}, {means.shape}, {errors.shape}."
        )
    axes, (colour, marker) = axes_or_new(axes), SAMPLERS.get(label, ("0.5", "o"))
    axes.errorbar(widths, means, errors, fmt=style or marker, color=colour, capsize=3, markersize=5, label=label)
    axes.set(xscale="log", xlabel="width $N$")
    powers_of_ten(axes.xaxis)
    return axes


def entries_sampled(saddle_point: Numbers, means: Numbers, errors: Numbers, *, axes: Axes | None = None):
    """Posterior means of a matrix's entries against those of the saddle point.

    Args:
        saddle_point: $U$, `(paths, paths)`.
        means: $E[U]$, the same shape.
        errors: their standard errors, the same shape.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes, with one point for each entry on the diagonal and one for each pair off it.

    Raises:
        ValueError: matrices of unequal shapes.
    """
    matrices = [np.asarray(values, float) for values in (saddle_point, means, errors)]
    if matrices[0].ndim != 2 or len({one.shape for one in matrices}) > 1:
        raise ValueError(f"means: wanted three square matrices of one size, got {[one.shape for one in matrices]}.")
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
    widths: Numbers,
    distances: Mapping,
    *,
    errors: Mapping | None = None,
    slopes: Numbers = (),
    axes: Axes | None = None,
):
    """How far estimates lie apart, against the width, both logarithmic, with lines of given slopes to compare.

    Args:
        widths: `(widths,)`.
        distances: by name `(widths,)`, positive.
        errors: by name `(widths,)`, standard errors; none for names that it lacks.
        slopes: exponents of powers of the width, each drawn through the distances of its place at the smallest width.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    order = np.argsort(widths)
    widths = np.asarray(widths, float)[order]
    for place, (name, values) in enumerate(distances.items()):
        error = None if errors is None or name not in errors else np.asarray(errors[name])[order]
        style: dict[str, Any] = dict(fmt="os^Dv"[place % 5] + "-", color=_LINES[place % len(_LINES)], capsize=2)
        axes.errorbar(widths, np.asarray(values)[order], error, label=name, **style)
    for slope, values in zip(np.asarray(slopes, float), distances.values(), strict=False):
        start = np.asarray(values)[order][0]
        axes.plot(widths, start * (widths / widths[0]) ** slope, ":", color="0.5", label=f"$N^{{{slope:g}}}$")
    axes.set(xscale="log", yscale="log", xlabel="width $N$")
    return axes


def approach(
    values: Numbers, distances: Mapping, *, xlabel: str, slope: Number | None = None, axes: Axes | None = None
):
    """How far networks are from a limit, against what takes them there, both logarithmic.

    Args:
        values: `(points,)`, positive.
        distances: by name `(points,)`, positive.
        xlabel: what the values are.
        slope: exponent of a power of the values to compare with, drawn at half the first name's distance at the smallest value.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: numbers of distances that do not fit the values.
    """
    values = np.asarray(values, float)
    for name, found in distances.items():
        if np.shape(found) != values.shape:
            raise ValueError(f"distances: wanted {len(values)} of {name!r}, one a value, got shape {np.shape(found)}.")
    axes = distance_against_width(values, distances, axes=axes)
    if slope is not None:
        first = np.asarray(next(iter(distances.values())), float)[np.argmin(values)]
        ends = np.array([values.min(), values.max()])
        axes.plot(ends, first / 2 * (ends / ends[0]) ** slope, ":", color="0.5", label=f"slope {slope:g}")
    axes.set_xlabel(xlabel)
    return axes


def over_temperatures(
    temperatures: Numbers,
    curves: Mapping,
    *,
    errors: Mapping | None = None,
    mark: bool = False,
    axes: Axes | None = None,
):
    """Numbers against temperature, one line a name.

    Args:
        temperatures: `(temperatures,)`.
        curves: by name `(temperatures,)`.
        errors: by name `(temperatures,)`, standard errors; none for names that it lacks.
        mark: put a ring around the maximum of every line.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes, with a logarithmic temperature axis. "theory", "GP limit" and "exact" have the book's colours; other names, in their order,
        those of widths, from black to grey.
    """
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


def coverage(levels: Numbers, seen: Numbers, band: Numbers, *, label: str, colour: str, axes: Axes | None = None):
    """Fraction of intervals that hold the truth, minus their level, against the level.

    Args:
        levels: `(levels,)`.
        seen: the fraction that is held, `(levels,)`.
        band: half the height of the band, `(levels,)`.
        label: for the legend.
        colour: a Matplotlib colour.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: arrays of different lengths.
    """
    levels, seen, band = (np.asarray(values, float) for values in (levels, seen, band))
    if levels.ndim != 1 or not levels.shape == seen.shape == band.shape:
        raise ValueError(f"seen: wanted a fraction and a band a level, got {levels.shape}, {seen.shape}, {band.shape}.")
    axes = axes_or_new(axes)
    axes.plot(levels, seen - levels, color=colour, label=label)
    axes.fill_between(levels, seen - levels - band, seen - levels + band, color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="level")
    return axes


def traces(draws: Numbers, *, axes: Axes | None = None):
    """A number along every chain, one line a chain.

    Args:
        draws: `(chain, draw)`.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: not a number a draw of every chain.
    """
    draws = np.asarray(draws, float)
    if draws.ndim != 2:
        raise ValueError(f"draws: wanted one number a draw, (chain, draw), got shape {draws.shape}.")
    axes = axes_or_new(axes)
    for chain, values in enumerate(draws, start=1):
        style: dict[str, Any] = dict(
            linewidth=0.8, alpha=0.8, color=_CHAINS[(chain - 1) % len(_CHAINS)], label=f"chain {chain}"
        )
        axes.plot(np.arange(1, len(values) + 1), values, **style)
    axes.set(xlabel="draw")
    return axes
