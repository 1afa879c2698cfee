"""Curves against the width and columns of dots, with standard errors over draws."""

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from statmech_attention.plotting.style import COLOURS, axes_or_new, powers_of_ten


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
    widths, values = np.asarray(widths, float), np.asarray(values)
    if values.ndim != 2 or values.shape[1] != len(widths):
        raise ValueError(f"values: wanted shape (draws, {len(widths)}), got {values.shape}.")
    axes, colour = axes_or_new(axes), COLOURS.get(colour, colour)
    mean, error = mean_and_error(values)
    order = np.argsort(widths)
    axes.plot(widths[order], mean[order], style, color=colour, label=label)
    axes.fill_between(widths[order], (mean - error)[order], (mean + error)[order], color=colour, alpha=0.2, linewidth=0)
    axes.set(xscale="log", xlabel="width $N$")
    powers_of_ten(axes.xaxis)
    return axes


def mean_and_error(values: ArrayLike):
    """Return the mean over draws, the first axis, and its standard error, zero for a single draw."""
    values = np.asarray(values, float)
    draws = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws) if draws > 1 else np.zeros(values.shape[1:])
    return values.mean(axis=0), error
