"""Order parameters as matrices of colours."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike

from statmech_attention.layers import Kind, chain
from statmech_attention.model.paths import path_indices
from statmech_attention.plotting.style import axes_or_new, path_name, without_frame

_NAMED = 16  # paths that still have room for their names


def order_parameter(
    matrix: ArrayLike,
    *,
    layers: Sequence[int | Kind],
    limit: float | None = None,
    axes: Axes | None = None,
    annotate: bool | None = None,
):
    """Draw an order parameter as a matrix of colours, zero in white, one row and column per path.

    Args:
        matrix: $U$, `(paths, paths)`; masked entries stay blank.
        layers: number of heads in every layer.
        limit: largest absolute value on the colour scale; if None, that of the matrix.
        axes: Matplotlib axes; if None, a new figure.
        annotate: write the values into the cells; if None, only for up to 6 paths.

    Returns:
        The axes; their image is `axes.images[0]`.

    Raises:
        ValueError: a matrix whose size does not fit the layers.
    """
    matrix, paths = np.ma.asarray(matrix), path_indices(layers)
    if matrix.shape != (len(paths), len(paths)):
        raise ValueError(
            f"matrix: wanted shape {(len(paths),) * 2} for layers {chain(layers).spelled}, got {matrix.shape}."
        )
    return coloured(matrix, [path_name(path) for path in paths], limit, axes, annotate)


def coloured(matrix, names: list[str], limit: float | None, axes, annotate: bool | None):
    """Draw a matrix as colours, with the names of its rows and columns where there is room."""
    axes = axes_or_new(axes, figsize=(3.6, 3.2))
    limit = np.abs(matrix).max() or 1.0 if limit is None else limit
    axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    without_frame(axes)
    named = names if len(names) <= _NAMED else []
    name_rows(axes, range(len(named)), named)
    if annotate or (annotate is None and len(names) <= 6):
        for (row, column), value in np.ma.ndenumerate(matrix):  # without masked entries
            colour = "white" if abs(value) > 0.6 * limit else "black"
            axes.text(column, row, _short(value), ha="center", va="center", fontsize=9, color=colour)
    return axes


def name_rows(axes, places, names: list[str]) -> None:
    """Write names beside rows and below columns."""
    axes.set_xticks(places, names, rotation=90 if len(names) > 4 else 0, fontsize=9)
    axes.set_yticks(places, names, fontsize=9)


def _short(value: float) -> str:
    """Format a number with at most five characters."""
    digits = 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text
