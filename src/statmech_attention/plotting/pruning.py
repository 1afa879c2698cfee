"""Panels on head pruning: scores against what a removal costs, accuracy against heads removed, criteria compared."""

from collections.abc import Mapping

import numpy as np
from matplotlib.ticker import FuncFormatter

from statmech_attention.plotting.panels import mean_and_error
from statmech_attention.plotting.style import COLOURS, axes_or_new

_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:g} %")
_LAYERS = ("o", "s", "^", "D", "v", "P")
# How the heads were ordered: colour and line.
_CRITERIA = {
    "theory, both": (COLOURS["theory"], "o--"),
    "theory, either": (COLOURS["theory"], "o-"),
    "theory, weighted": (COLOURS["denoising"], "o-"),
    "trained, both": ("#AA4499", "s--"),
    "trained, either": ("#AA4499", "s-"),
    "trained, weighted": ("#CC6677", "s-"),
    "kernels": ("0.45", "P-"),
    "weights": ("#B8860B", "^-"),
    "values": ("#B8860B", "^--"),
    "Taylor": ("#117733", "v-"),
    "Taylor, signed": ("#117733", "v--"),
    "leave one out": ("black", "D-"),
    "greedy": ("black", "D--"),
}


def scores_and_drops(scores, drops, errors, layers, *, axes=None, colour: str = "theory"):
    """Drop in accuracy when a head is removed, against the score of the head, one marker a layer.

    Args:
        scores: `(draws, heads)`, drawn as their mean with its standard error.
        drops: `(heads,)`, accuracies between -1 and 1.
        errors: `(heads,)`, standard errors of the drops.
        layers: `(heads,)`, the layer of every head, counted from 1.
        axes: Matplotlib axes; a new figure where None.
        colour: a name in `COLOURS` or a Matplotlib colour.

    Returns:
        The axes, with drops in percent.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    scores, drops, errors, layers = (np.asarray(values) for values in (scores, drops, errors, layers))
    if scores.ndim != 2 or not scores.shape[1:] == drops.shape == errors.shape == layers.shape:
        raise ValueError(
            "scores: wanted shape (draws, heads) and one drop, error and layer a head, "
            f"got {scores.shape}, {drops.shape}, {errors.shape}, {layers.shape}."
        )
    axes, colour = axes_or_new(axes), COLOURS.get(colour, colour)
    mean, spread = mean_and_error(scores)
    for layer in np.unique(layers):
        mine = layers == layer
        axes.errorbar(
            mean[mine],
            drops[mine],
            errors[mine],
            spread[mine],
            fmt=_LAYERS[(int(layer) - 1) % len(_LAYERS)],
            color=colour,
            markerfacecolor=colour if layer == 1 else "white",
            markersize=6,
            elinewidth=1,
            label=f"layer {layer}",
        )
    axes.axhline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="score of the head", ylabel="drop in accuracy", xlim=(0, 1.05))
    axes.yaxis.set_major_formatter(_PERCENT)
    return axes


def pruning_curves(curves: Mapping, *, random=None, axes=None):
    """Accuracy against the number of heads removed, one line a criterion.

    Args:
        curves: by name `(draws, removals + 1)`, drawn as their mean with its standard error.
        random: mean and standard deviation over random orders, `(2, removals + 1)`, as a grey band; none where None.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes, with accuracies in percent.
    """
    axes = axes_or_new(axes)
    if random is not None:
        mean, spread = np.asarray(random)
        band = (np.arange(len(mean)), mean - spread, mean + spread)
        axes.fill_between(*band, color="0.85", linewidth=0, label="random orders")
    for name, values in curves.items():
        mean, error = mean_and_error(values)
        colour, style = _CRITERIA.get(name, ("0.4", ".-"))
        axes.errorbar(
            np.arange(len(mean)), mean, error, fmt=style, color=colour, markersize=4, linewidth=1.3, label=name
        )
    axes.axhline(0.5, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="heads removed", ylabel="test accuracy")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.set_major_formatter(_PERCENT)
    return axes


def rank_correlations(found: Mapping, *, axes=None):
    """Rank correlations with their intervals, one row a criterion, the first on top.

    Args:
        found: by name a coefficient, the lower and the upper end of its interval.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; line `i` is the dot of row `i`.
    """
    axes = axes_or_new(axes)
    for row, (name, (value, low, high)) in enumerate(found.items()):
        colour = _CRITERIA.get(name, ("0.4", ""))[0]
        # Percentile intervals need not hold the coefficient itself.
        axes.hlines(row, low, high, color=colour, linewidth=1.6)
        axes.plot(value, row, "o", color=colour, markersize=6)
    axes.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlim=(-1.05, 1.05), xlabel="rank correlation with the drop", ylim=(len(found) - 0.5, -0.5))
    axes.set_yticks(range(len(found)), list(found))
    return axes
