"""Panels of results beside those of the library, and the names and colours of the book's tasks."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.patches import FancyArrowPatch, Rectangle
from numpy.typing import ArrayLike

from statmech_attention.layers import Chain, Kind
from statmech_attention.plotting import COLOURS, axes_or_new, mean_and_error, order_parameter

# For figures of other quantities (Tol 2021).
MUTED = {
    "indigo": "#332288",
    "teal": "#44AA99",
    "green": "#117733",
    "rose": "#CC6677",
}
DARK = "#333333"  # outlines, arrows and neutral dots

# By the names of `dmft.Regime`; other colours than those of `COLOURS`, which stand for other things.
REGIME_COLOURS = {
    "periodic": MUTED["indigo"],
    "quasi-periodic": MUTED["teal"],
    "chaotic": "#CC3311",
    "hyperchaotic": "#AA3377",
    "undecided": "#999999",
}
REGIMES = tuple(REGIME_COLOURS)

# Names of the four paths of the hidden Markov network, by their heads counted from 0.
HIDDEN_MARKOV_PATHS = {(0, 0): "good", (1, 0): "denoising", (0, 1): "adversarial 1", (1, 1): "adversarial 2"}


def path_blocks(
    matrix: ArrayLike,
    *,
    layers: Sequence[int | Kind],
    limit: float | None = None,
    axes: Axes | None = None,
    title: str = "",
):
    """Order parameter as colours, framed by the heads, or the skip, of layer 1."""
    axes = order_parameter(matrix, layers=layers, limit=limit, axes=axes, annotate=False)
    blocks = Chain.of(layers).branches[0]
    side = len(np.asarray(matrix)) // blocks
    for block in range(blocks):
        _frame(axes, block * side, side, edgecolor="0.25", linewidth=0.9)
    axes.set_title(title)
    return axes


def path_correlations(
    matrix: ArrayLike,
    *,
    layers: Sequence[int | Kind],
    limit: float = 1.0,
    axes: Axes | None = None,
    annotate: bool | None = None,
):
    r"""Correlations $U_{\pi\pi'} / \sqrt{U_{\pi\pi} U_{\pi'\pi'}}$ of paths as colours."""
    matrix = np.asarray(matrix, float)
    size = np.sqrt(np.diagonal(matrix))
    correlations = np.ma.array(matrix / np.outer(size, size), mask=np.eye(len(matrix), dtype=bool))
    return order_parameter(correlations, layers=layers, limit=limit, axes=axes, annotate=annotate)


def attention_matrix(matrix: ArrayLike, *, axes: Axes | None = None, title: str = ""):
    """Attention matrix `(keys, queries)`, 0 in white to 1 in black, on a square-root scale."""
    axes = axes_or_new(axes, figsize=(3.2, 3.2))
    axes.imshow(np.asarray(matrix), cmap="Greys", norm=PowerNorm(0.5, vmin=0, vmax=1))
    axes.spines[["top", "right"]].set_visible(True)
    axes.set(xlabel="query", ylabel="key", title=title)
    return axes


def principal_overlaps(
    overlaps: ArrayLike,
    *,
    label: str,
    colour: str = "theory",
    count: int = 20,
    axes: Axes | None = None,
):
    """Overlap `(draws, examples)` of the first principal components with the labels, by rank."""
    axes, colour = axes_or_new(axes), COLOURS.get(colour, colour)
    mean, error = mean_and_error(np.asarray(overlaps)[:, :count])
    rank = np.arange(1, len(mean) + 1)
    axes.errorbar(rank, mean, error, fmt="o-", color=colour, label=label, capsize=2)
    axes.set(xlabel="rank of the principal component", ylabel=r"overlap $|v_i \cdot Y|/|Y|$", ylim=(0, None))
    axes.locator_params("x", integer=True)
    return axes


def reference_line(values: ArrayLike, *, label: str, colour: str = "gp", style: str = "-", axes: Axes | None = None):
    """Quantity `(draws,)` that does not depend on the width: a horizontal line with a band of one standard error."""
    axes, colour = axes_or_new(axes), COLOURS.get(colour, colour)
    mean, error = mean_and_error(np.asarray(values)[:, None])
    axes.axhline(mean[0], linestyle=style, color=colour, label=label)
    axes.axhspan(mean[0] - error[0], mean[0] + error[0], color=colour, alpha=0.12, linewidth=0)
    return axes


def new_figure(rows: int = 1, columns: int = 1, **options: Any):
    """Return `plt.subplots` with constrained layout."""
    return plt.subplots(rows, columns, layout="constrained", **options)


def legend_above(axes: Axes, columns: int = 2) -> None:
    """Put the legend above the panel, where it covers no data."""
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.02), ncols=columns, borderaxespad=0, columnspacing=1.2)


def arrow(axes, start, end, *, size: int, colour: str = DARK, **look) -> None:
    """Draw an arrow whose head has `size` points."""
    usual: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": size, "color": colour, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch(start, end, **usual | look))


def _frame(axes, first: int, side: int, **look) -> None:
    """Frame a block on the diagonal."""
    axes.add_patch(Rectangle((first - 0.5, first - 0.5), side, side, fill=False, **look))


def groups(
    values: ArrayLike, names: Sequence[str], *, colours: Sequence[str] | None = None, axes: Axes | None = None
) -> Axes:
    """Columns of dots, the axis of draws first, one column per group, with means and standard errors."""
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
