"""Panels on the regimes of the dynamics: portraits, spectra, diagrams, exponents, multipliers."""

from collections.abc import Mapping, Sequence

import numpy as np

from statmech_attention import checks
from statmech_attention.plotting.dynamics import FEATURE_COLOURS
from statmech_attention.plotting.interactive import Panel, Slider, slider
from statmech_attention.plotting.panels import new_figure
from statmech_attention.plotting.style import axes_or_new

# By the names of `dmft.Regime`; other colours than those of `COLOURS`, which stand for other things.
REGIME_COLOURS = {
    "periodic": "#332288",
    "quasi-periodic": "#44AA99",
    "chaotic": "#CC3311",
    "hyperchaotic": "#AA3377",
    "undecided": "#999999",
}
REGIMES = tuple(REGIME_COLOURS)
_DARK = "#333333"
_FEW = 80  # values, below which a network counts as periodic where nobody says
_MANY = 200_000  # dots, above which neighbours are drawn as one


def phase_portrait(first, second, *, regime: str | None = None, axes=None):
    """One overlap against another, a dot a step.

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
    colour = REGIME_COLOURS.get(regime, _DARK)
    axes.plot(*points.T, "o" if few else ".", color=colour, markersize=4 if few else 0.8, rasterized=True, linewidth=0)
    axes.set(xlabel="$m^o_1$", ylabel="$m^o_2$")
    axes.ticklabel_format(style="plain", useOffset=False)
    return axes


def spectrum(frequencies, power, *, regime: str | None = None, decades: float = 12.0, axes=None):
    """A power spectrum, logarithmic, without frequency zero.

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
    colour = REGIME_COLOURS.get(regime, _DARK)
    axes.semilogy(
        frequencies, np.maximum(power, top * 10.0 ** -(decades + 1)), color=colour, linewidth=0.7, rasterized=True
    )
    axes.set(xlabel="frequency $f$ (a step)", ylabel="power $S$", ylim=(top * 10.0**-decades, 5 * top), xlim=(0, 0.5))
    return axes


def portrait_slider(
    parameter,
    portraits,
    frequencies,
    powers,
    *,
    regimes: Sequence[str],
    names: Sequence[str] | None = None,
    first: int = 0,
    shown: Sequence[int] = (0,),
    decades: float = 10.0,
    description: str,
) -> Slider:
    """Phase portrait and power spectrum, one a value of the inverse temperature that a slider goes through.

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
    wanted, got = (len(parameter), 2, len(parameter), len(frequencies)), (*portraits.shape[::2], *powers.shape)
    if got != wanted or len(regimes) != len(parameter):
        raise ValueError(
            f"portraits, powers, regimes: wanted one of each for {len(parameter)} values of the parameter, "
            f"got {portraits.shape}, {powers.shape} and {len(regimes)}."
        )
    if not set(regimes) <= set(REGIME_COLOURS):
        raise ValueError(f"regimes: wanted names out of {list(REGIME_COLOURS)}, got {sorted(set(regimes))}.")
    if not all(0 <= place < len(parameter) for place in shown):
        raise ValueError(f"shown: wanted numbers of networks in 0..{len(parameter) - 1}, got {list(shown)}.")
    ends = [(-_limit(points), _limit(points)) for points in portraits]
    frames, bins = [], (0, float(np.max(frequencies)))
    for regime, points, limits, power in zip(regimes, portraits, ends, powers, strict=True):
        few = len(np.unique(points.round(4), axis=0)) < 400  # periodic orbits have dots that are seen
        colours = {"": REGIME_COLOURS[regime]}
        lines = {"": (frequencies, np.log10(power / power.max()).clip(-decades, 0))}
        left = Panel({"": points.T}, "overlap m₁", "overlap m₂", limits, limits, colours=colours, dots=5 if few else 2)
        right = Panel(lines, "frequency (a step)", "log₁₀ power", bins, (-decades, 0), colours=colours)
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


def bifurcation(parameter, visited, values, *, regimes=None, sections=None, axes=None):
    """Values that an overlap visits against a parameter: all of them pale, a section through them dark, or by regime.

    Args:
        parameter: `(networks,)`.
        visited: `(networks, levels)`, whether a value is taken.
        values: `(levels,)`.
        regimes: `(networks,)` numbers of `dmft.Regime`; one dark colour where None.
        sections: `(networks, levels)`, drawn on top; where None, everything visited is drawn in the regime's colour. Networks
            that are periodic are drawn whole; without regimes, those that visit fewer than 80 values.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes, with one legend entry a regime.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    parameter, visited, values = np.asarray(parameter), np.asarray(visited), np.asarray(values)
    if visited.shape != (len(parameter), len(values)):
        raise ValueError(f"visited: wanted shape {(len(parameter), len(values))}, got {visited.shape}.")
    axes = axes_or_new(axes)
    shown = visited
    if sections is not None:
        shown = np.asarray(sections)
        if regimes is None:
            shown = np.where(visited.sum(axis=1, keepdims=True) < _FEW, visited, shown)
        place, level = _dots(visited)
        axes.plot(
            parameter[place], values[level], ".", color="0.86", markersize=0.8, markeredgewidth=0, rasterized=True
        )
    groups = [(None, np.ones(len(parameter), bool))]
    if regimes is not None:
        groups = [(REGIMES[number], np.asarray(regimes) == number) for number in np.unique(regimes)]
    for name, mine in groups:
        place, level = _dots((visited if name == "periodic" else shown) & mine[:, None])
        colour = REGIME_COLOURS.get(name, _DARK)
        axes.plot(
            parameter[place], values[level], ".", color=colour, markersize=1.4, markeredgewidth=0, rasterized=True
        )
        if name is not None:
            axes.plot([], [], "o", color=colour, label=name)
    axes.set(xlabel=r"inverse temperature $\beta$", ylabel="$m^o$")
    return axes


def _dots(table):
    """Row and column of true entries; of very many, one in each cell of a grid finer than a page shows."""
    place, level = np.nonzero(table)
    if len(place) > _MANY:
        cells = [numbers * 1000 // size for numbers, size in zip((place, level), table.shape, strict=True)]
        first = np.unique(cells[0] * 1000 + cells[1], return_index=True)[1]
        place, level = place[first], level[first]
    return place, level


def exponents(parameter, values, errors=None, *, regimes=None, axes=None):
    r"""Lyapunov exponents against a parameter, the largest on top.

    Args:
        parameter: `(networks,)`.
        values: `(networks, count)`.
        errors: `(networks, count)`, standard errors; none where None.
        regimes: `(networks,)` numbers of `dmft.Regime`, which colour the dots of the first exponent.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: values that do not fit the parameter.
    """
    parameter, values = np.asarray(parameter), np.asarray(values)
    if values.ndim != 2 or len(values) != len(parameter):
        raise ValueError(f"values: wanted shape ({len(parameter)}, count), got {values.shape}.")
    axes = axes_or_new(axes)
    axes.axhline(0, color="0.6", linewidth=0.8, zorder=0)
    for number in reversed(range(values.shape[1])):
        error = None if errors is None else np.asarray(errors)[:, number]
        colour = FEATURE_COLOURS[number % len(FEATURE_COLOURS)]
        label = rf"$\lambda_{{{number + 1}}}$"
        if number == 0 and regimes is not None:
            axes.plot(parameter, values[:, 0], "-", color="0.75", linewidth=0.8, zorder=1)
            for kind in np.unique(regimes):
                mine = np.asarray(regimes) == kind
                look = {"color": REGIME_COLOURS[REGIMES[kind]], "label": rf"$\lambda_1$, {REGIMES[kind]}"}
                bar = None if error is None else error[mine]
                axes.errorbar(parameter[mine], values[mine, 0], bar, fmt="o", markersize=3, elinewidth=0.8, **look)
        else:
            axes.errorbar(parameter, values[:, number], error, color=colour, label=label, linewidth=1, elinewidth=0.8)
    axes.set(xlabel=r"inverse temperature $\beta$", ylabel="Lyapunov exponent (a step)")
    return axes


def multipliers(values: Mapping, *, axes=None):
    """Multipliers in the complex plane with the unit circle: inside is stable.

    Args:
        values: complex numbers by name.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes, with one legend entry a name.
    """
    axes = axes_or_new(axes, figsize=(4.2, 4.2))
    angle = np.linspace(0, 2 * np.pi, 400)
    axes.plot(np.cos(angle), np.sin(angle), color="0.6", linewidth=0.9)
    axes.axhline(0, color="0.85", linewidth=0.8, zorder=0)
    axes.axvline(0, color="0.85", linewidth=0.8, zorder=0)
    for (name, numbers), marker in zip(values.items(), "oxs+^d", strict=False):
        numbers = np.asarray(numbers)
        axes.plot(numbers.real, numbers.imag, marker, label=name, markersize=6, markerfacecolor="none", linewidth=0)
    axes.set(xlabel="real part", ylabel="imaginary part", aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    return axes
