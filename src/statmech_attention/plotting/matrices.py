"""Panels that show a matrix as colours: order parameters, kernels, attention."""

import numpy as np
from matplotlib.colors import PowerNorm

from statmech_attention.model.paths import path_indices
from statmech_attention.plotting.style import axes_or_new, path_name


def order_parameter(
    matrix,
    heads,
    *,
    limit: float | None = None,
    axes=None,
    annotate: bool | None = None,
):
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
    limit = np.abs(matrix).max() or 1.0 if limit is None else limit
    axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    if len(paths) <= 16:
        names = [path_name(path) for path in paths]
        axes.set_xticks(range(len(paths)), names, rotation=90 if len(paths) > 4 else 0, fontsize=9)
        axes.set_yticks(range(len(paths)), names, fontsize=9)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
    if annotate or (annotate is None and len(paths) <= 6):
        for (row, column), value in np.ndenumerate(matrix):
            colour = "white" if abs(value) > 0.6 * limit else "black"
            axes.text(
                column,
                row,
                _short(value),
                ha="center",
                va="center",
                fontsize=9,
                color=colour,
            )
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
    axes.spines[:].set_visible(False)
    axes.set_title(title)
    return axes


def attention_matrix(matrix, *, axes=None, title: str = ""):
    """An attention matrix: keys downwards, queries to the right, from 0 in white to 1 in black.

    The grey is that of the square root, so that a uniform head with its many small entries is not lost in white.

    Args:
        matrix: `(keys, queries)`.
        axes: Matplotlib axes; a new figure where None.
        title: above the panel.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes, figsize=(3.2, 3.2))
    axes.imshow(np.asarray(matrix), cmap="Greys", norm=PowerNorm(0.5, vmin=0, vmax=1))
    axes.spines[["top", "right"]].set_visible(True)
    axes.set(xlabel="query", ylabel="key", title=title)
    return axes


def _short(value: float) -> str:
    """A number of at most five characters."""
    digits = 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text
