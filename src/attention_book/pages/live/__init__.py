"""The calculator: a page that solves the theory of a small network in the reader's browser."""

import base64
import json
import math
from importlib import resources
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.plotting import COLOURS
from statmech_attention.tasks import HiddenMarkovTrial

_LARGEST = 127
_SCRIPTS = "saddle_point.js", "calculator.js"
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
    parts = [f"const TASK = {json.dumps(packed)};", *(_file(name) for name in _SCRIPTS)]
    # Wrapped in a function: a page may have more than one, and a notebook runs a cell again.
    page = _file("calculator.html").replace("TEMPERATURE", f"{math.log10(temperature):g}")
    return Calculator("{}<script>\n(() => {{\n{}\n}})();\n</script>".format(page, "\n".join(parts)))


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
        "labels": "".join("+" if label > 0 else "-" for label in np.asarray(labels)),
        "inputs": base64.b64encode(levels.tobytes()).decode(),
    }
