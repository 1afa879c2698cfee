"""Panels on head pruning: scores and drops, accuracies after removal, criteria compared."""

from collections.abc import Mapping

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from statmech_attention.plotting.panels import mean_and_error
from statmech_attention.plotting.style import COLOURS, MUTED, axes_or_new

_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:g} %")
# How the heads were ordered: colour and line.
CRITERIA = {
    "theory, both": (COLOURS["theory"], "o--"),
    "theory, either": (COLOURS["theory"], "o-"),
    "theory, weighted": (COLOURS["theory"], "o:"),
    "theory, own drop": (COLOURS["theory"], "*-"),
    "trained, both": (MUTED["purple"], "s--"),
    "trained, either": (MUTED["purple"], "s-"),
    "trained, weighted": (MUTED["purple"], "s:"),
    "kernels": ("0.45", "P-"),
    "weights": ("#B8860B", "^-"),
    "values": ("#B8860B", "^--"),
    "Taylor": (MUTED["green"], "v-"),
    "Taylor, signed": (MUTED["green"], "v--"),
    "confidence": (MUTED["cyan"], "<-"),
    "leave one out": ("0.3", "D-"),
    "greedy": ("0.3", "D--"),
    "evidence lost": (MUTED["rose"], "X-"),
}


def pruning_curves(curves: Mapping, *, random: ArrayLike | None = None, axes: Axes | None = None):
    """Mean accuracy against heads removed, from `(draws, removals + 1)` per criterion."""
    axes = axes_or_new(axes)
    if random is not None:
        mean, spread = np.asarray(random)
        band = (np.arange(len(mean)), mean - spread, mean + spread)
        axes.fill_between(*band, color="0.85", linewidth=0, label="random orders")
    for name, values in curves.items():
        mean, error = mean_and_error(values)
        colour, style = CRITERIA.get(name, ("0.4", ".-"))
        axes.errorbar(
            np.arange(len(mean)), mean, error, fmt=style, color=colour, markersize=4, linewidth=1.3, label=name
        )
    axes.axhline(0.5, color="0.7", linewidth=0.8, zorder=0)
    axes.set(xlabel="heads removed", ylabel="test accuracy")
    axes.locator_params("x", integer=True)
    axes.yaxis.set_major_formatter(_PERCENT)
    return axes
