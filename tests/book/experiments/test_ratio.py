"""The theory over P and N at tiny size: the solver and the predictor called directly, on chains and on a network."""

import numpy as np
import pytest

import statmech_attention as sma

from .conftest import network_in
from .shared import *  # noqa: F403

EXPERIMENT = "Ratio"
SETTINGS = dict(
    network="", data="glyphs", seed=1, draws=1, counts=[6, 12], widths=[20, 10], temperatures=[0.3], test_examples=20
)
WRONG = [{"draws": 0}, {"counts": []}, {"widths": [0.0]}]


def test_every_number_is_that_of_the_solver(recorded, found, make):
    assert recorded.name == "ratio-hidden-markov.nc" and found["accuracy"].dims[:3] == ("draw", "examples", "width")
    draw = make(recorded.parent).draw(0)
    inputs = sma.AttentionedInputs(draw.train.inputs.values[:6], (2, 2))
    solved = sma.solve(sma.Problem(inputs, draw.train.labels[:6], width=10, temperature=0.3))
    one = found.sel(draw=0, examples=6, width=10, temperature=0.3)
    for name, part in (("accuracy", draw.tests["chains"]), ("validation_accuracy", draw.validation)):
        assert float(one[name]) == float(sma.accuracy(solved.predict(part.inputs).mean, part.labels))
    overlap = np.asarray(solved.order_parameter)
    size = np.mean(np.diag(overlap))
    assert float(one["scale"]) == pytest.approx(size, rel=1e-4)
    assert float(one["departure"]) == pytest.approx(np.linalg.norm(overlap / size - np.eye(4)), rel=1e-3)
    # The limit on a kernel of another size is the limit at another temperature.
    limit = sma.solve(sma.Problem(inputs, draw.train.labels[:6], width=np.inf, temperature=0.3 / size))
    test = draw.tests["chains"]
    assert float(one["rescaled"]) == float(sma.accuracy(limit.predict(test.inputs).mean, test.labels))


def test_a_networks_sequences_are_those_of_its_attention(tmp_path, make):
    network = network_in(tmp_path, (2, 2))
    experiment = make(tmp_path, network="2x2-seed0")
    draw = experiment.draw(0)
    assert list(experiment.sources) == ["network"]
    assert draw.train.inputs.layers == network.layers and len(draw.tests) == 1 and len(draw.train.labels) == 12


def test_sentences_are_those_of_the_run_at_chosen_points(tmp_path, make):
    experiment = make(tmp_path, sentences="made", counts=[10, 20], test_examples=12)
    draw = experiment.draw(1)
    assert experiment.path.name == "ratio-made.nc" and not experiment.sources
    assert draw.train.inputs.values.shape[0] == len(draw.train.labels) == 20
    assert len(draw.validation.labels) == 300 and len(draw.tests["made"].labels) == 12
    with pytest.raises(ValueError, match="network: wanted none beside sentences"):
        make(tmp_path, sentences="made", network="2x2-seed0").check()
