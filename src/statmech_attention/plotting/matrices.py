"""Panels that show a matrix as colours: order parameters, kernels, attention."""

import itertools

import numpy as np
from matplotlib.colors import PowerNorm
from matplotlib.patches import Rectangle

from statmech_attention.arguments import Axes, Layers, Numbers
from statmech_attention.layers.chains import chain
from statmech_attention.model.paths import path_indices
from statmech_attention.plotting.style import axes_or_new, path_name, without_frame

_NAMED = 16  # paths that still have room for their names


def order_parameter(
    matrix: Numbers,
    *,
    layers: Layers,
    limit: float | None = None,
    axes: Axes | None = None,
    annotate: bool | None = None,
):
    """An order parameter as a matrix of colours, zero in white, one row and column a path.

    Args:
        matrix: $U$, `(paths, paths)`.
        layers: number of heads in every layer.
        limit: largest absolute value on the colour scale; that of the matrix where None.
        axes: Matplotlib axes; a new figure where None.
        annotate: write the values into the cells; only for up to 6 paths where None.

    Returns:
        The axes; their image is `axes.images[0]`.

    Raises:
        ValueError: a matrix whose size does not fit the heads.
    """
    matrix, paths = np.ma.asarray(matrix), path_indices(layers)
    if matrix.shape != (len(paths), len(paths)):
        raise ValueError(
            f"matrix: wanted shape {(len(paths),) * 2} for heads {chain(layers).spelled}, got {matrix.shape}."
        )
    return _coloured(matrix, [path_name(path) for path in paths], limit, axes, annotate)


def chain_order_parameter(
    matrix: Numbers,
    *,
    layers: Layers,
    layer: int = 1,
    limit: float | None = None,
    axes: Axes | None = None,
    annotate: bool | None = None,
):
    """An order parameter of any chain as colours, one row and column a pair (partial path, output).

    A partial path is written as its heads counted from 1, with a dot where it passes through none, and then, behind a semicolon, the
    output where there are several. Where the layer has a skip, the block that it keeps from the layer above is framed.

    Args:
        matrix: $U^{(l)}$, `(rows, rows)`.
        layers: number of heads in every layer, or layers of other kinds among them.
        layer: $l$, from 1 to $L + 1$.
        limit: largest absolute value on the colour scale; that of the matrix where None.
        axes: Matplotlib axes; a new figure where None.
        annotate: write the values into the cells; only for up to 6 rows where None.

    Returns:
        The axes; their image is `axes.images[0]`.

    Raises:
        ValueError: a layer that the chain does not have, or a matrix whose size does not fit it.
    """
    layers, matrix = chain(layers), np.asarray(matrix)
    if layer not in range(1, len(layers.kinds) + 1):
        raise ValueError(f"layer: wanted a whole number from 1 to {len(layers.kinds)}, got {layer!r}.")
    names = _partial_paths(layers, layer)
    if matrix.shape != (len(names),) * 2:
        raise ValueError(f"matrix: wanted shape {(len(names),) * 2} for layer {layer}, got {matrix.shape}.")
    axes = _coloured(matrix, names, limit, axes, annotate)
    kind = layers.kinds[layer - 1]
    if kind.keeps:
        _framed(axes, 0, len(names) // kind.branches, edgecolor="black", linewidth=1.8, clip_on=False)
    return axes


def output_order_parameter(matrix: Numbers, *, layers: Layers, limit: float | None = None, axes: Axes | None = None):
    """An order parameter over pairs (path, output) as a matrix of colours, zero in white; lines part the paths.

    Args:
        matrix: $U$, `(paths * outputs, paths * outputs)`, the output being the faster index.
        layers: number of heads in every layer, with `Outputs` last.
        limit: largest absolute value on the colour scale; that of the matrix where None.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; their image is `axes.images[0]`.

    Raises:
        ValueError: a matrix whose size does not fit the heads.
    """
    matrix, layers = np.asarray(matrix), chain(layers)
    size, outputs = layers.paths * layers.outputs, layers.outputs
    if matrix.shape != (size, size):
        raise ValueError(f"matrix: wanted shape {(size, size)} for heads {layers.spelled}, got {matrix.shape}.")
    axes = axes_or_new(axes, figsize=(4.2, 3.8))
    _coloured(matrix, [""] * size, limit, axes, annotate=False)
    for border in outputs * np.arange(1, layers.paths) - 0.5:
        for line in (axes.axhline, axes.axvline):
            line(border, color="0.6", linewidth=0.6)
    _named(axes, outputs * (np.arange(layers.paths) + 0.5) - 0.5, [path_name(path) for path in layers.path_heads])
    return axes


def path_blocks(
    matrix: Numbers, *, layers: Layers, limit: float | None = None, axes: Axes | None = None, title: str = ""
):
    """An order parameter as colours, with a frame around every block of paths through the same head, or skip, of layer 1.

    Args:
        matrix: $U$, `(paths, paths)`.
        layers: $(H_1, .., H_L)$, or layers of other kinds among them.
        limit: largest absolute value on the colour scale; that of the matrix where None.
        axes: Matplotlib axes; a new figure where None.
        title: above the panel.

    Returns:
        The axes.

    Raises:
        ValueError: a matrix whose size does not fit the heads.
    """
    axes = order_parameter(matrix, layers=layers, limit=limit, axes=axes, annotate=False)
    blocks = chain(layers).branches[0]
    side = len(np.asarray(matrix)) // blocks
    for block in range(blocks):
        _framed(axes, block * side, side, edgecolor="0.25", linewidth=0.9)
    axes.set_title(title)
    return axes


def path_correlations(
    matrix: Numbers, *, layers: Layers, limit: float = 1.0, axes: Axes | None = None, annotate: bool | None = None
):
    r"""Correlations $U_{\pi\pi'} / \sqrt{U_{\pi\pi} U_{\pi'\pi'}}$ of paths as a matrix of colours, the diagonal left blank.

    Args:
        matrix: $U$, `(paths, paths)`, with a positive diagonal.
        layers: number of heads in every layer.
        limit: largest absolute value on the colour scale.
        axes: Matplotlib axes; a new figure where None.
        annotate: write the values into the cells; only for up to 6 paths where None.

    Returns:
        The axes; their image is `axes.images[0]`.

    Raises:
        ValueError: a matrix whose size does not fit the heads, or a diagonal that is not positive.
    """
    matrix = np.asarray(matrix, float)
    if matrix.ndim != 2 or not (np.diagonal(matrix) > 0).all():
        raise ValueError(
            f"matrix: wanted a positive diagonal, got {np.diagonal(matrix) if matrix.ndim > 1 else matrix}."
        )
    size = np.sqrt(np.diagonal(matrix))
    correlations = np.ma.array(matrix / np.outer(size, size), mask=np.eye(len(matrix), dtype=bool))
    return order_parameter(correlations, layers=layers, limit=limit, axes=axes, annotate=annotate)


def kernel_matrix(
    kernel: Numbers,
    labels: Numbers,
    *,
    limits: tuple[float, float] | None = None,
    axes: Axes | None = None,
    title: str = "",
):
    """A training kernel as a matrix of colours, examples sorted by class, each class with its own share.

    Args:
        kernel: `(examples, examples)`.
        labels: `(examples,)`, +1 and -1.
        limits: ends of the colour scale; the 1st and the 99th percentile of the entries where None.
        axes: Matplotlib axes; a new figure where None.
        title: above the panel.

    Returns:
        The axes; their image is `axes.images[0]`.
    """
    kernel, labels = np.asarray(kernel), np.asarray(labels)
    axes = axes_or_new(axes, figsize=(3.4, 3.2))
    order = np.argsort(-labels, kind="stable")
    low, high = np.percentile(kernel, [1, 99]) if limits is None else limits
    axes.imshow(kernel[np.ix_(order, order)], cmap="viridis", vmin=low, vmax=high)
    border = np.sum(labels > 0) - 0.5
    for line in (axes.axhline, axes.axvline):
        line(border, color="white", linewidth=1.2)
    middles = [border / 2, (border + len(labels)) / 2]
    axes.set_xticks(middles, ["$+$", "$-$"])
    axes.set_yticks(middles, ["$+$", "$-$"])
    without_frame(axes)
    axes.set_title(title)
    return axes


def attention_matrix(matrix: Numbers, *, axes: Axes | None = None, title: str = ""):
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


def _coloured(matrix, names: list[str], limit: float | None, axes, annotate: bool | None):
    """A matrix as colours, its rows and columns named where there is room."""
    axes = axes_or_new(axes, figsize=(3.6, 3.2))
    limit = np.abs(matrix).max() or 1.0 if limit is None else limit
    axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    without_frame(axes)
    named = names if len(names) <= _NAMED else []
    _named(axes, range(len(named)), named)
    if annotate or (annotate is None and len(names) <= 6):
        for (row, column), value in np.ma.ndenumerate(matrix):  # what is masked stays blank
            colour = "white" if abs(value) > 0.6 * limit else "black"
            axes.text(column, row, _short(value), ha="center", va="center", fontsize=9, color=colour)
    return axes


def _named(axes, places, names: list[str]) -> None:
    axes.set_xticks(places, names, rotation=90 if len(names) > 4 else 0, fontsize=9)
    axes.set_yticks(places, names, fontsize=9)


def _framed(axes, first: int, side: int, **look) -> None:
    """A frame around a block on the diagonal."""
    axes.add_patch(Rectangle((first - 0.5, first - 0.5), side, side, fill=False, **look))


def _partial_paths(layers, first: int) -> list[str]:
    """Names of the rows of $U^{(l)}$, the first layer's branch being the slowest index and the output the fastest."""
    heads = [
        [str(head + 1) if head >= 0 else "·" for head in layer.branch_heads] for layer in layers.layers[first - 1 :]
    ]
    paths = [",".join(path) for path in itertools.product(*heads)]
    if not layers.readout.axes:
        return [f"({path})" for path in paths]
    return [f"({path};{output + 1})" for path in paths for output in range(layers.outputs)]


def _short(value: float) -> str:
    """A number of at most five characters."""
    digits = 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text
