"""Panels on head pruning: scores and drops, accuracies after removal, criteria compared."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

import numpy as np
from jax.typing import ArrayLike
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from statmech_attention.plotting.panels import mean_and_error
from statmech_attention.plotting.style import COLOURS, MUTED, axes_or_new

_PERCENT = FuncFormatter(lambda share, _: f"{100 * share:g} %")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")  # of layers or networks
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
_OPEN: dict[str, Any] = {"markerfacecolor": "none", "markersize": 4.5, "markeredgewidth": 0.9}


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


def importances_compared(
    rows: Mapping, networks: Sequence[str], *, chance: ArrayLike | None = None, axes: Axes | None = None
):
    """Rank correlations `(networks,)` per measure, and (mean, low, high); NaN is not drawn."""
    axes, marks = axes_or_new(axes), dict(zip(dict.fromkeys(networks), cycle(_MARKERS), strict=False))
    if chance is not None:
        low, high = np.asarray(chance)
        axes.axvspan(low, high, color="0.92", linewidth=0, zorder=0)
    axes.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    for row, (name, (each, (value, low, high))) in enumerate(rows.items()):
        colour = _colour(name)
        # A little below each other, so that equal ones do not hide each other.
        places = row + 0.5 * (np.arange(len(each)) - (len(each) - 1) / 2) / max(len(each), 4)
        for place, coefficient, network in zip(places, each, networks, strict=True):
            axes.plot(coefficient, place, marks[network], color=colour, **_OPEN)
        axes.hlines(row, low, high, color=colour, linewidth=2.2)
        axes.plot(value, row, "|", color=colour, markersize=14, markeredgewidth=2.2)
    for network, marker in marks.items():
        axes.plot([], [], marker, color="0.3", label=network, **_OPEN)
    axes.set(xlim=(-1.05, 1.05), xlabel="rank correlation with the drop", ylim=(len(rows) - 0.4, -0.6))
    axes.set_yticks(range(len(rows)), list(rows))
    return axes


def _colour(name: str) -> str:
    """Colour of a criterion; "theory, both, N = 10" has that of "theory, both"."""
    found = [criterion for criterion in CRITERIA if name.startswith(criterion)]
    return CRITERIA[max(found, key=len)][0] if found else "0.4"
