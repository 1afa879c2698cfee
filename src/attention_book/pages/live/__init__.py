"""Calculators: cells of a page that solve the theory of a small network in the reader's browser."""

import base64
import io
import json
import math
from importlib import resources
from typing import Any, NamedTuple

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from attention_book.pages.live.language import WORDS, Language
from attention_book.pages.live.language import language as language
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.plotting import COLOURS
from statmech_attention.tasks import HiddenMarkovTrial

_LARGEST = 127
_PATHS = "good", "adversarial 1", "denoising", "adversarial 2"


class Calculator(NamedTuple):
    """Output of a notebook cell: controls and panels, with all that they need."""

    html: str

    def _repr_html_(self) -> str:
        return self.html


def rounded(trial: HiddenMarkovTrial) -> HiddenMarkovTrial:
    """Return the trial with the inputs along each path rounded to 255 levels, as the page has them."""
    return trial._replace(train=_restored(trial.train), test=_restored(trial.test))


def calculator(trial: HiddenMarkovTrial, temperature: float = 0.1) -> Calculator:
    """Return the calculator for a network of two layers of two heads on these chains; it begins at a temperature."""
    if trial.train.layers != (2, 2):
        raise ValueError(f"trial: wanted inputs along the paths of layers (2, 2), got {trial.train.layers}.")
    packed = {"train": _packed(trial.train, trial.labels), "test": _packed(trial.test, trial.test_labels)}
    packed["colours"] = {name: COLOURS[name] for name in (*_PATHS, "theory", "gp")}
    page = _file("calculator.html").replace("TEMPERATURE", f"{math.log10(temperature):g}")
    return _made(page, f"const TASK = {json.dumps(packed)};", "saddle_point.js", "drawing.js", "calculator.js")


def transformer(sentences: Language, still: Any) -> Calculator:
    """Return the calculator of sentences; without JavaScript a page shows `still`, a Matplotlib figure."""
    packed = {
        "names": WORDS,
        "words": len(WORDS),
        "content": _text(np.rint(10 * sentences.content).astype(np.int8)),
        "distance": sentences.distance.tolist(),
        "train": _letters(sentences.train, sentences.labels),
        "test": _letters(sentences.test, sentences.test_labels),
        "colours": {name: COLOURS[name] for name in ("theory", "gp")},
    }
    drawn = io.BytesIO()
    still.savefig(drawn, format="svg", bbox_inches="tight")
    plt.close(still)
    source = f"data:image/svg+xml;base64,{base64.b64encode(drawn.getvalue()).decode()}"
    alt = "Accuracy against width, the order parameter and the kernel of the small transformer."
    page = _file("transformer.html").replace("STILL", f'<img class="still" alt="{alt}" src="{source}">')
    data = f"const LANGUAGE = {json.dumps(packed)};"
    return _made(page, data, "saddle_point.js", "attend.js", "drawing.js", "transformer.js")


def _made(page: str, data: str, *scripts: str) -> Calculator:
    # Wrapped in a function: a page may have more than one, and a notebook runs a cell again.
    program = "\n".join(["(() => {", data, *map(_file, scripts), "})();"])
    return Calculator(f"<style>\n{_file('calculator.css')}</style>\n{page}<script>\n{program}\n</script>")


def _file(name: str) -> str:
    return (resources.files("attention_book.pages.live") / name).read_text("utf-8")


def _levels(attentioned: AttentionedInputs):
    values = np.asarray(attentioned.values).transpose(1, 0, 2)  # the examples of a path side by side
    scales = np.abs(values).max(axis=(1, 2)) / _LARGEST
    return np.rint(values / scales[:, None, None]).astype(np.int8), scales


def _restored(attentioned: AttentionedInputs) -> AttentionedInputs:
    levels, scales = _levels(attentioned)
    values = (levels * scales[:, None, None]).transpose(1, 0, 2)
    return AttentionedInputs(jnp.asarray(values), attentioned.layers)


def _packed(attentioned: AttentionedInputs, labels) -> dict:
    levels, scales = _levels(attentioned)
    return {
        "examples": levels.shape[1],
        "features": levels.shape[2],
        "scales": scales.tolist(),
        "labels": _signs(labels),
        "inputs": _text(levels),
    }


def _letters(sentences: np.ndarray, labels: np.ndarray) -> dict:
    return {"sentences": "".join(chr(ord("a") + word) for word in sentences.ravel()), "labels": _signs(labels)}


def _signs(labels) -> str:
    return "".join("+" if label > 0 else "-" for label in np.asarray(labels))


def _text(integers: np.ndarray) -> str:
    return base64.b64encode(integers.tobytes()).decode()
