"""Figures of order parameters, of curves against the width, and of columns of dots."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from statmech_attention.layers import Chain, Kind
from statmech_attention.plotting.style import COLOURS, axes_or_new, path_name, powers_of_ten, without_frame

_NAMED = 16  # paths that still have room for their names


def order_parameter(
    matrix: ArrayLike,
    *,
    layers: Sequence[int | Kind],
    limit: float | None = None,
    axes: Axes | None = None,
    annotate: bool | None = None,
) -> Axes:
    """Draw an order parameter as a matrix of colours, zero in white, one row and column per path.

    Args:
        matrix: $U$, `(paths, paths)`; masked entries stay blank.
        layers: number of heads in every layer.
        limit: largest absolute value on the colour scale; if None, that of the matrix.
        axes: Matplotlib axes; if None, a new figure.
        annotate: write the values into the cells; if None, only for up to 6 paths.

    Raises:
        ValueError: a matrix whose size does not fit the layers.
    """
    matrix, names = np.ma.asarray(matrix), [path_name(path) for path in Chain.of(layers).path_heads]
    if matrix.shape != (len(names), len(names)):
        raise ValueError(f"matrix: wanted shape {(len(names),) * 2} for these layers, got {matrix.shape}.")
    axes = axes_or_new(axes, figsize=(3.6, 3.2))
    limit = np.abs(matrix).max() or 1.0 if limit is None else limit
    axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    without_frame(axes)
    named = names if len(names) <= _NAMED else []
    axes.set_xticks(range(len(named)), named, rotation=90 if len(named) > 4 else 0, fontsize=9)
    axes.set_yticks(range(len(named)), named, fontsize=9)
    if annotate or (annotate is None and len(names) <= 6):
        for (row, column), value in np.ma.ndenumerate(matrix):  # without masked entries
            colour = "white" if abs(value) > 0.6 * limit else "black"
            axes.text(column, row, short_number(value), ha="center", va="center", fontsize=9, color=colour)
    return axes


def short_number(value: float) -> str:
    """Format a number with at most five characters."""
    digits = 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text


def against_width(
    widths: ArrayLike,
    values: ArrayLike,
    *,
    label: str,
    colour: str = "theory",
    style: str = "o-",
    axes: Axes | None = None,
) -> Axes:
    """Draw the mean over draws of `values`, `(draws, widths)`, against the width, with a band of one standard error.

    `colour` is a name in `COLOURS` or a colour of Matplotlib, `style` a format of Matplotlib.
    """
    widths, colour, axes = np.asarray(widths, float), COLOURS.get(colour, colour), axes_or_new(axes)
    mean, error = mean_and_error(values)
    order = np.argsort(widths)
    axes.plot(widths[order], mean[order], style, color=colour, label=label)
    axes.fill_between(widths[order], (mean - error)[order], (mean + error)[order], color=colour, alpha=0.2, linewidth=0)
    axes.set(xscale="log", xlabel="width $N$")
    powers_of_ten(axes.xaxis)
    return axes


def groups(
    values: ArrayLike, names: Sequence[str], *, colours: Sequence[str] | None = None, axes: Axes | None = None
) -> Axes:
    """Draw `values`, `(draws, groups)`, as a column of dots per group, with the mean and its standard error.

    `colours` are names in `COLOURS` or colours of Matplotlib, one per group; line `2 g` of the axes
    holds the dots of group `g`.
    """
    values, axes = np.asarray(values, float), axes_or_new(axes)
    mean, error = mean_and_error(values)
    for place, colour in enumerate(["neutral"] * len(names) if colours is None else colours):
        colour = COLOURS.get(colour, colour)
        places = place + np.linspace(-0.2, 0.2, len(values))
        axes.plot(places, values[:, place], "o", markersize=4, color=colour, alpha=0.45)
        axes.errorbar(
            place, mean[place], error[place], color=colour, fmt="_", markersize=28, capsize=5, markeredgewidth=2
        )
    axes.set_xticks(range(len(names)), names)
    return axes


def mean_and_error(values: ArrayLike):
    """Return the mean over draws, the first axis, and its standard error, zero for a single draw."""
    values = np.asarray(values, float)
    draws = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws) if draws > 1 else np.zeros(values.shape[1:])
    return values.mean(axis=0), error
