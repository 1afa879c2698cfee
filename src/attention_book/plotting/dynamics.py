"""Panels on 1-bit self-attention in time: tokens, overlaps, portraits, spectra, sizes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attention_book.arguments import Axes, Numbers
from attention_book.plotting.interactive import Panel, Slider, slider
from attention_book.plotting.panels import FEATURE_COLOURS, REGIME_COLOURS
from statmech_attention import checks
from statmech_attention.plotting.panels import new_figure
from statmech_attention.plotting.style import COLOURS, DARK, axes_or_new


def token_raster(words: Numbers, *, axes: Axes | None = None):
    """Tokens side by side in time, a column a token, dark for +1 and light for -1.

    Args:
        words: `(steps, sites)` of +1 and -1.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: words that are no matrix.
    """
    words = np.asarray(words)
    if words.ndim != 2:
        raise ValueError(f"words: wanted shape (steps, sites), got {words.shape}.")
    axes = axes_or_new(axes)
    axes.imshow(
        words.T, cmap="Greys", vmin=-1.4, vmax=1.2, aspect="auto", extent=(0.5, len(words) + 0.5, words.shape[1], 0)
    )
    axes.set(xlabel="time $t$", ylabel="site $i$")
    return axes


def overlap_series(
    values: Numbers,
    *,
    start: int = 1,
    symbol: str = "m^o",
    style: str = "-",
    alpha: float = 1.0,
    axes: Axes | None = None,
):
    """Overlaps `(steps, features)` against time; without a `symbol` not in the legend.

    Args:
        values: `(steps, features)`.
        start: time of the first.
        symbol: what they are, in mathematics, for the legend; an empty text leaves the lines out of it.
        style: a Matplotlib format.
        alpha: of the lines.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: values that are no matrix.
    """
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"values: wanted shape (steps, features), got {values.shape}.")
    axes = axes_or_new(axes)
    times = start + np.arange(len(values))
    for feature, line in enumerate(values.T):
        label = f"${symbol}_{{{feature + 1}}}$" if symbol else "_"
        colour = FEATURE_COLOURS[feature % len(FEATURE_COLOURS)]
        axes.plot(times, line, style, color=colour, alpha=alpha, label=label, linewidth=1.4, markersize=3)
    axes.set(xlabel="time $t$", ylabel="overlap")
    return axes


def phase_portrait(first: Numbers, second: Numbers, *, regime: str | None = None, axes: Axes | None = None):
    """One overlap against another, one dot per step; larger dots for few points.

    Args:
        first: `(steps,)`, to the right.
        second: `(steps,)`, upwards.
        regime: a name in `REGIME_COLOURS`, for the colour.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes, figsize=(4, 4))
    points = np.stack([first, second], axis=1)
    # Few points, as on a periodic orbit, get dots that are seen.
    few = len(np.unique(points.round(6), axis=0)) < min(1000, len(points) / 2)
    colour = REGIME_COLOURS.get(regime or "", DARK)
    axes.plot(*points.T, "o" if few else ".", color=colour, markersize=4 if few else 0.8, rasterized=True, linewidth=0)
    axes.set(xlabel="$m^o_1$", ylabel="$m^o_2$")
    axes.ticklabel_format(style="plain", useOffset=False)
    return axes


def spectrum(
    frequencies: Numbers, power: Numbers, *, regime: str | None = None, decades: float = 12.0, axes: Axes | None = None
):
    """Power spectrum on a logarithmic axis, without frequency zero.

    Args:
        frequencies: `(frequencies,)`, from 0.
        power: `(frequencies,)`.
        regime: a name in `REGIME_COLOURS`, for the colour.
        decades: how far below the largest value the axis goes.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    frequencies, power = np.asarray(frequencies)[1:], np.asarray(power)[1:]
    top = power.max()
    colour = REGIME_COLOURS.get(regime or "", DARK)
    axes.semilogy(
        frequencies, np.maximum(power, top * 10.0 ** -(decades + 1)), color=colour, linewidth=0.7, rasterized=True
    )
    axes.set(xlabel="frequency $f$ (a step)", ylabel="power $S$", ylim=(top * 10.0**-decades, 5 * top), xlim=(0, 0.5))
    return axes


def portrait_slider(
    parameter: Numbers,
    portraits: Numbers,
    frequencies: Numbers,
    powers: Numbers,
    *,
    regimes: Sequence[str],
    names: Sequence[str] | None = None,
    first: int = 0,
    shown: Sequence[int] = (0,),
    decades: float = 10.0,
    description: str,
) -> Slider:
    r"""Phase portraits `(networks, points, 2)` and spectra `(networks, bins)` by $\beta$.

    Args:
        parameter: `(networks,)`.
        portraits: `(networks, points, 2)`, the two overlaps.
        frequencies: `(bins,)`.
        powers: `(networks, bins)`, positive.
        regimes: `(networks,)` names in `REGIME_COLOURS`.
        names: `(networks,)`, what is said of each beside the value; the regimes where None.
        first: the network shown at first.
        shown: networks in the picture for where no script runs, at most four.
        decades: how far below each largest value the spectra go.
        description: alternative text.

    Returns:
        `Slider`.

    Raises:
        ValueError: shapes that do not fit each other, an unknown regime, a network that there is not, numbers that are
            not finite.
    """
    parameter = np.asarray(parameter, float)
    portraits = np.asarray(checks.array("portraits", portraits, "networks points 2"))
    powers = np.asarray(checks.array("powers", powers, "networks bins"))
    wanted, got = (len(parameter), 2, len(parameter), np.size(frequencies)), (*portraits.shape[::2], *powers.shape)
    if got != wanted or len(regimes) != len(parameter):
        raise ValueError(
            f"portraits, powers, regimes: wanted one of each for {len(parameter)} values of the parameter, "
            f"got {portraits.shape}, {powers.shape} and {len(regimes)}."
        )
    if not set(regimes) <= set(REGIME_COLOURS):
        raise ValueError(f"regimes: wanted names out of {list(REGIME_COLOURS)}, got {sorted(set(regimes))}.")
    if powers.min() <= 0:
        raise ValueError(f"powers: wanted positive numbers, got {powers.min()}. Give them a floor.")
    if not all(0 <= place < len(parameter) for place in shown):
        raise ValueError(f"shown: wanted numbers of networks in 0..{len(parameter) - 1}, got {list(shown)}.")
    ends = [(-_limit(points), _limit(points)) for points in portraits]
    frames, bins = [], (0, float(np.max(frequencies)))
    for regime, points, limits, power in zip(regimes, portraits, ends, powers, strict=True):
        few = len(np.unique(points.round(4), axis=0)) < 400  # periodic orbits have dots that are seen
        colours = {"": REGIME_COLOURS[regime]}
        lines = {"": (frequencies, np.log10(power / power.max()).clip(-decades, 0))}
        look: dict[str, Any] = dict(
            colours=colours, dots=5 if few else 2, ticks=(0.4 * limits[1], 0.2 * limits[1]), equal=True
        )
        left = Panel({"": points.T}, "overlap m₁", "overlap m₂", limits, limits, **look)
        look = dict(colours=colours, ticks=(bins[1] / 5, decades / 5))
        right = Panel(lines, "frequency (a step)", "log₁₀ power", bins, (-decades, 0), **look)
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
    """The end of an axis that holds all points: 1, 2 or 5 times a power of ten."""
    largest = max(float(np.max(np.abs(points))), 1e-12)
    power = np.floor(np.log10(largest))
    return next(float(f"{end}e{power:.0f}") for end in (1, 2, 5, 10) if end * 10.0**power >= largest)


def against_sites(
    sites: Numbers,
    values: Numbers,
    errors: Numbers | None = None,
    *,
    label: str,
    colour: str = "theory",
    style: str = "o",
    axes: Axes | None = None,
):
    """A quantity against the number of sites, both logarithmic.

    Args:
        sites: `(sizes,)`.
        values: `(sizes,)`.
        errors: `(sizes,)`, standard errors; none where None.
        label: for the legend.
        colour: a name in `COLOURS` or a Matplotlib colour.
        style: a Matplotlib format.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    axes.errorbar(sites, values, errors, fmt=style, color=COLOURS.get(colour, colour), label=label, capsize=2)
    axes.set(xscale="log", yscale="log", xlabel="sites $N$")
    return axes


def predicted_and_measured(
    places: Numbers,
    predicted: Numbers,
    measured_at: Numbers,
    measured: Numbers,
    *,
    label: str = "",
    colour: str = "theory",
    axes: Axes | None = None,
):
    """A prediction as a line, what is measured as dots of the same colour.

    Args:
        places: `(places,)`, where there is a prediction.
        predicted: `(places,)`.
        measured_at: `(dots,)`.
        measured: `(dots,)`.
        label: for the legend, common to both.
        colour: a name in `COLOURS` or a Matplotlib colour.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; the line, then the dots.
    """
    axes, colour = axes_or_new(axes), COLOURS.get(colour, colour)
    axes.plot(places, predicted, "-", color=colour, label=label or "_")
    axes.plot(measured_at, measured, "o", color=colour, markerfacecolor="white", linewidth=0)
    return axes
