"""Figures with a slider: one picture for every position, drawn by Matplotlib."""

import base64
import html
import io
import json
import re
import string
from collections.abc import Callable
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from jax.typing import ArrayLike
from matplotlib.figure import Figure

_DIGITS = re.compile(r"(\.\d)\d+")  # of coordinates: a tenth of a point is enough


@dataclass(frozen=True)
class Slider:
    """Output of a notebook cell: HTML with a slider, a PNG where no HTML is shown."""

    html: str
    png: bytes

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/html": self.html, "image/png": base64.b64encode(self.png).decode()}


def slider(
    draw: Callable[[float], Figure], values: ArrayLike, *, label: str, description: str, first: int = 0
) -> Slider:
    """Figures that `draw` makes for each value of a quantity; without JavaScript the one at place `first`."""
    values = np.asarray(values)
    pictures, png = [], io.BytesIO()
    for place, value in enumerate(values.tolist()):
        figure = draw(value)
        if place == first:
            figure.savefig(png, format="png", dpi=90)
        pictures.append(_svg(figure))
        plt.close(figure)
    filled = string.Template(_HTML).substitute(
        DESCRIPTION=html.escape(description),
        PICTURE=base64.b64encode(pictures[first].encode()).decode(),
        KNOB=json.dumps({"label": label, "values": [f"{value:g}" for value in values], "first": first}),
        PICTURES=json.dumps(pictures).replace("</", "<\\/"),
    )
    return Slider(filled, png.getvalue())


def _svg(figure: Figure) -> str:
    text = io.StringIO()
    with plt.rc_context({"svg.fonttype": "none"}):  # letters are the reader's, or each picture would have its own
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    drawing = text.getvalue()
    drawing = re.sub(r"<!--.*?-->|\s*\n\s*", " ", drawing[drawing.index("<svg") :])
    return re.sub(r'(?<= d=)"[^"]*"', lambda path: _DIGITS.sub(r"\1", path[0]), drawing)


_HTML = """\
<div style="max-width:46rem">
<img alt="$DESCRIPTION" style="width:100%" src="data:image/svg+xml;base64,$PICTURE">
<script>
(function () {
  const place = document.currentScript && document.currentScript.parentNode;
  if (!place) return;  // where outputs are added later, the picture stays
  const knob = $KNOB, pictures = $PICTURES, picture = place.querySelector("img");
  const [label, input, said] = ["label", "input", "output"].map(name => document.createElement(name));
  const show = () => {
    said.textContent = knob.label + " = " + knob.values[input.value];
    input.setAttribute("aria-valuetext", said.textContent);
    picture.src = "data:image/svg+xml," + encodeURIComponent(pictures[input.value]);
  };
  Object.assign(input, {type: "range", min: 0, max: pictures.length - 1, step: 1, value: knob.first});
  input.style.cssText = "display:block;width:100%";
  label.style.cssText = "display:block";
  input.addEventListener("input", show);
  label.append(said, input);
  place.insertBefore(label, picture);
  show();
})();
</script>
</div>
"""
