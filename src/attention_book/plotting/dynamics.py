"""Panels on 1-bit self-attention in time: tokens, overlaps, portraits, spectra."""

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes

from attention_book.plotting.panels import FEATURE_COLOURS, REGIME_COLOURS
from statmech_attention.plotting.style import DARK, axes_or_new


def overlap_series(
    values: ArrayLike,
    *,
    symbol: str = "m^o",
    style: str = "-",
    axes: Axes | None = None,
):
    """Overlaps `(steps, features)` against time; without a `symbol` not in the legend."""
    axes, values = axes_or_new(axes), np.asarray(values)
    times = 1 + np.arange(len(values))
    for feature, line in enumerate(values.T):
        label = f"${symbol}_{{{feature + 1}}}$" if symbol else "_"
        colour = FEATURE_COLOURS[feature % len(FEATURE_COLOURS)]
        axes.plot(times, line, style, color=colour, label=label, linewidth=1.4, markersize=3)
    axes.set(xlabel="time $t$", ylabel="overlap")
    return axes


def phase_portrait(first: ArrayLike, second: ArrayLike, *, regime: str | None = None, axes: Axes | None = None):
    """One overlap against another, one dot per step; larger dots for few points."""
    axes = axes_or_new(axes, figsize=(4, 4))
    points = np.stack([first, second], axis=1)
    few = len(np.unique(points.round(6), axis=0)) < min(1000, len(points) / 2)
    colour = REGIME_COLOURS.get(regime or "", DARK)
    axes.plot(*points.T, "o" if few else ".", color=colour, markersize=4 if few else 0.8, rasterized=True, linewidth=0)
    axes.set(xlabel="$m^o_1$", ylabel="$m^o_2$")
    axes.ticklabel_format(style="plain", useOffset=False)
    return axes


def spectrum(
    frequencies: ArrayLike,
    power: ArrayLike,
    *,
    regime: str | None = None,
    decades: float = 12.0,
    axes: Axes | None = None,
):
    """Power spectrum on a logarithmic axis, without frequency zero."""
    axes = axes_or_new(axes)
    frequencies, power = np.asarray(frequencies)[1:], np.asarray(power)[1:]
    top = power.max()
    colour = REGIME_COLOURS.get(regime or "", DARK)
    axes.semilogy(
        frequencies, np.maximum(power, top * 10.0 ** -(decades + 1)), color=colour, linewidth=0.7, rasterized=True
    )
    axes.set(xlabel="frequency $f$ (per step)", ylabel="power $S$", ylim=(top * 10.0**-decades, 5 * top), xlim=(0, 0.5))
    return axes
