"""The look of the book's figures: one style sheet, one colour a thing."""

from importlib import resources
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from statmech_attention.arguments import Indices

# Colours that most colour-blind readers can tell apart (Okabe and Ito 2008, Tol 2021); one thing keeps one colour
# everywhere: the theory, the GP limit, the exact posterior, samples of all weights, gradient descent, the four paths.
COLOURS = {
    "theory": "#0072B2",
    "gp": "#D55E00",
    "exact": "#000000",
    "weights": "#882255",
    "descent": "#999933",
    "good": "#009E73",
    "denoising": "#56B4E9",
    "adversarial 1": "#E69F00",
    "adversarial 2": "#CC79A7",
    "neutral": "#4D4D4D",
    "state +": "#3B3B3B",
    "state -": "#DCDCDC",
}

# Where a figure has more things than these (Tol 2021).
MUTED = {
    "indigo": "#332288",
    "cyan": "#88CCEE",
    "teal": "#44AA99",
    "green": "#117733",
    "rose": "#CC6677",
    "wine": "#882255",
    "purple": "#AA4499",
}
DARK = "#333333"  # of outlines, arrows, and dots that stand for nothing else

# One a stored pattern; none of them stands for anything else.
FEATURE_COLOURS = (DARK, MUTED["rose"], MUTED["cyan"], MUTED["green"], MUTED["purple"], "#AAAAAA")

# By the names of `dmft.Regime`; other colours than those of `COLOURS`, which stand for other things.
REGIME_COLOURS = {
    "periodic": MUTED["indigo"],
    "quasi-periodic": MUTED["teal"],
    "chaotic": "#CC3311",
    "hyperchaotic": "#AA3377",
    "undecided": "#999999",
}
REGIMES = tuple(REGIME_COLOURS)

# What the four paths of the hidden Markov network are called, by their heads counted from 0.
HIDDEN_MARKOV_PATHS = {(0, 0): "good", (1, 0): "denoising", (0, 1): "adversarial 1", (1, 1): "adversarial 2"}


def use_style() -> None:
    """Draw all figures from here on in the style of the book."""
    plt.style.use(str(resources.files("statmech_attention.plotting") / "book.mplstyle"))


def axes_or_new(axes, **size):
    """The given Matplotlib axes, or those of a new figure.

    Args:
        axes: Matplotlib axes or None.
        **size: arguments of `plt.subplots` for a new figure.

    Returns:
        Matplotlib axes.
    """
    return plt.subplots(**size)[1] if axes is None else axes


def powers_of_ten(axis) -> None:
    """Ticks at 1 and 3 times the powers of ten of a logarithmic axis, written out.

    Args:
        axis: Matplotlib axis.
    """
    axis.set_major_locator(LogLocator(subs=(1, 3)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())


def without_frame(axes) -> None:
    """No spines and no ticks, around a matrix of colours.

    Args:
        axes: Matplotlib axes.
    """
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)


def arrow(axes, start, end, *, size: int, colour: str = DARK, **look) -> None:
    """An arrow from place to place.

    Args:
        axes: Matplotlib axes.
        start: where it begins.
        end: where its head is.
        size: of its head, in points.
        colour: a Matplotlib colour.
        **look: further arguments of `FancyArrowPatch`.
    """
    usual: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": size, "color": colour, "shrinkA": 0, "shrinkB": 0}
    axes.add_patch(FancyArrowPatch(start, end, **usual | look))


def path_name(path: Indices) -> str:
    """A path as its heads counted from 1.

    Args:
        path: heads $(h_1, .., h_L)$, counted from 0.

    Returns:
        Text such as "(1,2)".
    """
    return f"({','.join(str(int(head) + 1) for head in path)})"
