"""Panels of the result figures: one function a panel, each draws into given axes and returns them."""

import matplotlib.pyplot as plt
import numpy as np

from statmech_attention.paths import path_indices
from statmech_attention.plotting.style import COLOURS, axes_or_new


def order_parameter(matrix, heads, *, limit: float | None = None, axes=None, annotate: bool | None = None):
    """An order parameter as a matrix of colours, zero in white, one row and column a path.

    Args:
        matrix: $U$, `(paths, paths)`.
        heads: number of heads in every layer.
        limit: largest absolute value on the colour scale; that of the matrix where None.
        axes: Matplotlib axes; a new figure where None.
        annotate: write the values into the cells; only for up to 6 paths where None.

    Returns:
        The axes; their image is `axes.images[0]`.

    Raises:
        ValueError: a matrix whose size does not fit the heads.
    """
    matrix, paths = np.asarray(matrix), path_indices(heads)
    if matrix.shape != (len(paths), len(paths)):
        raise ValueError(f"matrix: wanted shape {(len(paths),) * 2} for heads {tuple(heads)}, got {matrix.shape}.")
    axes = axes_or_new(axes, figsize=(3.6, 3.2))
    limit = np.abs(matrix).max() if limit is None else limit
    axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if len(paths) <= 16:
        names = ["".join(str(head + 1) for head in path) for path in paths]
        axes.set_xticks(range(len(paths)), names, rotation=90 if len(paths) > 6 else 0)
        axes.set_yticks(range(len(paths)), names)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
    if annotate or (annotate is None and len(paths) <= 6):
        for (row, column), value in np.ndenumerate(matrix):
            colour = "white" if abs(value) > 0.6 * limit else "black"
            axes.text(column, row, f"{value:.2g}", ha="center", va="center", fontsize=9, color=colour)
    return axes


def against_width(widths, values, *, label: str, colour: str = "theory", axes=None, style: str = "o-"):
    """A quantity against the width, the mean over draws with its standard error as a band.

    Args:
        widths: `(widths,)`.
        values: `(draws, widths)`.
        label: for the legend.
        colour: a name in `COLOURS` or a Matplotlib colour.
        axes: Matplotlib axes; a new figure where None.
        style: a Matplotlib format.

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
    return axes


def reference_line(values, *, label: str, colour: str = "gp", style: str = "-", axes=None):
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


def principal_overlaps(overlaps, *, label: str, colour: str = "theory", count: int = 20, axes=None):
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
    axes.xaxis.get_major_locator().set_params(integer=True)
    return axes


def kernel_matrix(kernel, labels, *, axes=None, title: str = ""):
    """A training kernel as a matrix of colours, examples sorted by class, each class with its own share.

    Args:
        kernel: `(examples, examples)`.
        labels: `(examples,)`, +1 and -1.
        axes: Matplotlib axes; a new figure where None.
        title: above the panel.

    Returns:
        The axes; the colour scale runs from the 1st to the 99th percentile of the entries.
    """
    kernel, labels = np.asarray(kernel), np.asarray(labels)
    axes = axes_or_new(axes, figsize=(3.4, 3.2))
    order = np.argsort(-labels, kind="stable")
    low, high = np.percentile(kernel, [1, 99])
    axes.imshow(kernel[np.ix_(order, order)], cmap="viridis", vmin=low, vmax=high)
    border = np.sum(labels > 0) - 0.5
    for line in (axes.axhline, axes.axvline):
        line(border, color="white", linewidth=1.2)
    middles = [border / 2, (border + len(labels)) / 2]
    axes.set_xticks(middles, ["$+$", "$-$"])
    axes.set_yticks(middles, ["$+$", "$-$"])
    axes.tick_params(length=0)
    axes.set_title(title)
    return axes


def attention_matrix(matrix, *, axes=None, title: str = ""):
    """An attention matrix: keys downwards, queries to the right, from 0 in white to 1 in black.

    Args:
        matrix: `(keys, queries)`.
        axes: Matplotlib axes; a new figure where None.
        title: above the panel.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes, figsize=(3.2, 3.2))
    axes.imshow(np.asarray(matrix), cmap="Greys", vmin=0, vmax=1)
    axes.set(xlabel="query", ylabel="key", title=title)
    return axes


def mean_and_error(values):
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


def label_panels(axes) -> None:
    """Letters (a), (b), .. in the upper left corners of panels.

    Args:
        axes: Matplotlib axes, in reading order.
    """
    for letter, panel in zip("abcdefghij", np.ravel(axes), strict=False):
        panel.set_title(f"({letter})", loc="left", fontweight="bold")


def new_figure(rows: int = 1, columns: int = 1, **options):
    """`plt.subplots` with the book's margins.

    Args:
        rows: rows of panels.
        columns: columns of panels.
        **options: further arguments of `plt.subplots`.

    Returns:
        Figure and axes.
    """
    return plt.subplots(rows, columns, layout="constrained", **options)
