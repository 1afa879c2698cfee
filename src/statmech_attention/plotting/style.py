"""The look of the book's figures: one style sheet, one colour a thing."""

from importlib import resources

import matplotlib.pyplot as plt

# Colours that most colour-blind readers can tell apart (Okabe and Ito 2008); one thing keeps one colour everywhere.
COLOURS = {
    "theory": "#0072B2",
    "gp": "#D55E00",
    "good": "#009E73",
    "denoising": "#56B4E9",
    "adversarial 1": "#E69F00",
    "adversarial 2": "#CC79A7",
    "neutral": "#4D4D4D",
    "state +": "#3B3B3B",
    "state -": "#DCDCDC",
}

# What the four paths of the hidden Markov network are called, by their heads counted from 0.
HIDDEN_MARKOV_PATHS = {
    (0, 0): "good",
    (1, 0): "denoising",
    (0, 1): "adversarial 1",
    (1, 1): "adversarial 2",
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


def path_name(path) -> str:
    """A path as its heads counted from 1.

    Args:
        path: heads $(h_1, .., h_L)$, counted from 0.

    Returns:
        Text such as "(1,2)".
    """
    return f"({','.join(str(int(head) + 1) for head in path)})"
