"""Panels on chains of layers: order parameters of any chain, with what a skip keeps framed, and approaches to a limit."""

import itertools
from collections.abc import Mapping

import numpy as np
from matplotlib.patches import Rectangle

from statmech_attention import checks
from statmech_attention.layers import chain
from statmech_attention.plotting.matrices import order_parameter
from statmech_attention.plotting.sampling import distance_against_width

_NAMED = 16  # paths that still have room for their names


def chain_order_parameter(
    matrix, heads, *, layer: int = 1, limit: float | None = None, axes=None, annotate: bool | None = None
):
    """An order parameter of any chain as colours, one row and column a pair (partial path, output).

    A partial path is written as its heads counted from 1, with a dot where it passes through none, and then, behind a semicolon, the
    output where there are several. Where the layer has a skip, the block that it keeps from the layer above is framed.

    Args:
        matrix: $U^{(l)}$, `(rows, rows)`.
        heads: number of heads in every layer, or layers of other kinds among them.
        layer: $l$, from 1 to $L + 1$.
        limit: largest absolute value on the colour scale; that of the matrix where None.
        axes: Matplotlib axes; a new figure where None.
        annotate: write the values into the cells; only for up to 6 rows where None.

    Returns:
        The axes; their image is `axes.images[0]`.

    Raises:
        ValueError: a layer that the chain does not have, or a matrix whose size does not fit it.
    """
    layers, matrix = chain(heads), np.asarray(matrix)
    if not checks.is_whole(layer, 1) or layer > len(layers.kinds):
        raise ValueError(f"layer: wanted a whole number from 1 to {len(layers.kinds)}, got {layer!r}.")
    names = _partial_paths(layers, layer)
    if matrix.shape != (len(names),) * 2:
        raise ValueError(f"matrix: wanted shape {(len(names),) * 2} for layer {layer}, got {matrix.shape}.")
    axes = order_parameter(matrix, (len(names),), limit=limit, axes=axes, annotate=annotate)
    if len(names) <= _NAMED:
        axes.set_xticks(range(len(names)), names, rotation=90 if len(names) > 4 else 0, fontsize=9)
        axes.set_yticks(range(len(names)), names, fontsize=9)
    kind = layers.kinds[layer - 1]
    if kind.keeps:
        side = len(names) // kind.branches
        axes.add_patch(Rectangle((-0.5, -0.5), side, side, fill=False, edgecolor="black", linewidth=1.8, clip_on=False))
    return axes


def approach(values, distances: Mapping, *, xlabel: str, slope=None, axes=None):
    """How far networks are from a limit, against what takes them there, both logarithmic.

    Args:
        values: `(points,)`, positive.
        distances: by name `(points,)`, positive.
        xlabel: what the values are.
        slope: exponent of a power of the values to compare with, drawn at half the first name's distance at the smallest value.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: numbers of distances that do not fit the values.
    """
    values = np.asarray(values, float)
    for name, found in distances.items():
        if np.shape(found) != values.shape:
            raise ValueError(f"distances: wanted {len(values)} of {name!r}, one a value, got shape {np.shape(found)}.")
    axes = distance_against_width(values, distances, axes=axes)
    if slope is not None:
        first = np.asarray(next(iter(distances.values())), float)[np.argmin(values)]
        ends = np.array([values.min(), values.max()])
        axes.plot(ends, first / 2 * (ends / ends[0]) ** slope, ":", color="0.5", label=f"slope {slope:g}")
    axes.set_xlabel(xlabel)
    return axes


def _partial_paths(layers, first: int) -> list[str]:
    """Names of the rows of $U^{(l)}$, the first layer's branch being the slowest index and the output the fastest."""
    heads = [
        [str(head + 1) if head >= 0 else "·" for head in layer.branch_heads] for layer in layers.layers[first - 1 :]
    ]
    paths = [",".join(path) for path in itertools.product(*heads)]
    if not layers.readout.axes:
        return [f"({path})" for path in paths]
    return [f"({path};{output + 1})" for path in paths for output in range(layers.outputs)]
