"""The recorded theory against the solver and the predictor called directly; done once, resumed, refused."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.measures import centred_alignment

from .conftest import network_in, random_network
from .shared import *  # noqa: F403
from .shared import test_an_interrupted_run_goes_on_and_ends_the_same  # noqa: F401

EXPERIMENT = "Theory"
SETTINGS = dict(layers=2, heads=2, draws=2, examples=30, test_examples=40)
SETTINGS |= dict(widths=(300, 10), temperatures=(0.5, 0.05))
WRONG = [{"draws": 0}, {"widths": ()}, {"widths": (10, 10)}, {"temperatures": (0.0,)}, {"kind": "gated"}]


def prepare(folder):
    network_in(folder, (2, 2))


def samples(suite, number):
    """The sequences of a draw, drawn here once more."""
    key = jax.random.fold_in(jax.random.key(0), number)
    train_key, _, *test_keys = jax.random.split(key, 4)
    tests = {name: suite.test(key, 40, name) for key, name in zip(test_keys, suite.test_sets, strict=True)}
    return suite.train(train_key, 30), tests


def test_every_point_is_that_of_solver_and_predictor(found, suite):
    network = random_network((2, 2))
    assert found["width"].values.tolist() == [10, 300] and found["temperature"].values.tolist() == [0.05, 0.5]
    for number in range(2):
        train, tests = samples(suite, number)
        seen = {
            name: sma.attentioned_inputs(test.inputs, network.attention, readout="mean") for name, test in tests.items()
        }
        xi = sma.attentioned_inputs(train.inputs, network.attention, readout="mean")
        for width in (10, 300):
            here = found.sel(draw=number, width=width)
            for temperature in (0.05, 0.5):
                one = here.sel(temperature=temperature)
                solution = sma.solve(sma.Problem(xi, train.labels, width=width, temperature=temperature))
                np.testing.assert_allclose(one["action"], solution.action, rtol=1e-8)
                for name, test in tests.items():
                    wanted = sma.accuracy(solution.predict(seen[name]).mean, test.labels)
                    assert one["accuracy"].sel(test_set=name).item() == pytest.approx(float(wanted), abs=1e-12)
                if one["best_temperature"] == temperature:
                    np.testing.assert_allclose(here["order_parameter"], solution.order_parameter, atol=1e-6)
                    gram = solution.kernel()
                    wanted = centred_alignment(gram, train.labels)
                    np.testing.assert_allclose(here["alignment"], wanted, rtol=1e-5)
        temperature = found["gp_best_temperature"].sel(draw=number).item()
        identity = sma.theory.gp_order_parameters((2, 2))[0]
        for name, test in tests.items():
            mean = sma.predict(sma.Problem(xi, train.labels, temperature=temperature), seen[name], identity).mean
            one = found["gp_accuracy"].sel(draw=number, test_set=name, temperature=temperature)
            assert one.item() == pytest.approx(float(sma.accuracy(mean, test.labels)), abs=1e-12)


def test_the_best_temperature_is_chosen_in_distribution(found):
    first = found["accuracy"].isel(test_set=0)
    assert (first.sel(temperature=found["best_temperature"]) == first.max("temperature")).all()
    assert (found["gradient_norm"] < 1e-6).all() and (found["outcome"] == 0).all()


def test_another_network_is_a_reason_and_none_is_an_error(recorded, small, make, tmp_path):
    (tmp_path / recorded.name).write_bytes(recorded.read_bytes())
    with pytest.raises(FileNotFoundError, match=r"network-2x2-seed0\.nc: no recorded result"):
        small("Theory", tmp_path, **SETTINGS).run()
    network_in(tmp_path, (2, 2), seed=5)
    assert make(tmp_path).reason == "another network"
