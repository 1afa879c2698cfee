"""A figure with a slider: panels computed beforehand, turned over in the browser by Plotly.

Nothing is loaded from elsewhere: a built book has Plotly among its own files. Where there is none, where no script runs, and in
print, there is a picture.
"""

import base64
import html
import io
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_hex

from attention_book.arguments import Numbers
from statmech_attention import checks
from statmech_attention.plotting.style import COLOURS

_AT_ONCE = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}


class Panel(NamedTuple):
    """What one panel shows at one position of a slider.

    Attributes:
        lines: by name two arrays `(points,)`, to the right and upwards.
        xlabel: in plain text.
        ylabel: in plain text.
        xlim: ends of the axis; those that fit where None.
        ylim: the same upwards.
        xscale: "linear" or "log".
        yscale: the same upwards.
        colours: by name of a line, a name in `COLOURS` or a Matplotlib colour.
        dots: their size in pixels; points are joined by a line where None.
        ticks: distances between ticks to the right and upwards, on a logarithmic axis in powers of ten; Plotly's own where None.
        equal: draw a unit to the right as long as one upwards.
    """

    lines: Mapping[str, tuple]
    xlabel: str = ""
    ylabel: str = ""
    xlim: tuple[float, float] | None = None
    ylim: tuple[float, float] | None = None
    xscale: str = "linear"
    yscale: str = "linear"
    colours: Mapping[str, str] = {}
    dots: float | None = None
    ticks: tuple[float | None, float | None] = (None, None)
    equal: bool = False


@dataclass(frozen=True)
class Slider:
    """What a notebook shows: HTML that is interactive in a built book, a PNG elsewhere.

    Attributes:
        figure: Plotly's figure, with the slider; its `show` and `write_html` need no book.
        html: the interactive figure, with the picture in it.
        png: the picture that stands for it.
    """

    figure: Any
    html: str
    png: bytes

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/html": self.html, "image/png": base64.b64encode(self.png).decode()}


def slider(
    frames: Sequence[Sequence[Panel]],
    values: Numbers,
    *,
    label: str,
    picture: Any,
    description: str,
    names: Sequence[str] | None = None,
    first: int = 0,
) -> Slider:
    """Panels side by side, one set of them a value that a slider goes through; below each other where the page is narrow.

    Args:
        frames: one a value, each the same number of panels with lines of the same names; kept in single precision.
        values: `(frames,)`.
        label: what the values are, in plain text, as "width N".
        picture: a Matplotlib figure for where no script runs; it is closed.
        description: alternative text.
        names: `(frames,)`, what is said of each beside its value.
        first: the frame shown at first.

    Returns:
        `Slider`.

    Raises:
        ValueError: no frames, frames that do not fit each other or their values, numbers that are not finite.
    """
    from plotly import graph_objects  # slow, and needed nowhere else

    values = np.asarray(checks.array("values", values, "frames"))
    checks.same("slider", "frames", len(frames), "values", len(values))
    checks.same("slider", "names", len(values if names is None else names), "values", len(values))
    if not 0 <= first < len(frames):
        raise ValueError(f"first: wanted the number of a frame in 0..{len(frames) - 1}, got {first}.")
    lines = [[list(panel.lines) for panel in panels] for panels in frames]
    if not lines[0] or not all(lines[0]) or any(found != lines[0] for found in lines):
        raise ValueError(f"frames: wanted panels with the same lines in all, got {lines[0]} and others.")
    said = [f"{value:g}" for value in values]
    said = [", ".join(words) for words in zip(said, *([] if names is None else [names]), strict=True)]
    shown = [
        graph_objects.Frame(name=str(place), data=_lines(panels, place), layout=_axes(panels))
        for place, panels in enumerate(frames)
    ]
    figure = graph_objects.Figure(shown[first].data, _layout(frames[first], said, label, first), shown)
    png = io.BytesIO()
    picture.savefig(png, format="png", dpi=90)
    plt.close(picture)
    filled = string.Template(_HTML).substitute(
        LOADER=LOADER,
        DESCRIPTION=html.escape(description),
        PICTURE=base64.b64encode(png.getvalue()).decode(),
        FIGURE=figure.to_json(),
    )
    return Slider(figure, filled, png.getvalue())


def _lines(panels: Sequence[Panel], frame: int) -> list[dict]:
    """Plotly's traces of a frame; it counts axes as x, x2, x3. A name that two panels share stands in the legend once."""
    numbers = ["", *range(2, len(panels) + 1)]
    traces = [trace for number, panel in zip(numbers, panels, strict=True) for trace in lines_of(panel, number, frame)]
    names = [trace["name"] for trace in traces]
    return [
        trace | {"showlegend": name not in names[:place]}
        for place, (trace, name) in enumerate(zip(traces, names, strict=True))
    ]


def lines_of(panel: Panel, number, frame: int) -> list[dict]:
    """The lines of one panel as Plotly's traces.

    Args:
        panel: what to draw.
        number: of its axes, as Plotly counts: "", 2, 3, ..
        frame: what it is a part of, for messages.

    Returns:
        A dictionary a line, with coordinates in single precision.

    Raises:
        ValueError: numbers that are not finite, or not as many to the right as upwards.
    """
    traces = []
    for name, line in panel.lines.items():
        x, y = (np.asarray(checks.array(f"frames[{frame}], {name!r}", one, "points"), np.float32) for one in line)
        checks.same(f"frames[{frame}], {name!r}", "x", len(x), "y", len(y))
        trace = {"type": "scatter", "x": x, "y": y, "name": name, "xaxis": f"x{number}", "yaxis": f"y{number}"}
        colour = panel.colours.get(name)
        look = {} if colour is None else {"color": to_hex(COLOURS.get(colour, colour))}
        if panel.dots is None:
            trace |= {"mode": "lines", "line": look | {"width": 1.4}}
        else:
            trace |= {"mode": "markers", "marker": look | {"size": panel.dots}}
        traces.append(trace)
    return traces


def _axes(panels: Sequence[Panel]) -> dict:
    layout: dict[str, Any] = {}
    for number, panel in zip(["", *range(2, len(panels) + 1)], panels, strict=True):
        layout |= axes_of(panel, number)
    return layout


def axes_of(panel: Panel, number) -> dict:
    """The axes of one panel as Plotly's layout.

    Args:
        panel: what is drawn.
        number: of its axes, as Plotly counts: "", 2, 3, ..

    Returns:
        Two entries, one an axis.
    """
    layout = {}
    for letter, distance in zip("xy", panel.ticks, strict=True):
        title, ends, scale = (getattr(panel, letter + what) for what in ("label", "lim", "scale"))
        axis = {"title": {"text": title}, "type": scale}
        if ends is not None:
            axis["range"] = [float(end) for end in (np.log10(ends) if scale == "log" else ends)]
        if distance is not None and ends is not None and scale == "linear":
            # One by one: from frame to frame Plotly changes a distance before the ends, and draws thousands in between.
            places = np.arange(np.ceil(ends[0] / distance - 1e-9), np.floor(ends[1] / distance + 1e-9) + 1)
            axis |= {"tickmode": "array", "tickvals": [float(f"{place * distance:.12g}") for place in places]}
        elif distance is not None:
            axis["dtick"] = float(distance)
        if panel.equal:
            axis["constrain"] = "domain"  # shorten the axis, not its range
        layout[f"{letter}axis{number}"] = axis
    if panel.equal:
        layout[f"yaxis{number}"]["scaleanchor"] = f"x{number}"
    return layout


def _layout(panels: Sequence[Panel], said: Sequence[str], label: str, first: int) -> dict:
    knob = {
        "active": first,
        "steps": [
            {"label": text, "method": "animate", "args": [[str(place)], _AT_ONCE]} for place, text in enumerate(said)
        ],
        "currentvalue": {"prefix": f"{label} = ", "font": {"size": 15, "color": "#222222"}},
        # Above the panels; texts at every step would run into each other.
        **{"yanchor": "bottom", "y": 1.02, "ticklen": 0, "minorticklen": 0},
        "font": {"size": 1, "color": "rgba(0,0,0,0)"},
    }
    return _axes(panels) | {
        "template": "simple_white",
        "colorway": list(COLOURS.values()),
        "grid": {"rows": 1, "columns": len(panels), "pattern": "independent"},
        "sliders": [knob],
        "showlegend": any(len(panel.lines) > 1 for panel in panels),
        "legend": {"orientation": "h", "y": -0.2},
        "margin": {"l": 60, "r": 15, "t": 20, "b": 50},
        "dragmode": False,  # a finger on it scrolls the page
    }


# The beginning of a figure's script, where it stands in the page: Plotly is loaded once for all of them.
LOADER = """\
  // A page of a built book says where the book's files are; elsewhere the picture stays.
  const place = document.currentScript.parentNode, root = document.documentElement.dataset.content_root;
  if (root === undefined) return;
  window.plotlyLoaded = window.plotlyLoaded || new Promise(resolve => {
    const script = document.createElement("script");
    script.src = root + "_static/plotly.min.js";
    script.onload = resolve;
    document.head.append(script);
  });
"""
_HTML = """\
<div style="max-width:44rem">
<img alt="$DESCRIPTION" style="max-width:100%" src="data:image/png;base64,$PICTURE">
<script>
(function () {
$LOADER  const figure = $FIGURE;
  const knob = figure.layout.sliders[0], last = knob.steps.length - 1, panels = figure.layout.grid.columns;
  const arrangement = () => {
    const rows = place.clientWidth < 560 ? panels : 1;
    return {grid: {rows: rows, columns: panels / rows, pattern: "independent"}, height: 120 + 300 * rows, autosize: true};
  };
  window.plotlyLoaded.then(() => {
    const picture = place.querySelector("img"), plot = document.createElement("div");
    const say = at => {
      plot.setAttribute("aria-valuenow", at);
      plot.setAttribute("aria-valuetext", knob.currentvalue.prefix + knob.steps[at].label);
    };
    const given = {role: "slider", tabindex: 0, "aria-label": picture.alt, "aria-valuemin": 0, "aria-valuemax": last};
    Object.entries(given).forEach(pair => plot.setAttribute(...pair));
    say(knob.active);
    picture.replaceWith(plot);
    Plotly.newPlot(plot, figure.data, {...figure.layout, ...arrangement()}, {responsive: true, displayModeBar: false})
      .then(() => Plotly.addFrames(plot, figure.frames));
    plot.on("plotly_animatingframe", event => say(event.name));
    plot.addEventListener("keydown", event => {
      const now = Number(plot.getAttribute("aria-valuenow"));
      const next = {ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, Home: 0, End: last}[event.key];
      if (next === undefined) return;
      event.preventDefault();
      Plotly.animate(plot, ...knob.steps[Math.min(Math.max(next, 0), last)].args);
    });
    window.addEventListener("resize", () => Plotly.relayout(plot, arrangement()));
  });
})();
</script>
</div>
"""
