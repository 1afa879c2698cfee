"""Drawings of the network, its paths and the hidden Markov task: positions and arrows, no data."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch

from statmech_attention.plotting.style import COLOURS, axes_or_new


def architecture(heads: Sequence[int], *, paths: Mapping[tuple[int, ...], str] | None = None, axes=None):
    """The network from tokens to output, its heads as boxes, with attention paths drawn through them.

    Args:
        heads: number of heads in every layer.
        paths: colour by path $(h_1, .., h_L)$, heads counted from 0; colours are names in `COLOURS` or Matplotlib's.
            All paths in grey where None.
        axes: Matplotlib axes; a new figure where None.

    Returns:
        The axes; every head is a box with the name of its layer and head as its label.

    Raises:
        ValueError: a path through a head that is not there.
    """
    axes = axes_or_new(axes, figsize=(1.7 * len(heads) + 3.4, 0.75 * max(heads) + 1.2))
    if paths is None:
        paths = {tuple(int(head) for head in path): "#9A9A9A" for path in np.ndindex(*heads)}
    columns = [1.6 + 1.7 * layer for layer in range(len(heads))]
    places = [
        [(x, 0.9 * ((count - 1) / 2 - head)) for head in range(count)] for x, count in zip(columns, heads, strict=True)
    ]
    end = (columns[-1] + 1.6, 0.0)
    shift = np.linspace(-0.1, 0.1, len(paths)) if len(paths) > 1 else [0.0]
    for offset, (path, colour) in zip(shift, paths.items(), strict=True):
        if len(path) != len(heads) or any(not 0 <= head < count for head, count in zip(path, heads, strict=False)):
            raise ValueError(f"paths: wanted one head a layer out of {tuple(heads)}, got {path}.")
        points = [(0.0, 0.0), *(places[layer][head] for layer, head in enumerate(path)), end]
        _path(axes, np.array(points) + [0, offset], COLOURS.get(colour, colour))
    _box(axes, (0, 0), "$V^{(0)} x$", "#E8E8E8", width=0.9)
    _box(axes, end, "$a$", "#E8E8E8", width=0.5)
    for layer, column in enumerate(places, start=1):
        for head, place in enumerate(column, start=1):
            _box(axes, place, rf"$\Omega^{{({layer},{head})}}$", "white", width=0.95)
        axes.text(column[0][0], column[0][1] + 0.5, f"layer {layer}", ha="center", va="bottom", fontsize=10)
    _arrow(axes, (-1.0, 0), (-0.47, 0))
    axes.text(-1.05, 0, "$x$", ha="right", va="center", fontsize=12)
    _arrow(axes, (end[0] + 0.27, 0), (end[0] + 0.75, 0))
    axes.text(end[0] + 0.8, 0, "$f(x)$", ha="left", va="center", fontsize=12)
    height = 0.9 * (max(heads) - 1) / 2
    axes.set(xlim=(-1.4, end[0] + 1.5), ylim=(-height - 0.55, height + 0.95), aspect="equal")
    axes.axis("off")
    return axes


def hidden_chains(hidden, *, axes=None, labels: Sequence[str] = ()):
    """Hidden Markov chains as rows of circles, one colour a state, a bar wherever the state switches.

    Args:
        hidden: `(chains, length)`, +1 and -1.
        axes: Matplotlib axes; a new figure where None.
        labels: one text a chain, to its left.

    Returns:
        The axes; one circle a state, in order.
    """
    hidden = np.asarray(hidden)
    chains, length = hidden.shape
    axes = axes_or_new(axes, figsize=(8, 0.6 * chains + 0.5))
    for row, chain in enumerate(hidden):
        for time, state in enumerate(chain):
            colour = COLOURS["theory"] if state > 0 else "#E69F00"
            axes.add_patch(Circle((time, -row), 0.36, color=colour))
            if time and state != chain[time - 1]:
                axes.plot([time - 0.5] * 2, [-row - 0.42, -row + 0.42], color="black", linewidth=1.2)
        if len(labels):
            axes.text(-0.9, -row, labels[row], ha="right", va="center")
    axes.set(xlim=(-1 - 4.5 * bool(len(labels)), length - 0.3), ylim=(-chains + 0.4, 0.6), aspect="equal")
    axes.axis("off")
    return axes


def _box(axes, centre, text: str, colour: str, width: float) -> None:
    height = 0.55
    corner = (centre[0] - width / 2, centre[1] - height / 2)
    style = "round,pad=0,rounding_size=0.1"
    box = FancyBboxPatch(corner, width, height, boxstyle=style, facecolor=colour, edgecolor="#333333", zorder=3)
    box.set_label(text)
    axes.add_patch(box)
    axes.text(*centre, text, ha="center", va="center", fontsize=11, zorder=4)


def _arrow(axes, start, end) -> None:
    axes.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=12, color="#333333", shrinkA=0, shrinkB=0)
    )


def _path(axes, points, colour: str) -> None:
    """A smooth line through the points, level where it crosses a box."""
    pieces = []
    for start, end in zip(points[:-1], points[1:], strict=True):
        share = np.linspace(0, 1, 40)
        smooth = share**2 * (3 - 2 * share)
        pieces.append(
            np.stack([start[0] + share * (end[0] - start[0]), start[1] + smooth * (end[1] - start[1])], axis=1)
        )
    line = np.concatenate(pieces)
    axes.plot(line[:, 0], line[:, 1], color=colour, linewidth=2.2, alpha=0.9, zorder=2, solid_capstyle="round")
