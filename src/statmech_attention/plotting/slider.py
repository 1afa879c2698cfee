"""A figure with a slider: phase portraits and spectra, computed beforehand, turned over in the browser.

No server and no library: numbers, quantised, and a few lines of JavaScript stand in the page. Where there is no JavaScript, and
in print, there is a picture.
"""

import base64
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from statmech_attention.plotting.panels import new_figure
from statmech_attention.plotting.regimes import REGIME_COLOURS, phase_portrait, spectrum

_LEVELS = 4096  # of a coordinate: two characters of base 64
_DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


@dataclass(frozen=True)
class Slider:
    """What a notebook shows: HTML with a slider in a browser, a PNG elsewhere.

    Attributes:
        html: the interactive figure; complete in itself.
        png: the picture that stands for it.
    """

    html: str
    png: bytes

    def _repr_mimebundle_(self, include=None, exclude=None) -> dict:
        return {"text/html": self.html, "image/png": base64.b64encode(self.png).decode()}


def portrait_slider(
    parameter,
    portraits,
    frequencies,
    powers,
    *,
    regimes: Sequence[str],
    names: Sequence[str] | None = None,
    symbol: str = "β",
    first: int = 0,
    shown: Sequence[int] = (0,),
    decades: float = 10.0,
    description: str,
) -> Slider:
    """Phase portrait and power spectrum, one a value of a parameter that a slider goes through.

    Args:
        parameter: `(networks,)`.
        portraits: `(networks, points, 2)`, the two overlaps.
        frequencies: `(bins,)`, evenly spaced.
        powers: `(networks, bins)`, positive.
        regimes: `(networks,)` names in `REGIME_COLOURS`.
        names: `(networks,)`, what is said of each beside the value; the regimes where None.
        symbol: of the parameter, in plain text.
        first: the network shown at first.
        shown: networks in the picture for where there is no JavaScript, at most four.
        decades: how far below each largest value the spectra go.
        description: alternative text.

    Returns:
        `Slider`.

    Raises:
        ValueError: shapes that do not fit each other, an unknown regime, a network that there is not.
    """
    parameter, portraits, powers = (np.asarray(values, float) for values in (parameter, portraits, powers))
    count = len(parameter)
    names = list(regimes if names is None else names)
    if portraits.shape[::2] != (count, 2) or powers.shape != (count, len(frequencies)) or len(regimes) != count:
        raise ValueError(
            f"portraits, powers, regimes: wanted one of each for {count} values of the parameter, "
            f"got {portraits.shape}, {powers.shape} and {len(regimes)}."
        )
    if not set(regimes) <= set(REGIME_COLOURS):
        raise ValueError(f"regimes: wanted names out of {list(REGIME_COLOURS)}, got {sorted(set(regimes))}.")
    if not all(0 <= place < count for place in (first, *shown)):
        raise ValueError(f"first, shown: wanted numbers of networks in 0..{count - 1}, got {first} and {list(shown)}.")
    limits = [_limit(points) for points in portraits]
    logs = np.log10(powers / powers.max(axis=1, keepdims=True)).clip(-decades, 0)
    png = _picture(parameter, portraits, frequencies, powers, regimes, shown, symbol, limits, decades)
    data = {
        "values": [f"{value:g}" for value in parameter],
        "names": names,
        "colours": [REGIME_COLOURS[name] for name in regimes],
        "points": [
            _packed((points.reshape(-1) / limit + 1) / 2) for points, limit in zip(portraits, limits, strict=True)
        ],
        "powers": [_packed(log / decades + 1) for log in logs],
        "limits": limits,
        "highest": float(np.max(frequencies)),
        "decades": decades,
        "symbol": symbol,
    }
    text = json.dumps(data, separators=(",", ":"))
    mark = "s" + hashlib.sha256(text.encode()).hexdigest()[:10]
    html = _HTML
    for name, value in {
        "MARK": mark,
        "LAST": str(count - 1),
        "FIRST": str(first),
        "SYMBOL": symbol,
        "DESCRIPTION": description.replace('"', "&quot;"),
        "PICTURE": base64.b64encode(png).decode(),
        "DATA": text.replace("</", "<\\/"),
    }.items():
        html = html.replace(f"%{name}%", value)
    return Slider(html, png)


def _limit(points) -> float:
    """The end of an axis that holds all points: 1, 2 or 5 times a power of ten."""
    largest = max(float(np.max(np.abs(points))), 1e-12)
    power = np.floor(np.log10(largest))
    return next(float(f"{end}e{power:.0f}") for end in (1, 2, 5, 10) if end * 10.0**power >= largest)


def _packed(shares) -> str:
    """Numbers in [0, 1] as two characters each."""
    whole = np.rint(np.clip(shares, 0, 1) * (_LEVELS - 1)).astype(int)
    return "".join(_DIGITS[number >> 6] + _DIGITS[number & 63] for number in whole)


def _picture(parameter, portraits, frequencies, powers, regimes, shown, symbol, limits, decades) -> bytes:
    shown = list(shown)[:4]
    figure, axes = new_figure(len(shown), 2, figsize=(5.4, 2.6 * len(shown)), squeeze=False)
    for (left, right), place in zip(axes, shown, strict=True):
        phase_portrait(*portraits[place].T, regime=regimes[place], axes=left)
        ends = (-limits[place], limits[place])
        left.set(xlim=ends, ylim=ends, title=f"{symbol} = {parameter[place]:g}")
        spectrum(frequencies, powers[place], regime=regimes[place], decades=decades, axes=right)
        right.set_title(regimes[place])
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=90)
    plt.close(figure)
    return buffer.getvalue()


_HTML = """\
<div id="%MARK%" class="portrait-slider" style="max-width:44rem">
<noscript><img alt="%DESCRIPTION%" style="max-width:100%" src="data:image/png;base64,%PICTURE%"></noscript>
<div hidden>
<label for="%MARK%-range" style="display:block">inverse temperature <b>%SYMBOL% = <output id="%MARK%-value"></output></b>
<span id="%MARK%-name"></span></label>
<input id="%MARK%-range" type="range" min="0" max="%LAST%" step="1" value="%FIRST%" style="width:100%;height:2rem">
<div style="display:flex;flex-wrap:wrap;gap:0.5rem">
<canvas role="img" aria-label="Phase portrait. %DESCRIPTION%" style="flex:1 1 17rem;min-width:0;max-width:100%"></canvas>
<canvas role="img" aria-label="Power spectrum. %DESCRIPTION%" style="flex:1 1 17rem;min-width:0;max-width:100%"></canvas>
</div></div>
<script>
(function () {
  const root = document.getElementById("%MARK%"), data = %DATA%;
  const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const range = document.getElementById("%MARK%-range"), panels = root.querySelectorAll("canvas");
  const unpack = text => {
    const found = new Float32Array(text.length / 2);
    for (let i = 0; i < found.length; i++)
      found[i] = (64 * digits.indexOf(text[2 * i]) + digits.indexOf(text[2 * i + 1])) / 4095;
    return found;
  };
  const axes = (canvas, across, upwards, ticks, marks) => {
    const side = canvas.parentNode.clientWidth < 560 ? canvas.parentNode.clientWidth : canvas.parentNode.clientWidth / 2 - 6;
    const sharp = window.devicePixelRatio || 1, height = Math.min(side, 340);
    canvas.width = side * sharp; canvas.height = height * sharp;
    canvas.style.height = height + "px";
    const pen = canvas.getContext("2d"), ink = getComputedStyle(root).color;
    pen.scale(sharp, sharp);
    const box = {x: 52, y: 10, w: side - 62, h: height - 52};
    pen.strokeStyle = pen.fillStyle = ink; pen.lineWidth = 1; pen.font = "13px sans-serif";
    pen.beginPath(); pen.moveTo(box.x, box.y); pen.lineTo(box.x, box.y + box.h); pen.lineTo(box.x + box.w, box.y + box.h); pen.stroke();
    pen.textAlign = "center"; pen.textBaseline = "top";
    for (const [share, text] of ticks) pen.fillText(text, box.x + share * box.w, box.y + box.h + 5);
    pen.fillText(across, box.x + box.w / 2, box.y + box.h + 22);
    pen.textAlign = "right"; pen.textBaseline = "middle";
    for (const [share, text] of marks) pen.fillText(text, box.x - 5, box.y + (1 - share) * box.h);
    pen.save(); pen.translate(10, box.y + box.h / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center"; pen.fillText(upwards, 0, 0); pen.restore();
    return [pen, box];
  };
  const draw = () => {
    const place = Number(range.value);
    document.getElementById("%MARK%-value").textContent = data.values[place];
    document.getElementById("%MARK%-name").textContent = data.names[place];
    range.setAttribute("aria-valuetext", data.symbol + " = " + data.values[place] + ", " + data.names[place]);
    const limit = data.limits[place];
    const ends = [[0.02, String(-limit).replace("-", "\\u2212")], [0.5, "0"], [0.98, String(limit)]];
    let [pen, box] = axes(panels[0], "overlap m\\u2081", "overlap m\\u2082", ends, ends);
    const points = unpack(data.points[place]), seen = new Set();
    for (let i = 0; i < points.length; i += 2) seen.add(points[i] + " " + points[i + 1]);
    const size = seen.size < 400 ? 4 : 1.6;
    pen.fillStyle = data.colours[place];
    for (let i = 0; i < points.length; i += 2)
      pen.fillRect(box.x + points[i] * box.w - size / 2, box.y + (1 - points[i + 1]) * box.h - size / 2, size, size);
    const steps = [0, 0.125, 0.25, 0.375, 0.5].map(f => [f / data.highest, String(f)]).filter(pair => pair[0] <= 1.001);
    [pen, box] = axes(panels[1], "frequency (a step)", "log\\u2081\\u2080 power", steps,
      [0, 0.5, 1].map(share => [share, String(Math.round((share - 1) * data.decades)).replace("-", "\\u2212")]));
    const powers = unpack(data.powers[place]);
    pen.strokeStyle = data.colours[place]; pen.beginPath();
    powers.forEach((value, i) => pen.lineTo(box.x + i / (powers.length - 1) * box.w, box.y + (1 - value) * box.h));
    pen.stroke();
  };
  root.querySelector("div[hidden]").hidden = false;
  range.addEventListener("input", draw);
  window.addEventListener("resize", draw);
  draw();
})();
</script>
</div>
"""
