"""A figure with several sliders: lines and matrices, computed beforehand for every combination of their values.

As in `interactive`, nothing is loaded from elsewhere, and a picture stands where no script runs. The sliders are the browser's own.
"""

import base64
import html
import io
import json
import math
import string
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_hex

from attention_book.plotting.interactive import LOADER, Panel, Slider, axes_of, lines_of
from statmech_attention import checks


class Matrix(NamedTuple):
    """A panel that shows a matrix as colours.

    Attributes:
        values: `(rows, columns)`, the first row on top.
        limits: ends of the colour scale.
        names: one text a row and column; none where empty.
        label: of the colour bar, in plain text.
        scale: a colour map of Matplotlib.
    """

    values: Any
    limits: tuple[float, float]
    names: Sequence[str] = ()
    label: str = ""
    scale: str = "RdBu_r"


class Knob(NamedTuple):
    """One slider.

    Attributes:
        label: what its values are, in plain text, as "width N".
        values: `(positions,)`.
        first: the position at first.
    """

    label: str
    values: Sequence[float]
    first: int = 0


def sliders(
    frames: Sequence[Sequence[Panel | Matrix]],
    knobs: Sequence[Knob],
    *,
    titles: Sequence[str],
    picture: Any,
    description: str,
):
    """Panels side by side, one set of them for every combination of values; below each other where the page is narrow.

    Args:
        frames: one a combination, the last slider fastest; each the same number of panels with the same lines and sizes.
        knobs: the sliders, at least one.
        titles: one text a panel.
        picture: a Matplotlib figure for where no script runs; it is closed.
        description: alternative text.

    Returns:
        `Slider`; its figure has one frame a combination, named by the positions of the sliders, as "0,2".

    Raises:
        ValueError: frames that do not fit each other or the knobs, numbers that are not finite.
    """
    from plotly import graph_objects  # slow, and needed nowhere else
    from plotly.io.json import to_json_plotly

    shape = tuple(len(knob.values) for knob in knobs)
    checks.same("sliders", "frames", len(frames), "combinations of values", math.prod(shape))
    for knob in knobs:
        if not 0 <= knob.first < len(knob.values):
            raise ValueError(f"{knob.label}: wanted a first position in 0..{len(knob.values) - 1}, got {knob.first}.")
    kinds = [[_kind(panel) for panel in panels] for panels in frames]
    if len(kinds[0]) != len(titles) or any(found != kinds[0] for found in kinds):
        raise ValueError(f"frames: wanted the same {len(titles)} panels in all, got {kinds[0]} and others.")
    numbers = ["", *range(2, len(titles) + 1)]
    shown = [
        graph_objects.Frame(
            name=",".join(map(str, np.unravel_index(place, shape))),
            data=[
                trace for number, panel in zip(numbers, panels, strict=True) for trace in _traces(panel, number, place)
            ],
        )
        for place, panels in enumerate(frames)
    ]
    first = int(np.ravel_multi_index([knob.first for knob in knobs], shape))
    layout: dict[str, Any] = {
        "template": "simple_white",
        "showlegend": any(isinstance(one, Panel) and len(one.lines) > 1 for one in frames[0]),
    }
    for number, panel in zip(numbers, frames[first], strict=True):
        layout |= axes_of(panel, number) if isinstance(panel, Panel) else _cells(panel, number)
    wide, narrow = (_arranged(frames[first], titles, side_by_side) for side_by_side in (True, False))
    figure = graph_objects.Figure(shown[first].data, _merged(layout, wide), shown)
    png = io.BytesIO()
    picture.savefig(png, format="png", dpi=90)
    plt.close(picture)
    filled = string.Template(_HTML).substitute(
        LOADER=LOADER,
        DESCRIPTION=html.escape(description),
        PICTURE=base64.b64encode(png.getvalue()).decode(),
        FRAMES=to_json_plotly([{"data": graph_objects.Figure(frame.data).to_dict()["data"]} for frame in shown]),
        LAYOUTS=to_json_plotly(
            [graph_objects.Figure([], _merged(layout, one)).to_dict()["layout"] for one in (wide, narrow)]
        ),
        KNOBS=json.dumps(
            [
                {"label": one.label, "values": [f"{value:g}" for value in one.values], "first": one.first}
                for one in knobs
            ]
        ),
    )
    return Slider(figure, filled, png.getvalue())


def _kind(panel: Panel | Matrix):
    return list(panel.lines) if isinstance(panel, Panel) else (*np.shape(panel.values), *panel.limits)


def _traces(panel: Panel | Matrix, number, frame: int) -> list[dict]:
    if isinstance(panel, Panel):
        return lines_of(panel, number, frame)
    values = np.asarray(checks.array(f"frames[{frame}]", panel.values, "rows columns"), np.float32)
    trace = {
        "type": "heatmap",
        "z": values,
        "xaxis": f"x{number}",
        "yaxis": f"y{number}",
        "coloraxis": f"coloraxis{number}",
    }
    if len(panel.names):
        trace |= {"texttemplate": "%{z:.2f}"}
    return [trace]


def _cells(panel: Matrix, number) -> dict:
    """Axes and colours of a matrix: squares, the first row on top."""
    axis = {
        "tickvals": list(range(len(panel.names))),
        "ticktext": list(panel.names),
        "ticks": "",
        "showline": False,
        "tickfont": {"size": 10},
    }
    return {
        f"xaxis{number}": axis | {"constrain": "domain"},
        f"yaxis{number}": axis | {"autorange": "reversed", "scaleanchor": f"x{number}", "constrain": "domain"},
        f"coloraxis{number}": {
            "cmin": float(panel.limits[0]),
            "cmax": float(panel.limits[1]),
            "colorscale": _scale(panel.scale),
        },
    }


def _scale(name: str) -> list:
    """A colour map of Matplotlib in Plotly's form."""
    places = np.linspace(0, 1, 17)
    return [[float(place), to_hex(colour)] for place, colour in zip(places, plt.get_cmap(name)(places), strict=True)]


def _arranged(panels: Sequence[Panel | Matrix], titles: Sequence[str], side_by_side: bool) -> dict:
    """Where panels, their titles and colour bars are, in shares of the figure."""
    count, gap = len(panels), 0.09
    length = (1 - gap * (count - 1)) / count
    layout: dict[str, Any] = {
        "height": 330 if side_by_side else 330 * count,
        "margin": {"l": 55, "r": 15, "t": 40, "b": 50},
        "dragmode": False,
    }
    layout["legend"] = {"orientation": "h", "y": -0.25 if side_by_side else -0.1, "x": 1, "xanchor": "right"}
    layout["annotations"] = []
    for place, (panel, title) in enumerate(zip(panels, titles, strict=True)):
        number, start = place + 1 if place else "", place * (length + gap)
        along, across = [start, min(start + length, 1.0)], [0.0, 1.0]
        x, y = (along, across) if side_by_side else (across, [1 - end for end in reversed(along)])
        if isinstance(panel, Matrix):
            bar = {
                "thickness": 8,
                "title": {"text": panel.label, "side": "right"},
                "xanchor": "left",
                "yanchor": "bottom",
            }
            bar |= {"x": x[1] - 0.07 * (1 if side_by_side else 2), "y": y[0], "len": y[1] - y[0]}
            layout[f"coloraxis{number}"] = {"colorbar": bar}
            x = [x[0], x[1] - 0.09 * (1 if side_by_side else 2)]
        elif side_by_side:
            x = [x[0] + 0.05, x[1]]  # for what stands beside its axis
        layout[f"xaxis{number}"] = {"domain": x, "anchor": f"y{number}"}
        layout[f"yaxis{number}"] = {"domain": y, "anchor": f"x{number}"}
        said = {"text": title, "showarrow": False, "xref": "paper", "yref": "paper", "font": {"size": 13}}
        layout["annotations"].append(said | {"x": sum(x) / 2, "y": y[1], "yanchor": "bottom", "xanchor": "center"})
    return layout


def _merged(one: dict, other: dict) -> dict:
    """Two layouts with parts of the same axes."""
    both = {name: {**one[name], **other[name]} for name in one.keys() & other.keys()}
    return {**one, **other, **both}


_HTML = """\
<div style="max-width:46rem">
<img alt="$DESCRIPTION" style="max-width:100%" src="data:image/png;base64,$PICTURE">
<script>
(function () {
$LOADER  const frames = $FRAMES, layouts = $LAYOUTS, knobs = $KNOBS;
  window.plotlyLoaded.then(() => {
    const picture = place.querySelector("img"), plot = document.createElement("div"), inputs = [];
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", picture.alt);
    const draw = () => {
      const at = inputs.reduce((sum, input, place) => sum * knobs[place].values.length + Number(input.value), 0);
      Plotly.react(plot, frames[at].data, {...layouts[place.clientWidth < 560 ? 1 : 0], autosize: true}, {responsive: true, displayModeBar: false});
    };
    for (const knob of knobs) {
      const label = document.createElement("label"), input = document.createElement("input"), said = document.createElement("output");
      const say = () => {
        said.textContent = knob.label + " = " + knob.values[input.value];
        input.setAttribute("aria-valuetext", said.textContent);
      };
      Object.assign(input, {type: "range", min: 0, max: knob.values.length - 1, step: 1, value: knob.first});
      input.style.cssText = "width:min(14rem,52%);vertical-align:middle;margin-right:0.7rem";
      label.style.cssText = "display:inline-block;width:min(26rem,100%)";
      input.addEventListener("input", () => { say(); draw(); });
      label.append(input, said);
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
