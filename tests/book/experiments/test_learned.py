"""Climbs of learned attention at tiny size: the attention entry by entry, and the record's numbers from the library."""

import jax
import numpy as np
import pytest
import xarray as xr

import statmech_attention as sma
from attention_book import results
from attention_book.chapters.finite_width.learned import thresholds
from attention_book.experiments import learned

from .shared import *  # noqa: F403

EXPERIMENT = "Learned"
SETTINGS = dict(seed=1, draws=2, starts=1, examples=[20], widths=[10], steps=3, test_examples=20, descents=1)
SETTINGS["hardness_examples"] = 10
WRONG = [{"draws": 0}, {"starts": 0}, {"examples": []}, {"widths": [0]}, {"steps": 0}, {"test_examples": 1}]


def test_attention_is_a_softmax_of_position_state_and_empty_token():
    theta = learned.random_start(jax.random.key(0))
    inputs = learned.TASK.sample(jax.random.key(1), 2).inputs
    key, query, head = 4, 6, 1
    for layer, found in enumerate(learned.attention(theta, inputs)):
        table, same, empty = (np.asarray(theta[name][layer, head]) for name in ("positions", "same", "empty"))
        along = np.asarray(inputs[1, :, :10].sum(axis=1) - inputs[1, :, 10:20].sum(axis=1)) * np.sqrt(2) / 20
        logits = [
            table[int(np.clip(one - query, -3, 3)) + 3] + same * along[one] * along[query] + empty * (one == 0)
            for one in range(21)
        ]
        wanted = np.exp(logits[key]) / np.exp(logits).sum()
        assert float(found[1, head, key, query]) == pytest.approx(wanted, rel=1e-10)


def test_the_record_has_the_ends_of_the_climbs(found, make, tmp_path):
    assert found.accuracy.sizes == {"examples": 1, "width": 2, "draw": 2, "start": 1}
    train, test = make(tmp_path).sets(1, 20)
    one = found.isel(examples=0, width=1, draw=1, start=0)
    theta = learned.restored(one.theta.values)
    assert float(one.width) == np.inf
    problem = sma.Problem(
        learned.seen(theta, train.inputs), train.labels, width=np.inf, temperature=float(np.exp(theta["heat"]))
    )
    solution = sma.solve(problem)
    right = sma.accuracy(solution.predict(learned.seen(theta, test.inputs)).mean, test.labels)
    assert float(one.accuracy) == pytest.approx(float(right), abs=1e-12)
    assert float(one.log_posterior) == pytest.approx(float(solution.log_evidence() + learned.log_prior(theta)))


def test_climbs_with_nothing_beside_them_are_the_same(found, make, tmp_path):
    alone = results.load(make(tmp_path, descents=0).run(progress=False))
    assert {*alone} == {"accuracy", "log_posterior", "theta"}
    np.testing.assert_allclose(alone.theta, found.theta, rtol=1e-9, atol=1e-9)


def test_a_threshold_is_where_lasting_success_begins():
    accuracy = [[[0.5], [0.95], [0.5]], [[0.95], [0.5], [0.5]], [[0.95], [0.95], [0.5]]]
    axes = {"examples": [100, 200, 500], "width": [10.0]}
    found = xr.Dataset({"accuracy": (("width", "examples", "draw", "start"), [accuracy])}, axes)
    np.testing.assert_array_equal(thresholds(found, 10.0), [200, 500, 1000])
