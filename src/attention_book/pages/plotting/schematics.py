"""Drawings of networks, of attention paths, and of order parameters from layer to layer."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch

from attention_book.pages.plotting.panels import DARK, arrow
from statmech_attention.plotting import COLOURS, axes_or_new, path_name

_BOX = (1.3, 0.74)
_ROW, _COLUMN = 1.0, 2.05


def architecture(
    layers: Sequence[int],
    *,
    paths: Mapping[tuple[int, ...], str] | None = None,
    legend: bool = False,
    axes: Axes | None = None,
):
    """The network from tokens to output, with attention paths drawn through the boxes of its heads.

    `paths` are colours by path, heads counted from 0; without them all paths are grey.
    """
    axes = axes_or_new(axes, figsize=(1.35 * len(layers) + 4.1, 0.68 * max(layers) + 1.4 + 0.4 * legend))
    if paths is None:
        paths = {tuple(int(head) for head in path): "#8C8C8C" for path in np.ndindex(*layers)}
    columns = [2.05 + _COLUMN * layer for layer in range(len(layers))]
    places = [
        [(x, _ROW * ((count - 1) / 2 - head)) for head in range(count)]
        for x, count in zip(columns, layers, strict=True)
    ]
    end = (columns[-1] + _COLUMN, 0.0)
    lines = _draw_paths(axes, places, paths, end)
    _box(axes, (0.25, 0), "$V^{(0)}$", "#E8E8E8", (0.8, _BOX[1]))
    _box(axes, end, "$a$", "#E8E8E8", (0.5, _BOX[1]))
    for layer, column in enumerate(places, start=1):
        for head, place in enumerate(column, start=1):
            name = f"^{{({layer},{head})}}"
            _box(axes, place, rf"$\Omega{name}$", "white", _BOX, raised=0.18, words=rf"$V{name}\,\Omega{name}$")
        axes.text(column[0][0], column[0][1] + 0.5, f"layer {layer}", ha="center", va="bottom", fontsize=10)
    height = _ROW * (max(layers) - 1) / 2
    _draw_tokens(axes, places, height)
    arrow(axes, (end[0] + 0.25, 0), (end[0] + 0.75, 0), size=11)
    axes.text(end[0] + 0.8, 0, "$f(x)$", ha="left", va="center", fontsize=12)
    axes.set(xlim=(-1.95, end[0] + 1.5), ylim=(-height - 1.15, height + 0.9), aspect="equal")
    axes.axis("off")
    if legend:
        axes.legend(
            handles=lines, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=min(len(paths), 2), columnspacing=1.5
        )
    return axes


def _draw_paths(axes, places, paths, end) -> list:
    """Draw every path as a line on its own track, level inside the boxes."""
    tracks = np.linspace(-0.1, 0.1, len(paths)) if len(paths) > 1 else [0.0]
    lines, width = [], 2.4 if len(paths) <= 4 else 1.0
    for offset, (path, colour) in zip(tracks, paths.items(), strict=True):
        # Below the name of the head, which is in the upper half of the box.
        stops = [(0.25, 0.8, 0.0)]
        stops += [(places[layer][head][0], _BOX[0], places[layer][head][1] - 0.18) for layer, head in enumerate(path)]
        stops += [(end[0], 0.5, 0.0)]
        points = np.array([(x + side * size / 2, y + offset) for x, size, y in stops for side in (-1, 1)])[1:-1]
        line = np.concatenate([_level(*pair) for pair in pairwise(points)])
        name = f"{colour} {path_name(path)}" if colour in COLOURS else path_name(path)
        look = {"color": COLOURS.get(colour, colour), "linewidth": width, "solid_capstyle": "round"}
        lines += axes.plot(*line.T, zorder=4, label=name, **look)
    return lines


def _draw_tokens(axes, places, height: float) -> None:
    """Draw the tokens as bars, with arrows into the network and every attention matrix."""
    for place in range(4):
        corner = (-1.75 + 0.2 * place, -0.35)
        bar = FancyBboxPatch(corner, 0.13, 0.7, boxstyle="round,pad=0,rounding_size=0.03", facecolor="#C9C9C9")
        bar.set(edgecolor=DARK, linewidth=0.8)
        axes.add_patch(bar)
    axes.text(-1.38, 0.45, "tokens $x_t$", ha="center", va="bottom", fontsize=10)
    arrow(axes, (-0.95, 0), (-0.16, 0), size=11)
    level = -height - 0.8
    last = places[-1][-1][0]
    axes.plot([-1.38, -1.38, last], [-0.42, level, level], linestyle=":", color=DARK, linewidth=1.2)
    for column in places:
        x, y = column[-1]
        arrow(axes, (x, level), (x, y - _BOX[1] / 2 - 0.02), linestyle=":", size=11)
    middle = (places[0][0][0] + last) / 2
    axes.text(middle, level - 0.06, "queries and keys: the bare tokens", ha="center", va="top", fontsize=10)


def _level(start, end):
    """Smooth step from one point to the next, level at both ends."""
    share = np.linspace(0, 1, 30)
    smooth = share**2 * (3 - 2 * share)
    return np.stack([start[0] + share * (end[0] - start[0]), start[1] + smooth * (end[1] - start[1])], axis=1)


def _box(axes, centre, text: str, colour: str, size, raised: float = 0.0, words: str | None = None) -> None:
    corner = (centre[0] - size[0] / 2, centre[1] - size[1] / 2)
    style = "round,pad=0,rounding_size=0.1"
    width, height = size
    box = FancyBboxPatch(corner, width, height, boxstyle=style, facecolor=colour, edgecolor=DARK, zorder=3)
    box.set_label(text)
    axes.add_patch(box)
    said = text if words is None else words
    axes.text(
        centre[0], centre[1] + raised, said, ha="center", va="center", fontsize=11 if words is None else 10, zorder=5
    )
