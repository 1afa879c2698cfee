"""The numbers that a figure shows, as a table to take away."""

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import BarContainer, ErrorbarContainer
from matplotlib.figure import Figure

MOST = 20_000  # rows of one panel


def data(figure: Figure) -> str:
    """Points, bars and matrices of a figure as CSV, a row per point, with its error bar's ends."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("panel", "series", "x", "y", "value", "from", "to"))
    for number, axes in enumerate(figure.axes, 1):
        panel = axes.get_title() or axes.get_title("left") or axes.get_ylabel() or str(number)
        points = [(panel, *point) for point in _points(axes)]
        rows.writerows(points if len(points) <= MOST else [(panel, f"{len(points)} points, left out")])
    return text.getvalue()


def _points(axes: Axes) -> Iterator[tuple]:
    bounds: dict[Any, tuple[Any, Any]] = {}
    for container in axes.containers:
        if isinstance(container, ErrorbarContainer) and container.lines[0] is not None:
            ends = [bar.get_segments() for bar in container.lines[2]]
            bounds[container.lines[0]] = container, ends[-1] if ends else []
        elif isinstance(container, BarContainer):
            for bar in container.patches:
                yield _name(container), _short(bar.get_x() + bar.get_width() / 2), _short(bar.get_height()), "", "", ""
    for line in axes.lines:
        if line.get_transform() == axes.transData:
            named, ends = bounds.get(line, (line, []))
            for i, (x, y) in enumerate(np.asarray(line.get_xydata(), float)):
                low, high = sorted(ends[i][:, 1]) if i < len(ends) and len(ends[i]) == 2 else (np.nan, np.nan)
                yield _name(named), _short(x), _short(y), "", _short(low), _short(high)
    for collection in axes.collections:
        offsets = _array(collection.get_offsets())
        if collection.get_offset_transform() == axes.transData:
            for x, y in offsets:
                yield _name(collection), _short(x), _short(y), "", "", ""
    for matrix in axes.images:
        values = _array(matrix.get_array())
        if values.ndim == 2:
            for (row, column), value in np.ndenumerate(values):
                yield _name(matrix), column, row, _short(value), "", ""


def _array(masked) -> np.ndarray:
    return np.ma.filled(np.ma.asarray(masked, float), np.nan)


def _name(artist) -> str:
    label = str(artist.get_label())
    return "" if label.startswith("_") else label


def _short(value: float) -> str:
    return f"{value:.6g}" if np.isfinite(value) else ""
