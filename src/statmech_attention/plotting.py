"""Figures of order parameters and of curves against the width, in one style, with one colour per quantity."""

from collections.abc import Sequence
from importlib import resources

import numpy as np
from numpy.typing import ArrayLike

from statmech_attention.installed import need

need("plot", "plotting")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from statmech_attention.layers import Chain, Kind

__all__ = ["COLOURS", "against_width", "mean_and_error", "order_parameter", "path_name", "use_style"]

# Colours that most colour-blind readers can tell apart (Okabe and Ito 2008, Tol 2021); a quantity has the same colour
# in all figures: the theory, the GP limit, the exact posterior, samples of all weights, gradient descent, four paths.
COLOURS = {
    "theory": "#0072B2",
    "gp": "#D55E00",
    "exact": "#000000",
    "weights": "#882255",
    "descent": "#999933",
    "good": "#009E73",
    "denoising": "#56B4E9",
    "adversarial 1": "#8A2BE2",
    "adversarial 2": "#CC79A7",
    "neutral": "#4D4D4D",
    "state +": "#3B3B3B",
    "state -": "#DCDCDC",
}
_NAMED = 16  # paths that still have room for their names


def use_style() -> None:
    """Draw all further figures in the style of the book."""
    plt.style.use(str(resources.files("statmech_attention") / "book.mplstyle"))


def axes_or_new(axes, **size):
    """Return the given Matplotlib axes, or those of a new figure made with `plt.subplots(**size)`."""
    return plt.subplots(**size)[1] if axes is None else axes


def path_name(path: Sequence[int] | np.ndarray) -> str:
    """Return a path's name, its heads counted from 1: "1→2" for heads (0, 1)."""
    return "→".join(str(int(head) + 1) for head in path)


def order_parameter(
    matrix: ArrayLike,
    *,
    layers: Sequence[int | Kind],
    limit: float | None = None,
    axes: Axes | None = None,
    annotate: bool | None = None,
) -> Axes:
    """Draw an order parameter as a matrix of colours, zero in white, one row and column per path.

    Args:
        matrix: $U$, `(paths, paths)`; masked entries stay blank.
        layers: number of heads in every layer.
        limit: largest absolute value on the colour scale; if None, that of the matrix.
        axes: Matplotlib axes; if None, a new figure.
        annotate: write the values into the cells; if None, only for up to 6 paths.

    Raises:
        ValueError: a matrix whose size does not fit the layers.
    """
    matrix, names = np.ma.asarray(matrix), [path_name(path) for path in Chain.of(layers).path_heads]
    if matrix.shape != (len(names), len(names)):
        raise ValueError(f"matrix: wanted shape {(len(names),) * 2} for these layers, got {matrix.shape}.")
    axes = axes_or_new(axes, figsize=(3.6, 3.2))
    limit = np.abs(matrix).max() or 1.0 if limit is None else limit
    axes.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    named = names if len(names) <= _NAMED else []
    axes.set_xticks(range(len(named)), named, rotation=90 if len(named) > 4 else 0, fontsize=9)
    axes.set_yticks(range(len(named)), named, fontsize=9)
    if annotate or (annotate is None and len(names) <= 6):
        for (row, column), value in np.ma.ndenumerate(matrix):  # without masked entries
            colour = "white" if abs(value) > 0.6 * limit else "black"
            axes.text(column, row, short_number(value), ha="center", va="center", fontsize=9, color=colour)
    return axes


def short_number(value: float) -> str:
    """Format a number with at most five characters."""
    digits = 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text


def against_width(
    widths: ArrayLike,
    values: ArrayLike,
    *,
    label: str,
    colour: str = "theory",
    style: str = "o-",
    axes: Axes | None = None,
) -> Axes:
    """Draw the mean over draws of `values`, `(draws, widths)`, against the width, with a band of one standard error.

    `colour` is a name in `COLOURS` or a colour of Matplotlib, `style` a format of Matplotlib.
    """
    widths, colour, axes = np.asarray(widths, float), COLOURS.get(colour, colour), axes_or_new(axes)
    mean, error = mean_and_error(values)
    order = np.argsort(widths)
    axes.plot(widths[order], mean[order], style, color=colour, label=label)
    axes.fill_between(widths[order], (mean - error)[order], (mean + error)[order], color=colour, alpha=0.2, linewidth=0)
    axes.update_datalim([(width, 0.0) for width in widths], updatey=False)  # the axis has them where no value is known
    axes.set(xscale="log", xlabel="width $N$")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    return axes


def mean_and_error(values: ArrayLike):
    """Return the mean over draws, the first axis, and its standard error, zero for a single draw."""
    values = np.asarray(values, float)
    draws = len(values)
    error = values.std(axis=0, ddof=1) / np.sqrt(draws) if draws > 1 else np.zeros(values.shape[1:])
    return values.mean(axis=0), error
