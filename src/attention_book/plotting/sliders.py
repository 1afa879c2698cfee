"""Figures with sliders: panels for every position, drawn by Plotly; else a picture."""

import base64
import html
import io
import json
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from jax.typing import ArrayLike
from matplotlib.colors import to_hex

from statmech_attention import checks
from statmech_attention.plotting.style import COLOURS


class Panel(NamedTuple):
    """Lines in one panel at one position of the sliders; labels are plain text."""

    lines: Mapping[str, tuple]  # by name two arrays (points,), to the right and upwards
    xlabel: str = ""
    ylabel: str = ""
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    xscale: str = "linear"
    yscale: str = "linear"
    colours: Mapping[str, str] = {}  # by name of a line, a name in `COLOURS` or a Matplotlib colour


class Matrix(NamedTuple):
    """A matrix as colours, the first row on top."""

    values: Any  # (rows, columns)
    limits: tuple[float, float]  # of the colour scale
    names: Sequence[str] = ()  # of rows and columns
    label: str = ""  # of the colour bar, in plain text
    scale: str = "RdBu_r"  # a colour map of Matplotlib


class Knob(NamedTuple):
    """One slider."""

    label: str  # of the quantity, in plain text, as "width N"
    values: Any  # numbers (positions,)
    first: int = 0  # the position at first
    names: Sequence[str] = ()  # (positions,) or none: texts beside the values


@dataclass(frozen=True)
class Slider:
    """Output of a notebook cell: HTML that is interactive in a built book, a PNG elsewhere."""

    figure: Any  # Plotly's, one frame per combination of positions
    html: str
    png: bytes

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/html": self.html, "image/png": base64.b64encode(self.png).decode()}


def slider(
    frames: Sequence[Sequence[Panel]],
    values: ArrayLike,
    *,
    label: str,
    picture: Any,
    description: str,
    names: Sequence[str] = (),
    first: int = 0,
) -> Slider:
    """Panels side by side, one set of them per value of a single slider."""
    return sliders(frames, [Knob(label, values, first, names)], picture=picture, description=description)


def sliders(
    frames: Sequence[Sequence[Panel | Matrix]],
    knobs: Sequence[Knob],
    *,
    titles: Sequence[str] = (),
    picture: Any,
    description: str,
) -> Slider:
    """Panels side by side, one set of them per combination of positions, the last slider fastest.

    On a narrow page the panels are below each other; `picture`, a Matplotlib figure, is closed.
    """
    from plotly import graph_objects  # slow, and needed nowhere else

    shape = tuple(len(knob.values) for knob in knobs)
    checks.same("sliders", "frames", len(frames), "combinations of values", math.prod(shape))
    shown = [
        graph_objects.Frame(
            name=",".join(map(str, np.unravel_index(place, shape))),
            data=_traces(panels, place),
            layout=_merged(*(_axes(panel, number) for number, panel in _numbered(panels))),
        )
        for place, panels in enumerate(frames)
    ]
    first = int(np.ravel_multi_index([knob.first for knob in knobs], shape))
    layout = {
        "template": "simple_white",
        "colorway": list(COLOURS.values()),
        "showlegend": any(isinstance(one, Panel) and len(one.lines) > 1 for one in frames[0]),
        "margin": {"l": 55, "r": 15, "t": 40 if titles else 20, "b": 50},
        "dragmode": False,  # a finger on it scrolls the page
    }
    titles = titles or [""] * len(frames[0])
    wide, narrow = (_arranged(frames[0], titles, side_by_side) for side_by_side in (True, False))
    figure = graph_objects.Figure(shown[first].data, _merged(layout, wide, shown[first].layout.to_plotly_json()), shown)
    png = io.BytesIO()
    picture.savefig(png, format="png", dpi=90)
    plt.close(picture)
    filled = string.Template(_HTML).substitute(
        DESCRIPTION=html.escape(description),
        PICTURE=base64.b64encode(png.getvalue()).decode(),
        FIGURE=figure.to_json(),
        NARROW=json.dumps(narrow),
        KNOBS=json.dumps([{"label": one.label, "values": _texts(one), "first": one.first} for one in knobs]),
    )
    return Slider(figure, filled, png.getvalue())


def _texts(knob: Knob) -> list[str]:
    """The text of each position: its value, and its name if it has one."""
    values = [f"{value:g}" for value in knob.values]
    return [", ".join(words) for words in zip(values, knob.names, strict=True)] if len(knob.names) else values


def _numbered(panels: Sequence[Panel | Matrix]):
    """Panels with the number of their axes, as Plotly counts: "", 2, 3, .."""
    return zip(["", *range(2, len(panels) + 1)], panels, strict=True)


def _traces(panels: Sequence[Panel | Matrix], frame: int) -> list[dict]:
    """Plotly's traces of a frame, in single precision; equal names are in the legend once."""
    traces: list[dict[str, Any]] = []
    names: set[str] = set()
    for number, panel in _numbered(panels):
        axes: dict[str, Any] = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        if isinstance(panel, Matrix):
            values = np.asarray(checks.array(f"frames[{frame}]", panel.values, "rows columns"), np.float32)
            look = {"texttemplate": "%{z:.2f}"} if len(panel.names) else {}
            traces.append({"type": "heatmap", "z": values, "coloraxis": f"coloraxis{number}", **axes, **look})
            continue
        for name, line in panel.lines.items():
            x, y = (np.asarray(checks.array(f"frames[{frame}], {name!r}", one, "points"), np.float32) for one in line)
            checks.same(f"frames[{frame}], {name!r}", "x", len(x), "y", len(y))
            colour = panel.colours.get(name)
            paint = {} if colour is None else {"color": to_hex(COLOURS.get(colour, colour))}
            trace = {"type": "scatter", "x": x, "y": y, "name": name, "showlegend": name not in names, **axes}
            traces.append(trace | {"mode": "lines", "line": paint | {"width": 1.4}})
            names.add(name)
    return traces


def _axes(panel: Panel | Matrix, number) -> dict:
    """Axes of one panel in Plotly's layout; of a matrix with its colours."""
    x, y = f"xaxis{number}", f"yaxis{number}"
    if isinstance(panel, Matrix):
        texts = {"tickvals": list(range(len(panel.names))), "ticktext": list(panel.names), "tickfont": {"size": 10}}
        axis = texts | {"ticks": "", "showline": False, "constrain": "domain"}
        places = np.linspace(0, 1, 17)
        scale = [[float(place), to_hex(plt.get_cmap(panel.scale)(place))] for place in places]
        colours = {"cmin": float(panel.limits[0]), "cmax": float(panel.limits[1]), "colorscale": scale}
        square = {"autorange": "reversed", "scaleanchor": f"x{number}"}
        return {x: axis, y: axis | square, f"coloraxis{number}": colours}
    layout = {}
    for letter in "xy":
        title, ends, scale = (getattr(panel, letter + what) for what in ("label", "lim", "scale"))
        axis = {"title": {"text": title}, "type": scale}
        if ends is not None:
            axis["range"] = [float(end) for end in (np.log10(ends) if scale == "log" else ends)]
        layout[f"{letter}axis{number}"] = axis
    return layout


def _arranged(panels: Sequence[Panel | Matrix], titles: Sequence[str], side_by_side: bool) -> dict:
    """Places of panels, of their titles and of their colour bars, in shares of the figure."""
    count, matrices = len(panels), any(isinstance(panel, Matrix) for panel in panels)
    gap = 0.09 if matrices else 0.12
    length = (1 - gap * (count - 1)) / count
    legend: dict[str, Any] = {"orientation": "h", "y": -0.25 if side_by_side else -0.1}
    if matrices:
        legend |= {"x": 1, "xanchor": "right"}
    layout: dict[str, Any] = {"height": 340 if side_by_side else 340 * count, "legend": legend, "annotations": []}
    for (number, panel), title, place in zip(_numbered(panels), titles, range(count), strict=True):
        start = place * (length + gap)
        along, across = [start, min(start + length, 1.0)], [0.0, 1.0]
        x, y = (along, across) if side_by_side else (across, [1 - end for end in reversed(along)])
        if isinstance(panel, Matrix):
            room = 1 if side_by_side else 2
            bar = {"thickness": 8, "title": {"text": panel.label, "side": "right"}, "xanchor": "left"}
            bar |= {"x": x[1] - 0.07 * room, "y": y[0], "yanchor": "bottom", "len": y[1] - y[0]}
            layout[f"coloraxis{number}"] = {"colorbar": bar}
            x = [x[0], x[1] - 0.09 * room]
        elif side_by_side and matrices:
            x = [x[0] + 0.05, x[1]]  # for the label and the numbers of its axis
        layout[f"xaxis{number}"] = {"domain": x, "anchor": f"y{number}"}
        layout[f"yaxis{number}"] = {"domain": y, "anchor": f"x{number}"}
        said = {"text": title, "showarrow": False, "xref": "paper", "yref": "paper", "font": {"size": 13}}
        layout["annotations"].append(said | {"x": sum(x) / 2, "y": y[1], "yanchor": "bottom", "xanchor": "center"})
    return layout


def _merged(*layouts: dict) -> dict:
    """One layout out of several, with the parts of each axis that any of them has."""
    merged: dict[str, Any] = {}
    for layout in layouts:
        for name, part in layout.items():
            merged[name] = {**merged.get(name, {}), **part} if isinstance(part, dict) else part
    return merged


_HTML = """\
<div style="max-width:46rem">
<img alt="$DESCRIPTION" style="max-width:100%" src="data:image/png;base64,$PICTURE">
<script>
(function () {
  // A page of a built book says where the book's files are; elsewhere the picture stays.
  const place = document.currentScript.parentNode, root = document.documentElement.dataset.content_root;
  if (root === undefined) return;
  // Plotly is loaded once for all figures of a page.
  window.plotlyLoaded = window.plotlyLoaded || new Promise(resolve => {
    const script = document.createElement("script");
    script.src = root + "_static/plotly.min.js";
    script.onload = resolve;
    document.head.append(script);
  });
  const figure = $FIGURE, narrow = $NARROW, knobs = $KNOBS, alone = knobs.length === 1;
  const merged = (...layouts) => {
    const all = {autosize: true};
    for (const [name, part] of layouts.flatMap(Object.entries))
      all[name] = part !== null && part.constructor === Object ? {...all[name], ...part} : part;
    return all;
  };
  window.plotlyLoaded.then(() => {
    const picture = place.querySelector("img"), plot = document.createElement("div"), inputs = [];
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", picture.alt);
    const draw = () => {
      const at = inputs.reduce((sum, input, place) => sum * knobs[place].values.length + Number(input.value), 0);
      const layout = merged(figure.layout, figure.frames[at].layout, place.clientWidth < 560 ? narrow : {});
      Plotly.react(plot, figure.frames[at].data, layout, {responsive: true, displayModeBar: false});
    };
    for (const knob of knobs) {
      const [label, input, said] = ["label", "input", "output"].map(name => document.createElement(name));
      const say = () => {
        said.textContent = knob.label + " = " + knob.values[input.value];
        input.setAttribute("aria-valuetext", said.textContent);
      };
      Object.assign(input, {type: "range", min: 0, max: knob.values.length - 1, step: 1, value: knob.first});
      // A slider of its own is as wide as the figure, below its value; several are beside their values.
      input.style.cssText = alone ? "display:block;width:100%"
        : "width:min(14rem,52%);vertical-align:middle;margin-right:0.7rem";
      label.style.cssText = alone ? "display:block" : "display:inline-block;width:min(26rem,100%)";
      input.addEventListener("input", () => { say(); draw(); });
      label.append(...(alone ? [said, input] : [input, said]));
      place.insertBefore(label, picture);
      inputs.push(input);
      say();
    }
    picture.replaceWith(plot);
    draw();
    window.addEventListener("resize", draw);
  });
})();
</script>
</div>
"""
