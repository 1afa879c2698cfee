"""The panel on which measure of importance orders the heads of networks as leaving them out does."""

from collections.abc import Mapping, Sequence

import numpy as np

from statmech_attention.plotting.pruning import _CRITERIA
from statmech_attention.plotting.style import axes_or_new

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
_EVIDENCE = "#332288"
_OPEN = {"markerfacecolor": "none", "markersize": 4.5, "markeredgewidth": 0.9}


def importances_compared(rows: Mapping, networks: Sequence[str], *, chance=None, axes=None):
    """Rank correlations of measures: a small mark for every network, their mean with its interval in front.

    Args:
        rows: by measure, the first on top, one coefficient a network, NaN where there is none, and the mean with the two
            ends of its interval, NaN where there is none.
        networks: their names.
        chance: the two ends of a grey band that holds what chance gives; none where None.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; line `k` of a row is the mark of network `k`, and the one behind these the mean.

    Raises:
        ValueError: other numbers of coefficients than of networks.
    """
    axes = axes_or_new(axes)
    if chance is not None:
        axes.axvspan(*chance, color="0.92", linewidth=0, zorder=0)
    axes.axvline(0, color="0.7", linewidth=0.8, zorder=0)
    for row, (name, (each, (value, low, high))) in enumerate(rows.items()):
        each = np.asarray(each, float)
        if each.shape != (len(networks),):
            raise ValueError(f"rows: wanted {len(networks)} coefficients of {name!r}, one a network, got {each.shape}.")
        colour = _colour(name)
        # A little below each other, so that equal ones are seen.
        places = row + 0.5 * (np.arange(len(each)) - (len(each) - 1) / 2) / max(len(each), 4)
        for place, coefficient, marker in zip(places, each, _cycled(len(each)), strict=True):
            axes.plot(coefficient, place, marker, color=colour, **_OPEN)
        axes.hlines(row, low, high, color=colour, linewidth=2.2)
        axes.plot(value, row, "|", color=colour, markersize=14, markeredgewidth=2.2)
    for network, marker in zip(networks, _cycled(len(networks)), strict=True):
        axes.plot([], [], marker, color="0.3", label=network, **_OPEN)
    axes.set(xlim=(-1.05, 1.05), xlabel="rank correlation with the drop", ylim=(len(rows) - 0.4, -0.6))
    axes.set_yticks(range(len(rows)), list(rows))
    return axes


def _cycled(count: int) -> list[str]:
    return [_MARKERS[place % len(_MARKERS)] for place in range(count)]


def _colour(name: str) -> str:
    """That of the criterion in the figures on pruning, whatever the width."""
    if name.startswith("evidence"):
        return _EVIDENCE
    return _CRITERIA.get(name.split(", N")[0], ("0.4", ""))[0]
