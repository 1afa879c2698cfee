"""Drawings of the hidden Markov task: the two classes, the hidden chains, and the tokens that the network sees."""

from collections.abc import Sequence

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch

from statmech_attention.plotting.style import COLOURS, axes_or_new

_EDGE = "#333333"


def switching(probability: float, *, axes=None, title: str = ""):
    """The two hidden states and the probabilities to stay or to switch, as arrows whose width grows with them.

    Args:
        probability: to switch the state at a step, in [0, 1].
        axes: Matplotlib axes; a new figure where None.
        title: above the panel.

    Returns:
        The axes; the two circles are its first patches.

    Raises:
        ValueError: no probability.
    """
    if not 0 <= probability <= 1:
        raise ValueError(f"probability: wanted a number in [0, 1], got {probability!r}.")
    axes = axes_or_new(axes, figsize=(3.2, 1.7))
    for place, name in ((-1, "+"), (1, "-")):
        face = COLOURS[f"state {name}"]
        axes.add_patch(Circle((place, 0), 0.34, facecolor=face, edgecolor=_EDGE, linewidth=1))
        axes.text(
            place,
            0,
            f"${name}$",
            color="white" if name == "+" else "black",
            ha="center",
            va="center",
            fontsize=13,
        )
    for side in (-1, 1):
        _curve(
            axes,
            (-0.68 * side, 0.16 * side),
            (0.68 * side, 0.16 * side),
            -0.28,
            probability,
        )
        _curve(
            axes,
            (1.25 * side, 0.24),
            (1.25 * side, -0.24),
            -1.6 * side,
            1 - probability,
        )
        axes.text(1.98 * side, 0, f"{1 - probability:.2g}", ha="center", va="center")
    axes.text(0, 0, f"{probability:.2g}", ha="center", va="center")
    axes.set(xlim=(-2.3, 2.3), ylim=(-0.75, 0.75), aspect="equal", title=title)
    axes.axis("off")
    return axes


def hidden_chains(hidden, *, axes=None, labels: Sequence[str] = ()):
    """Hidden Markov chains as rows of circles, dark and light for the two states, a bar wherever the state switches.

    Args:
        hidden: `(chains, length)`, +1 and -1.
        axes: Matplotlib axes; a new figure where None.
        labels: one text a chain, to its left.

    Returns:
        The axes; one circle a state, in order.

    Raises:
        ValueError: not one row of +1 and -1 a chain.
    """
    hidden = np.asarray(hidden)
    if hidden.ndim != 2 or not np.isin(hidden, (-1, 1)).all():
        raise ValueError(f"hidden: wanted states +1 and -1 of shape (chains, length), got shape {hidden.shape}.")
    chains, length = hidden.shape
    axes = axes_or_new(axes, figsize=(6.6, 0.28 * chains + 0.2))
    for row, chain in enumerate(hidden):
        for time, state in enumerate(chain):
            colour = COLOURS["state +" if state > 0 else "state -"]
            axes.add_patch(Circle((time, -row), 0.36, facecolor=colour, edgecolor=_EDGE, linewidth=0.6))
        for time in 1 + np.flatnonzero(chain[1:] != chain[:-1]):
            axes.plot(
                [time - 0.5] * 2,
                [-row - 0.45, -row + 0.45],
                color=COLOURS["gp"],
                linewidth=1.6,
            )
        if len(labels):
            axes.text(-0.8, -row, labels[row], ha="right", va="center", fontsize=10)
    axes.set(
        xlim=(-0.6 - 3.2 * bool(len(labels)), length - 0.3),
        ylim=(-chains + 0.4, 0.6),
        aspect="equal",
    )
    axes.axis("off")
    return axes


def noisy_tokens(tokens, *, axes=None):
    """The tokens of one chain as columns of colours, features downwards.

    Args:
        tokens: `(tokens, features)`.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; their image is `axes.images[0]`, zero in white.
    """
    tokens = np.asarray(tokens)
    axes = axes_or_new(axes, figsize=(6.6, 1.8))
    limit = np.percentile(np.abs(tokens), 99)
    axes.imshow(
        tokens.T,
        cmap="PuOr_r",
        vmin=-limit,
        vmax=limit,
        aspect="auto",
        interpolation="none",
    )
    axes.set(xlabel="step $t$", ylabel="feature")
    return axes


def _curve(axes, start, end, bend: float, weight: float) -> None:
    style = {
        "connectionstyle": f"arc3,rad={bend}",
        "mutation_scale": 12,
        "color": _EDGE,
    }
    arrow = FancyArrowPatch(
        start,
        end,
        arrowstyle="-|>",
        linewidth=0.6 + 2.6 * weight,
        shrinkA=0,
        shrinkB=0,
        **style,
    )
    axes.add_patch(arrow)
