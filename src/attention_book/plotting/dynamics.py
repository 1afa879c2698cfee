"""Panels on 1-bit self-attention in time: tokens, overlaps, portraits, spectra, sizes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes

from attention_book.plotting.panels import FEATURE_COLOURS, REGIME_COLOURS, new_figure
from attention_book.plotting.sliders import Panel, Slider, slider
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


def portrait_slider(
    parameter: ArrayLike,
    portraits: ArrayLike,
    frequencies: ArrayLike,
    powers: ArrayLike,
    *,
    regimes: Sequence[str],
    names: Sequence[str] | None = None,
    first: int = 0,
    shown: Sequence[int] = (0,),
    decades: float = 10.0,
    description: str,
) -> Slider:
    r"""Phase portraits `(networks, points, 2)` and spectra `(networks, bins)` by $\beta$.

    `names` stand beside the values of $\beta$; `shown` are at most four networks in the picture.
    """
    parameter = np.asarray(parameter, float)
    portraits, powers = np.asarray(portraits), np.asarray(powers)
    ends = [(-_limit(points), _limit(points)) for points in portraits]
    frames, bins = [], (0, float(np.max(frequencies)))
    for regime, points, limits, power in zip(regimes, portraits, ends, powers, strict=True):
        few = len(np.unique(points.round(4), axis=0)) < 400  # a periodic orbit, whose dots are larger
        colours = {"": REGIME_COLOURS[regime]}
        lines = {"": (frequencies, np.log10(power / power.max()).clip(-decades, 0))}
        look: dict[str, Any] = dict(
            colours=colours, dots=5 if few else 2, ticks=(0.4 * limits[1], 0.2 * limits[1]), equal=True
        )
        left = Panel({"": points.T}, "overlap m₁", "overlap m₂", limits, limits, **look)
        look = dict(colours=colours, ticks=(bins[1] / 5, decades / 5))
        right = Panel(lines, "frequency (per step)", "log₁₀ power", bins, (-decades, 0), **look)
        frames.append((left, right))
    shown = list(shown)[:4]
    figure, axes = new_figure(len(shown), 2, figsize=(5.4, 2.6 * len(shown)), squeeze=False)
    for (left, right), place in zip(axes, shown, strict=True):
        phase_portrait(*portraits[place].T, regime=regimes[place], axes=left)
        left.set(xlim=ends[place], ylim=ends[place], title=f"β = {parameter[place]:g}")
        spectrum(frequencies, powers[place], regime=regimes[place], decades=decades, axes=right)
        right.set_title(regimes[place])
    names, label = list(names or regimes), "inverse temperature β"
    return slider(frames, parameter, label=label, names=names, first=first, picture=figure, description=description)


def _limit(points) -> float:
    """Smallest of 1, 2 or 5 times a power of ten that no coordinate exceeds."""
    largest = max(float(np.max(np.abs(points))), 1e-12)
    power = np.floor(np.log10(largest))
    return next(float(f"{end}e{power:.0f}") for end in (1, 2, 5, 10) if end * 10.0**power >= largest)
