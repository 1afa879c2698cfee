"""Panels of the result figures: one function a panel, each draws into given axes and returns them."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from statmech_attention.arguments import Axes, Numbers
from statmech_attention.plotting.style import COLOURS, axes_or_new, powers_of_ten


def against_width(
    widths: Numbers, values: Numbers, *, label: str, colour: str = "theory", style: str = "o-", axes: Axes | None = None
):
    """A quantity against the width, the mean over draws with its standard error as a band.

    Args:
        widths: `(widths,)`.
        values: `(draws, widths)`.
        label: for the legend.
        colour: a name in `COLOURS` or a Matplotlib colour.
        style: a Matplotlib format.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes, with a logarithmic width axis.

    Raises:
        ValueError: values that do not fit the widths.
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


def reference_line(values: Numbers, *, label: str, colour: str = "gp", style: str = "-", axes: Axes | None = None):
    """A quantity that does not depend on the width: a horizontal line with a band of one standard error.

    Args:
        values: `(draws,)`.
        label: for the legend.
        colour: a name in `COLOURS` or a Matplotlib colour.
        style: Matplotlib line style.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.
    """
    axes, colour = axes_or_new(axes), COLOURS.get(colour, colour)
    mean, error = mean_and_error(np.asarray(values)[:, None])
    axes.axhline(mean[0], linestyle=style, color=colour, label=label)
    axes.axhspan(mean[0] - error[0], mean[0] + error[0], color=colour, alpha=0.12, linewidth=0)
    return axes


def principal_overlaps(
    overlaps: Numbers, *, label: str, colour: str = "theory", count: int = 20, axes: Axes | None = None
):
    """Overlap of the leading principal components with the labels, against their rank.

    Args:
        overlaps: `(draws, examples)`, largest eigenvalue first.
        label: for the legend.
        colour: a name in `COLOURS` or a Matplotlib colour.
        count: how many components to show.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.
    """
    axes, colour = axes_or_new(axes), COLOURS.get(colour, colour)
    mean, error = mean_and_error(np.asarray(overlaps)[:, :count])
    rank = np.arange(1, len(mean) + 1)
    axes.errorbar(rank, mean, error, fmt="o-", color=colour, label=label, capsize=2)
    axes.set(xlabel="rank of the principal component", ylabel=r"overlap $|v_i \cdot Y|/|Y|$", ylim=(0, None))
    axes.locator_params("x", integer=True)
    return axes


def groups(values: Numbers, names: Sequence[str], *, colours: Sequence[str] | None = None, axes: Axes | None = None):
    """One column of dots a group, a dot a draw, with the mean and its standard error as a bar.

    Args:
        values: `(draws, groups)`.
        names: one text a group.
        colours: one name in `COLOURS` or Matplotlib colour a group.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; line `2 g` holds the dots of group `g`.

    Raises:
        ValueError: values, names and colours that do not fit each other.
    """
    values = np.asarray(values, float)
    colours = ["neutral"] * len(names) if colours is None else colours
    if values.ndim != 2 or values.shape[1] != len(names) or len(colours) != len(names):
        raise ValueError(
            f"groups: wanted values of shape (draws, groups) and one name and colour a group, "
            f"got values {values.shape}, {len(names)} names, {len(colours)} colours."
        )
    axes = axes_or_new(axes)
    mean, error = mean_and_error(values)
    for place, colour in enumerate(COLOURS.get(colour, colour) for colour in colours):
        axes.plot(
            place + np.linspace(-0.2, 0.2, len(values)), values[:, place], "o", markersize=4, color=colour, alpha=0.45
        )
        axes.errorbar(
            place, mean[place], error[place], fmt="_", markersize=28, color=colour, capsize=5, markeredgewidth=2
        )
    axes.set_xticks(range(len(names)), names)
    return axes


def legend_above(axes: Axes, columns: int = 2) -> None:
    """A legend above the panel, where it covers no data.

    Args:
        axes: Matplotlib axes whose artists have labels.
        columns: columns of the legend.
    """
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=columns, borderaxespad=0, columnspacing=1.2)


def mean_and_error(values: Numbers):
    """Mean over draws and its standard error; no error where there is one draw.

    Args:
        values: `(draws, ..)`.

    Returns:
        Two arrays `(..)`.
    """
    values = np.asarray(values, float)
    draws = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws) if draws > 1 else np.zeros(values.shape[1:])
    return values.mean(axis=0), error


def label_panels(axes: Any) -> None:
    """Letters (a), (b), .. in the upper left corners of panels.

    Args:
        axes: Matplotlib axes, in reading order.
    """
    for letter, panel in zip("abcdefghij", np.ravel(axes), strict=False):
        panel.set_title(f"({letter})", loc="left", fontweight="bold")


def new_figure(rows: int = 1, columns: int = 1, **options: Any):
    """`plt.subplots` with the book's margins.

    Args:
        rows: rows of panels.
        columns: columns of panels.
        **options: further arguments of `plt.subplots`.

    Returns:
        Figure and axes.
    """
    return plt.subplots(rows, columns, layout="constrained", **options)
