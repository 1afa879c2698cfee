"""The look of the book's figures: one style sheet, one colour a thing."""

from importlib import resources

import matplotlib.pyplot as plt

# Colours that most colour-blind readers can tell apart (Okabe and Ito 2008); one thing keeps one colour everywhere.
COLOURS = {
    "theory": "#0072B2",
    "gp": "#D55E00",
    "good": "#009E73",
    "denoising": "#56B4E9",
    "adversarial 1": "#D55E00",
    "adversarial 2": "#CC79A7",
    "neutral": "#4D4D4D",
}


def use_style() -> None:
    """Draw all figures from here on in the style of the book."""
    plt.style.use(resources.files("statmech_attention.plotting") / "book.mplstyle")


def axes_or_new(axes, **size):
    """The given Matplotlib axes, or those of a new figure.

    Args:
        axes: Matplotlib axes or None.
        **size: arguments of `plt.subplots` for a new figure.

    Returns:
        Matplotlib axes.
    """
    return plt.subplots(**size)[1] if axes is None else axes
