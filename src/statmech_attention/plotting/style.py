"""The style of the figures: one style sheet, one colour per quantity."""

from collections.abc import Sequence
from importlib import resources

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

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

# For figures of other quantities (Tol 2021).
MUTED = {
    "indigo": "#332288",
    "cyan": "#88CCEE",
    "teal": "#44AA99",
    "green": "#117733",
    "rose": "#CC6677",
    "wine": "#882255",
    "purple": "#AA4499",
}
DARK = "#333333"  # outlines, arrows and neutral dots


def use_style() -> None:
    """Draw all further figures in the style of the book."""
    plt.style.use(str(resources.files("statmech_attention.plotting") / "book.mplstyle"))


def axes_or_new(axes, **size):
    """Return the given Matplotlib axes, or those of a new figure made with `plt.subplots(**size)`."""
    return plt.subplots(**size)[1] if axes is None else axes


def powers_of_ten(axis) -> None:
    """Put ticks at 1 and 3 times the powers of ten of a logarithmic axis, written out."""
    axis.set_major_locator(LogLocator(subs=(1, 3)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def without_frame(axes) -> None:
    """Remove spines and ticks, around a matrix of colours."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def path_name(path: Sequence[int] | np.ndarray) -> str:
    """Return a path's name, its heads counted from 1: "1→2" for heads (0, 1)."""
    return "→".join(str(int(head) + 1) for head in path)
