"""The figure to move of the 1-bit network: its JavaScript against the library."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from statmech_attention import dmft

SCRIPT = Path(__file__).parents[2] / "_static" / "live" / "one_bit.js"
POINTS = [(beta, gamma) for beta in (0.7, 1.1, 1.27, 2.0, 3.0) for gamma in (1.0, 220.0)]
PROGRAM = """
const oneBit = require(PATH);
const nets = {published: oneBit.published, cycle: oneBit.cycle(4)};
const found = {};
for (const [name, net] of Object.entries(nets))
  found[name] = POINTS.map(([beta, gamma]) => oneBit.run(net, beta, gamma, 30).seen.map(one => one.outputs));
const [beta, gamma] = [1.4, 220], settled = oneBit.run(nets.published, beta, gamma, 3000).state;
found.growth = oneBit.growth(nets.published, beta, gamma, settled, 6000);
found.periods = [[3.0, 220], [1.0, 220]].map(([beta, gamma]) => (
  oneBit.period(nets.published, beta, gamma, oneBit.run(nets.published, beta, gamma, 20000).state)));
console.log(JSON.stringify(found));
"""


def cycle():
    """Four independent words; each value pattern is the word before it, with one sign turned."""
    words = np.array([[(-1.0) ** (site >> (3 - a) & 1) for site in range(16)] for a in range(4)])
    values = np.stack([-words[3], words[0], words[1], words[2]])
    ones = np.ones((4, 2))
    pairs = {"query": words, "key": words, "value": values, "output": words}
    return dmft.patterns_from_arrays(**{name: (table, ones) for name, table in pairs.items()})


@pytest.fixture(scope="module")
def found():
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    program = PROGRAM.replace("PATH", json.dumps(str(SCRIPT))).replace("POINTS", json.dumps(POINTS))
    answer = subprocess.run(["node", "-"], input=program, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout)


@pytest.mark.parametrize("name", ["published", "cycle"])
def test_javascript_overlaps_of_1_bit_attention_are_those_of_the_library(found, name):
    patterns, epsilon = {"published": (dmft.published_patterns(), 0.02), "cycle": (cycle(), 0.0)}[name]
    beta, gamma = np.array(POINTS).T
    model = dmft.dynamics(patterns, beta=beta, gamma=gamma, epsilon=epsilon)
    wanted = dmft.trajectory(model, dmft.initial_window(model), steps=30, keep="output_words").output_words
    np.testing.assert_allclose(found[name], wanted, rtol=0, atol=1e-9)


def test_javascript_regimes_of_1_bit_attention_are_those_of_the_library(found):
    model = dmft.dynamics(dmft.published_patterns(), beta=1.4, gamma=220.0, epsilon=0.02)
    window = dmft.advance(model, dmft.initial_window(model), steps=3000)
    exponent = float(dmft.lyapunov_spectrum(model, window, steps=6000, count=1).exponents[0])
    assert found["growth"] == pytest.approx(exponent, abs=0.02)
    assert found["periods"] == [24, 4]
