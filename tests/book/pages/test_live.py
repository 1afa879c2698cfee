"""The calculator of the page against the library."""

import json
import shutil
import subprocess
from importlib import resources

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.pages import live

POINTS = [
    (width, temperature, heads)
    for width, temperature in [(3, 1.0), (10, 0.01), (30, 0.1), (300, 0.003), (jnp.inf, 0.01)]
    for heads in [((0, 1), (0, 1)), ((0, 1), (0,)), ((1,), (0, 1)), ((0,), (0,))]
]
SOLVE = """
const found = POINTS.map(([width, temperature, heads]) =>
  solveNetwork(task, { width: width ?? Infinity, temperature, heads }));
console.log(JSON.stringify(found.map(({ U, accuracy }) => ({ U, accuracy }))));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_javascript_of_the_calculator_solves_what_the_library_solves():
    trial = sma.tasks.HiddenMarkov().trial(60, 200, key=jax.random.key(5))
    script = live.calculator(trial).html.partition("const TASK = ")[2].partition(";\n")[0]
    points = json.dumps([(None if width == jnp.inf else width, *rest) for width, *rest in POINTS])
    solver = (resources.files("attention_book.pages.live") / "saddle_point.js").read_text()
    program = f"{solver}\nconst task = loadTask({script}), POINTS = {points};\n{SOLVE}"
    answer = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, check=True)
    trial = live.rounded(trial)
    for (width, temperature, heads), found in zip(POINTS, json.loads(answer.stdout), strict=True):
        problem = sma.Problem(trial.train.keep_heads(heads), trial.labels, width=width, temperature=temperature)
        solution = sma.solve(problem)
        np.testing.assert_allclose(found["U"], solution.order_parameter, rtol=1e-5, atol=1e-5)
        mean = solution.predict(trial.test.keep_heads(heads)).mean
        assert abs(found["accuracy"] - sma.accuracy(mean, trial.test_labels)) <= 0.5 / len(mean)


def test_inputs_of_the_calculator_are_rounded_by_half_a_level():
    trial = sma.tasks.HiddenMarkov().trial(10, 10, key=jax.random.key(5))
    apart = live.rounded(trial).train.values - trial.train.values
    assert 0 < jnp.abs(apart).max() <= jnp.abs(trial.train.values).max() / 2 / 127
