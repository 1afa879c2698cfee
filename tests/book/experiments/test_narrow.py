"""The recorded theory of narrow heads against the solver called directly; done once, resumed, refused."""

import jax
import numpy as np
import pytest

import statmech_attention as sma

from .conftest import network_in, random_network
from .shared import *  # noqa: F403

EXPERIMENT = "NarrowHeads"
SETTINGS = dict(layers=2, heads=2, draws=2, examples=30, test_examples=40)
SETTINGS |= dict(widths=(300, 10), values=(20, 3), temperatures=(0.5, 0.1))
WRONG = [{"draws": 0}, {"widths": (np.inf,)}, {"values": ()}, ({"values": (0.5, 3)}, "Heads, values: wanted")]


def prepare(folder):
    network_in(folder, (2, 2))


def test_every_point_is_that_of_solver_and_predictor(recorded, found, suite):
    network = random_network((2, 2))
    assert recorded.name == "narrow-2x2-seed0.nc" and found["width"].values.tolist() == [10, 300]
    assert found["dimension"].values.tolist() == [3, 20, np.inf]
    assert (found["gradient_norm"] < 1e-6).all() and (found["outcome"] == 0).all()
    for number in range(2):
        # The theory's sequences, drawn as it draws them.
        train_key, _, test_key, _ = jax.random.split(jax.random.fold_in(jax.random.key(0), number), 4)
        train, test = suite.train(train_key, 30), suite.test(test_key, 40, "new")
        xi, seen = (
            sma.attentioned_inputs(one.inputs, network.attention, readout="mean").values for one in (train, test)
        )

        def told(one, heads, width, temperature, number=number, xi=xi, seen=seen, train=train, test=test):
            solution = sma.solve(sma.Problem(xi, train.labels, layers=heads, width=width, temperature=temperature))
            wanted = float(sma.accuracy(solution.predict(seen).mean, test.labels))
            one = one.sel(temperature=temperature, draw=number)
            return one, wanted, solution

        for width in (10, 300):
            for values in (3, 20, None):
                here = found.sel(width=width, dimension=values or np.inf)
                one, wanted, solution = told(here, 2 * (sma.Heads(2, values=values),), width, 0.1)
                assert one["accuracy"].sel(test_set="new").item() == pytest.approx(wanted, abs=1e-12)
                assert one["log_evidence"].item() == pytest.approx(float(sma.log_evidence(solution)), rel=1e-7)
                np.testing.assert_allclose(one["order_parameter"], solution.order_parameter, atol=1e-5)
        assert found["stage"].values.tolist() == ["U^(1)", "G^(1)", "U^(2)", "G^(2)", "U^(3)"]
        heads = 2 * (sma.Heads(2, values=7),)
        wanted = sma.theory.evidence_slopes(sma.Problem(xi, train.labels, layers=heads, temperature=0.5))
        np.testing.assert_allclose(found["gp_evidence_slope"].sel(draw=number, temperature=0.5), wanted, rtol=1e-9)
        one, wanted, solution = told(found, (2, 2), np.inf, 0.5)
        assert one["gp_accuracy"].sel(test_set="new").item() == pytest.approx(wanted, abs=1e-12)
        assert one["gp_log_evidence"].item() == pytest.approx(float(sma.log_evidence(solution)), rel=1e-9)
    narrowest, plain = (found["order_parameter"].sel(dimension=one, width=300) for one in (3, np.inf))
    assert abs(narrowest - plain).max() > 0.05
