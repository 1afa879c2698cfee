"""Drawings of the tasks: hidden chains, their tokens, images, and attention on patches."""

from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from attention_book.pages.plotting.panels import DARK, MUTED, arrow
from statmech_attention.plotting import COLOURS, axes_or_new

_GAP = 3  # pixels between images


def switching(probability: float, *, axes: Axes | None = None, title: str = ""):
    """The two hidden states with arrows for staying and switching, as wide as probable."""
    axes = axes_or_new(axes, figsize=(3.2, 1.7))
    for place, name in ((-1, "+"), (1, "-")):
        face = COLOURS[f"state {name}"]
        axes.add_patch(Circle((place, 0), 0.34, facecolor=face, edgecolor=DARK, linewidth=1))
        axes.text(
            place, 0, f"${name}$", color="white" if name == "+" else "black", ha="center", va="center", fontsize=13
        )
    for side in (-1, 1):
        ends = (-0.68 * side, 0.16 * side), (0.68 * side, 0.16 * side)
        _curve(axes, *ends, -0.28, probability)
        _curve(axes, (1.25 * side, 0.24), (1.25 * side, -0.24), -1.6 * side, 1 - probability)
        axes.text(1.98 * side, 0, f"{1 - probability:.2g}", ha="center", va="center")
    axes.text(0, 0, f"{probability:.2g}", ha="center", va="center")
    axes.set(xlim=(-2.3, 2.3), ylim=(-0.75, 0.75), aspect="equal", title=title)
    axes.axis("off")
    return axes


def hidden_chains(hidden: ArrayLike, *, labels: Sequence[str] = (), axes: Axes | None = None):
    """Hidden Markov chains of +1 and -1 as rows of circles, with a bar at every switch."""
    chains, length = np.shape(hidden)
    axes = axes_or_new(axes, figsize=(6.6, 0.28 * chains + 0.2))
    for row, chain in enumerate(np.asarray(hidden)):
        for time, state in enumerate(chain):
            colour = COLOURS["state +" if state > 0 else "state -"]
            axes.add_patch(Circle((time, -row), 0.36, facecolor=colour, edgecolor=DARK, linewidth=0.6))
        for place in 1 + np.flatnonzero(chain[1:] != chain[:-1]):
            axes.plot([place - 0.5] * 2, [-row - 0.45, -row + 0.45], color=MUTED["rose"], linewidth=2)
        if len(labels):
            axes.text(-0.8, -row, labels[row], ha="right", va="center", fontsize=10)
    axes.set(xlim=(-0.6 - 3.2 * bool(len(labels)), length - 0.3), ylim=(-chains + 0.4, 0.6), aspect="equal")
    axes.axis("off")
    return axes


def noisy_tokens(tokens: ArrayLike, *, axes: Axes | None = None):
    """Tokens `(tokens, features)` of one chain as columns of colours, zero in white."""
    tokens = np.asarray(tokens)
    axes = axes_or_new(axes, figsize=(6.6, 1.8))
    limit = np.percentile(np.abs(tokens), 99)
    axes.imshow(tokens.T, cmap="PuOr_r", vmin=-limit, vmax=limit, aspect="auto", interpolation="none")
    axes.set(xlabel="step $t$", ylabel="feature")
    return axes


def one_shot_sequence(
    images: ArrayLike, first: float, *, axes: Axes, patch: int | None = None, answer: float | None = None
):
    """Three images side by side over their labels +, -, ?."""
    _, height, width = np.shape(images)
    for place, (image, name) in enumerate(zip(np.asarray(images), (_sign(first), _sign(-first), "?"), strict=True)):
        left = place * (width + _GAP)
        axes.imshow(image, cmap="gray", vmin=0, vmax=1, extent=(left, left + width, height, 0), interpolation="nearest")
        axes.plot(*_outline(left, width, height), color="0.6", linewidth=0.8)
        for cut in range(patch or height, height, patch or height):
            axes.plot([left, left + width], [cut, cut], color=MUTED["teal"], linewidth=0.6)
            axes.plot([left + cut, left + cut], [0, height], color=MUTED["teal"], linewidth=0.6)
        axes.text(left + width / 2, height + 3, name, ha="center", va="top", fontsize=11)
    if answer is not None:
        axes.text(3 * width + 3 * _GAP, height / 2, f"→ {_sign(answer)}", va="center", fontsize=12)
    _frame(axes, height, width)
    return axes


def _curve(axes, start, end, bend: float, weight: float) -> None:
    arrow(axes, start, end, size=12, connectionstyle=f"arc3,rad={bend}", linewidth=0.6 + 2.6 * weight)


def _sign(label) -> str:
    return "+" if label > 0 else "\N{MINUS SIGN}"


def _outline(left: int, width: int, height: int):
    return [left, left + width, left + width, left, left], [0, 0, height, height, 0]


def _frame(axes, height: int, width: int) -> None:
    axes.set(xlim=(-1, 3 * width + 2 * _GAP + 1), ylim=(height + 1, -1), aspect="equal")
    axes.axis("off")
