"""Panels on the network of 1-bit self-attention: the loop, its tokens, overlaps in time, sizes."""

import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from statmech_attention.plotting.style import COLOURS, axes_or_new

# One a stored pattern.
FEATURE_COLOURS = ("#0072B2", "#E69F00", "#882255", "#117733", "#88CCEE", "#4D4D4D")
_DARK = "#333333"


def attention_loop(*, axes=None):
    r"""The loop that a 1-bit self-attention network goes around: token, overlaps, attention, next token.

    Args:
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; every box has its symbol as its label.
    """
    axes = axes_or_new(axes, figsize=(5.4, 3.7))
    boxes = {
        "token": ((0.0, 1.2), "$x_t = (s_t, p_t)$", "token: $N$ bits and\nits position"),
        "overlaps": ((2.6, 1.2), "$m^q_t,\\ m^k_t,\\ m^v_t$", "overlaps with the\nstored patterns (1)"),
        "attention": ((2.6, -0.75), "$\\hat{A}_t$", "attention over the last\n$L$ tokens (2), (3)"),
        "output": ((0.0, -0.75), "$P(s_{t+1} \\mid \\hat{A}_t)$", "fields $h_i$, one sign\na bit (4)"),
    }
    for (x, y), symbol, words in boxes.values():
        box = FancyBboxPatch(
            (x - 0.78, y - 0.27), 1.56, 0.54, boxstyle="round,pad=0,rounding_size=0.1", facecolor="#F2F2F2"
        )
        box.set(edgecolor=_DARK, label=symbol, zorder=2)
        axes.add_patch(box)
        axes.text(x, y, symbol, ha="center", va="center", fontsize=12, zorder=3)
        above = y > 0
        axes.text(x, y + (0.36 if above else -0.36), words, ha="center", va="bottom" if above else "top", fontsize=11)
    for start, end in (((0.8, 1.2), (1.8, 1.2)), ((2.6, 0.91), (2.6, -0.46)), ((1.8, -0.75), (0.8, -0.75))):
        _arrow(axes, start, end)
    _arrow(axes, (0, -0.46), (0, 0.91), colour=COLOURS["gp"])
    axes.text(0.1, 0.22, "draw", ha="left", va="center", fontsize=11, color=COLOURS["gp"])
    axes.text(2.7, 0.22, "window", ha="left", va="center", fontsize=11)
    axes.text(1.3, 1.3, "$W^{q,k,v}$", ha="center", va="bottom", fontsize=11)
    axes.text(1.3, -0.65, "$W^o$", ha="center", va="bottom", fontsize=11)
    axes.set(xlim=(-0.95, 3.6), ylim=(-1.7, 2.15), aspect="equal")
    axes.axis("off")
    return axes


def token_raster(words, *, axes=None):
    """Tokens side by side in time, a column a token, dark for +1 and light for -1.

    Args:
        words: `(steps, sites)` of +1 and -1.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: words that are no matrix.
    """
    words = np.asarray(words)
    if words.ndim != 2:
        raise ValueError(f"words: wanted shape (steps, sites), got {words.shape}.")
    axes = axes_or_new(axes)
    axes.imshow(
        words.T, cmap="Greys", vmin=-1.4, vmax=1.2, aspect="auto", extent=(0.5, len(words) + 0.5, words.shape[1], 0)
    )
    axes.set(xlabel="time $t$", ylabel="site $i$")
    return axes


def overlap_series(values, *, start: int = 1, symbol: str = "m^o", style: str = "-", alpha: float = 1.0, axes=None):
    """Overlaps against time, one line a feature.

    Args:
        values: `(steps, features)`.
        start: time of the first.
        symbol: what they are, in mathematics, for the legend; an empty text leaves the lines out of it.
        style: a Matplotlib format.
        alpha: of the lines.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.

    Raises:
        ValueError: values that are no matrix.
    """
    values = np.asarray(values)
    if values.ndim != 2:
        raise ValueError(f"values: wanted shape (steps, features), got {values.shape}.")
    axes = axes_or_new(axes)
    times = start + np.arange(len(values))
    for feature, line in enumerate(values.T):
        label = f"${symbol}_{{{feature + 1}}}$" if symbol else "_"
        colour = FEATURE_COLOURS[feature % len(FEATURE_COLOURS)]
        axes.plot(times, line, style, color=colour, alpha=alpha, label=label, linewidth=1.4, markersize=3)
    axes.set(xlabel="time $t$", ylabel="overlap")
    return axes


def against_sites(sites, values, errors=None, *, label: str, colour: str = "theory", style: str = "o", axes=None):
    """A quantity against the number of sites, both logarithmic.

    Args:
        sites: `(sizes,)`.
        values: `(sizes,)`.
        errors: `(sizes,)`, standard errors; none where None.
        label: for the legend.
        colour: a name in `COLOURS` or a Matplotlib colour.
        style: a Matplotlib format.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes.
    """
    axes = axes_or_new(axes)
    axes.errorbar(sites, values, errors, fmt=style, color=COLOURS.get(colour, colour), label=label, capsize=2)
    axes.set(xscale="log", yscale="log", xlabel="sites $N$")
    return axes


def predicted_and_measured(
    places, predicted, measured_at, measured, *, label: str = "", colour: str = "theory", axes=None
):
    """A prediction as a line, what is measured as dots of the same colour.

    Args:
        places: `(places,)`, where there is a prediction.
        predicted: `(places,)`.
        measured_at: `(dots,)`.
        measured: `(dots,)`.
        label: for the legend, common to both.
        colour: a name in `COLOURS` or a Matplotlib colour.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; the line, then the dots.
    """
    axes, colour = axes_or_new(axes), COLOURS.get(colour, colour)
    axes.plot(places, predicted, "-", color=colour, label=label or "_")
    axes.plot(measured_at, measured, "o", color=colour, markerfacecolor="white", linewidth=0)
    return axes


def _arrow(axes, start, end, colour: str = _DARK) -> None:
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=14, color=colour, shrinkA=0, shrinkB=0))
