"""Curves against the width and columns of dots, with standard errors over draws."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from statmech_attention.plotting.style import axes_or_new, colour_of, powers_of_ten


def against_width(
    widths: ArrayLike,
    values: ArrayLike,
    *,
    label: str,
    colour: str = "theory",
    style: str = "o-",
    axes: Axes | None = None,
):
    """Draw a quantity, such as the accuracy, against the width: its mean over draws, the standard error as a band.

    Args:
        widths: `(widths,)`.
        values: `(draws, widths)`.
        label: for the legend.
        colour: a name in `COLOURS` or a Matplotlib colour.
        style: a Matplotlib format.
        axes: Matplotlib axes; if None, a new figure.

    Returns:
        The axes, with a logarithmic width axis.

    Raises:
        ValueError: values whose shape does not fit the widths.
    """
    widths, values, colour = np.asarray(widths, float), np.asarray(values, float), colour_of("colour", colour)
    if values.ndim != 2 or values.shape[1] != len(widths):
        raise ValueError(f"values: wanted shape (draws, {len(widths)}), got {values.shape}.")
    axes = axes_or_new(axes)
    mean, error = mean_and_error(values)
    order = np.argsort(widths)
    axes.plot(widths[order], mean[order], style, color=colour, label=label)
    axes.fill_between(widths[order], (mean - error)[order], (mean + error)[order], color=colour, alpha=0.2, linewidth=0)
    axes.set(xscale="log", xlabel="width $N$")
    powers_of_ten(axes.xaxis)
    return axes


def groups(
    values: ArrayLike,
    names: Sequence[str],
    *,
    colours: Sequence[str] | None = None,
    axes: Axes | None = None,
):
    """Draw one column of dots per group, such as the scores of each head, with the mean and its standard error.

    Args:
        values: `(draws, groups)`.
        names: of the groups.
        colours: one name in `COLOURS` or Matplotlib colour per group.
        axes: Matplotlib axes; if None, a new figure.

    Returns:
        The axes; line `2 g` holds the dots of group `g`.

    Raises:
        ValueError: values, names and colours that do not fit each other.
    """
    values, colours = np.asarray(values, float), ["neutral"] * len(names) if colours is None else list(colours)
    if values.shape[1:] != (len(names),) or len(colours) != len(names):
        raise ValueError(
            f"groups: wanted values of shape (draws, groups) and one name and colour a group, "
            f"got values {values.shape}, {len(names)} names, {len(colours)} colours."
        )
    colours, axes = [colour_of("colours", colour) for colour in colours], axes_or_new(axes)
    mean, error = mean_and_error(values)
    for place, colour in enumerate(colours):
        axes.plot(
            place + np.linspace(-0.2, 0.2, len(values)), values[:, place], "o", markersize=4, color=colour, alpha=0.45
        )
        axes.errorbar(
            place, mean[place], error[place], fmt="_", markersize=28, color=colour, capsize=5, markeredgewidth=2
        )
    axes.set_xticks(range(len(names)), names)
    return axes


def mean_and_error(values: ArrayLike):
    """Return the mean over draws, the first axis, and its standard error, zero for a single draw."""
    values = np.asarray(values, float)
    draws = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws) if draws > 1 else np.zeros(values.shape[1:])
    return values.mean(axis=0), error
