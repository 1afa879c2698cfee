"""Panels on several classes: chains of states on a ring, order parameters over pairs (path, output)."""

from collections.abc import Sequence

import numpy as np

from statmech_attention.layers.chains import chain
from statmech_attention.plotting.matrices import order_parameter
from statmech_attention.plotting.style import axes_or_new, path_name


def state_rows(hidden, *, labels: Sequence[str] = (), axes=None):
    """Chains of hidden states as rows of cells, a shade of grey for each state, with its number written in it.

    Args:
        hidden: `(chains, length)`, states 0, 1, ..
        labels: one text a chain, to its left.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; their image is `axes.images[0]`.

    Raises:
        ValueError: not one row of states a chain.
    """
    hidden = np.asarray(hidden)
    if hidden.ndim != 2 or not np.issubdtype(hidden.dtype, np.integer) or hidden.min() < 0:
        raise ValueError(
            f"hidden: wanted states 0, 1, .. of shape (chains, length), got {hidden.dtype} of shape {hidden.shape}."
        )
    axes = axes_or_new(axes, figsize=(6.6, 0.28 * len(hidden) + 0.2))
    top = max(int(hidden.max()), 1)
    axes.imshow(hidden, cmap="Greys", vmin=-0.3, vmax=1.3 * top, aspect="auto")
    for (row, time), state in np.ndenumerate(hidden):
        colour = "white" if state > 0.6 * top else "black"
        axes.text(time, row, f"{state}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_yticks(range(len(hidden)), list(labels) or [""] * len(hidden))
    axes.set(xlabel="step $t$")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return axes


def output_order_parameter(matrix, heads, *, limit: float | None = None, axes=None):
    """An order parameter over pairs (path, output) as a matrix of colours, zero in white; lines part the paths.

    Args:
        matrix: $U$, `(paths * outputs, paths * outputs)`, the output being the faster index.
        heads: number of heads in every layer, with `Outputs` last.
        limit: largest absolute value on the colour scale; that of the matrix where None.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; their image is `axes.images[0]`.

    Raises:
        ValueError: a matrix whose size does not fit the heads.
    """
    matrix, layers = np.asarray(matrix), chain(heads)
    size, outputs = layers.paths * layers.outputs, layers.outputs
    if matrix.shape != (size, size):
        raise ValueError(f"matrix: wanted shape {(size, size)} for heads {layers.spelled}, got {matrix.shape}.")
    axes = axes_or_new(axes, figsize=(4.2, 3.8))
    order_parameter(matrix, (size,), limit=limit, axes=axes, annotate=False)
    for border in outputs * np.arange(1, layers.paths) - 0.5:
        for line in (axes.axhline, axes.axvline):
            line(border, color="0.6", linewidth=0.6)
    names = [path_name(path) for path in layers.path_heads]
    middles = outputs * (np.arange(layers.paths) + 0.5) - 0.5
    axes.set_xticks(middles, names, rotation=90 if layers.paths > 4 else 0, fontsize=9)
    axes.set_yticks(middles, names, fontsize=9)
    return axes
