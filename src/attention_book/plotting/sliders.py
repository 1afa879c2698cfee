"""Figures with a slider: panels for every position, drawn by Plotly; else a picture."""

import base64
import html
import io
import json
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


@dataclass(frozen=True)
class Slider:
    """Output of a notebook cell: HTML that is interactive in a built book, a PNG elsewhere."""

    figure: Any  # Plotly's, one frame per position
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
    """Panels side by side, one set of them per value of a quantity; `names` are texts beside its values.

    On a narrow page the panels are below each other; `picture`, a Matplotlib figure, is closed.
    """
    from plotly import graph_objects  # slow, and needed nowhere else

    texts = [f"{value:g}" for value in np.asarray(values)]
    texts = [", ".join(words) for words in zip(texts, names, strict=True)] if len(names) else texts
    checks.same("slider", "frames", len(frames), "values", len(texts))
    shown = [
        graph_objects.Frame(
            name=str(place),
            data=_traces(panels, place),
            layout=_merged(*(_axes(panel, number) for number, panel in _numbered(panels))),
        )
        for place, panels in enumerate(frames)
    ]
    layout = {
        "template": "simple_white",
        "colorway": list(COLOURS.values()),
        "showlegend": any(len(one.lines) > 1 for one in frames[0]),
        "margin": {"l": 55, "r": 15, "t": 20, "b": 50},
        "dragmode": False,  # a finger on it scrolls the page
    }
    wide, narrow = (_arranged(frames[0], side_by_side) for side_by_side in (True, False))
    figure = graph_objects.Figure(shown[first].data, _merged(layout, wide, shown[first].layout.to_plotly_json()), shown)
    png = io.BytesIO()
    picture.savefig(png, format="png", dpi=90)
    plt.close(picture)
    filled = string.Template(_HTML).substitute(
        DESCRIPTION=html.escape(description),
        PICTURE=base64.b64encode(png.getvalue()).decode(),
        FIGURE=figure.to_json(),
        NARROW=json.dumps(narrow),
        KNOB=json.dumps({"label": label, "values": texts, "first": first}),
    )
    return Slider(figure, filled, png.getvalue())


def _numbered(panels: Sequence[Panel]):
    """Panels with the number of their axes, as Plotly counts: "", 2, 3, .."""
    return zip(["", *range(2, len(panels) + 1)], panels, strict=True)


def _traces(panels: Sequence[Panel], frame: int) -> list[dict]:
    """Plotly's traces of a frame, in single precision; equal names are in the legend once."""
    traces: list[dict[str, Any]] = []
    names: set[str] = set()
    for number, panel in _numbered(panels):
        axes: dict[str, Any] = {"xaxis": f"x{number}", "yaxis": f"y{number}"}
        for name, line in panel.lines.items():
            x, y = (np.asarray(checks.array(f"frames[{frame}], {name!r}", one, "points"), np.float32) for one in line)
            checks.same(f"frames[{frame}], {name!r}", "x", len(x), "y", len(y))
            colour = panel.colours.get(name)
            paint = {} if colour is None else {"color": to_hex(COLOURS.get(colour, colour))}
            trace = {"type": "scatter", "x": x, "y": y, "name": name, "showlegend": name not in names, **axes}
            traces.append(trace | {"mode": "lines", "line": paint | {"width": 1.4}})
            names.add(name)
    return traces


def _axes(panel: Panel, number) -> dict:
    """Axes of one panel in Plotly's layout."""
    layout = {}
    for letter in "xy":
        title, ends, scale = (getattr(panel, letter + what) for what in ("label", "lim", "scale"))
        axis = {"title": {"text": title}, "type": scale} | ({"dtick": 1} if scale == "log" else {})  # decades alone
        if ends is not None:
            axis["range"] = [float(end) for end in (np.log10(ends) if scale == "log" else ends)]
        layout[f"{letter}axis{number}"] = axis
    return layout


def _arranged(panels: Sequence[Panel], side_by_side: bool) -> dict:
    """Places of panels in shares of the figure."""
    count, gap = len(panels), 0.12
    length = (1 - gap * (count - 1)) / count
    legend: dict[str, Any] = {"orientation": "h", "y": -0.25 if side_by_side else -0.1}
    layout: dict[str, Any] = {"height": 340 if side_by_side else 340 * count, "legend": legend}
    for (number, _), place in zip(_numbered(panels), range(count), strict=True):
        start = place * (length + gap)
        along, across = [start, min(start + length, 1.0)], [0.0, 1.0]
        x, y = (along, across) if side_by_side else (across, [1 - end for end in reversed(along)])
        layout[f"xaxis{number}"] = {"domain": x, "anchor": f"y{number}"}
        layout[f"yaxis{number}"] = {"domain": y, "anchor": f"x{number}"}
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
  const figure = $FIGURE, narrow = $NARROW, knob = $KNOB;
  const merged = (...layouts) => {
    const all = {autosize: true};
    for (const [name, part] of layouts.flatMap(Object.entries))
      all[name] = part !== null && part.constructor === Object ? {...all[name], ...part} : part;
    return all;
  };
  window.plotlyLoaded.then(() => {
    const picture = place.querySelector("img"), plot = document.createElement("div");
    const [label, input, said] = ["label", "input", "output"].map(name => document.createElement(name));
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", picture.alt);
    const draw = () => {
      const at = Number(input.value);
      const layout = merged(figure.layout, figure.frames[at].layout, place.clientWidth < 560 ? narrow : {});
      Plotly.react(plot, figure.frames[at].data, layout, {responsive: true, displayModeBar: false});
    };
    const say = () => {
      said.textContent = knob.label + " = " + knob.values[input.value];
      input.setAttribute("aria-valuetext", said.textContent);
    };
    Object.assign(input, {type: "range", min: 0, max: knob.values.length - 1, step: 1, value: knob.first});
    input.style.cssText = "display:block;width:100%";
    label.style.cssText = "display:block";
    input.addEventListener("input", () => { say(); draw(); });
    label.append(said, input);
    place.insertBefore(label, picture);
    say();
    picture.replaceWith(plot);
    draw();
    window.addEventListener("resize", draw);
  });
})();
</script>
</div>
"""
