"""Climbs of learned attention at tiny size: the attention entry by entry, and the record's numbers from the library."""

import jax
import numpy as np
import pytest
import scipy.stats
import xarray as xr

import statmech_attention as sma
from attention_book import results
from attention_book.chapters.finite_width.learned import favoured, thresholds
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
    assert float(one.log_posterior) == pytest.approx(float(sma.log_evidence(solution) + learned.log_prior(theta)))


def test_climbs_with_less_beside_them_are_the_same(found, make, tmp_path):
    climbs = {"accuracy", "log_posterior", "theta"}
    alone = results.load(make(tmp_path, descents=0).run(progress=False))
    assert {*alone} == climbs
    np.testing.assert_allclose(alone.theta, found.theta, rtol=1e-9, atol=1e-9)
    compared = results.load(make(tmp_path / "compared", hardness_examples=0).run(progress=False))
    assert {*compared} == climbs | {"designed_accuracy", "designed_evidence", "descent_accuracy"}


def test_one_hardness_per_head_is_that_of_scaled_heads(found, make, tmp_path):
    task = sma.tasks.HiddenMarkov(hardness=1)
    train, test, key = jax.random.split(jax.random.fold_in(jax.random.key(SETTINGS["seed"] + 3), 1), 3)
    sets, heads = (task.sample(train, 10), task.sample(test, 20)), task.heads(key)
    one = found.isel(draw=1, width=0).sel(each="head")
    scaled = [
        np.asarray(head) * scale[:, None, None] for head, scale in zip(heads, one.each_hardness.values, strict=True)
    ]
    along = [sma.attentioned_inputs(part.inputs, sma.attention_from_products(scaled)) for part in sets]
    solution = sma.solve(sma.Problem(along[0], sets[0].labels, width=10, temperature=0.01))
    assert float(one.each_evidence) == pytest.approx(float(sma.log_evidence(solution)))
    assert float(one.each_accuracy) == pytest.approx(
        float(sma.accuracy(solution.predict(along[1]).mean, sets[1].labels))
    )
    common, layers = (found.each_hardness.isel(draw=1, width=0).sel(each=each).values for each in ("one", "layer"))
    assert np.ptp(common) == 0 < np.ptp(one.each_hardness.values)
    assert np.ptp(layers[0]) == np.ptp(layers[1]) == 0 < np.ptp(layers[:, 0])


def test_samples_have_normal_scores_and_both_families(found):
    assert found.sampled_score.sizes == {"family": 2, "labels": 4, "chain": 2}
    assert [*found.labels.values] == [2, 5, 10, 20]
    residual, variance = np.array([0.3, -1.0]), np.array([0.5, 2.0])
    wanted = scipy.stats.norm.logpdf(residual, scale=np.sqrt(variance))
    np.testing.assert_allclose(learned._log_density(residual, np.zeros(2), variance), wanted)


def test_a_threshold_is_where_lasting_success_of_the_kept_start_begins():
    good, bad = [0.5, 0.95], [0.95, 0.5]  # the second start has the larger log posterior
    accuracy = np.array([[[bad, good, bad], [good, bad, bad], [good, good, bad]]])
    axes = {"examples": [100, 200, 500], "width": [10.0]}
    values = {"accuracy": accuracy, "log_posterior": np.broadcast_to([-2.0, -1.0], accuracy.shape)}
    found = xr.Dataset({name: (("width", "examples", "draw", "start"), one) for name, one in values.items()}, axes)
    np.testing.assert_array_equal(thresholds(found, 10.0), [200, 500, 1000])


def test_a_difference_of_scores_adds_up_to_evidence():
    dims, scores = ("family", "labels", "chain"), np.array([[[-1.0, -9], [-1.5, -9]], [[-0.9, -9], [-1.0, -9]]])
    values = {f"sampled_{name}": (dims, scores) for name in ("score", "accuracy", "heat", "density")}
    values |= {f"maximum_{name}": (dims[:2], scores[..., 0]) for name in ("score", "accuracy", "heat")}
    values["maximum_evidence"] = (("family", "labels", "end"), scores)
    found = xr.Dataset(values, {"family": [*learned.FAMILIES], "labels": [100, 200]})
    total, apart = favoured(found)
    assert total == pytest.approx(100 * (0.1 + 0.5) / 2) and apart == pytest.approx({100: 0.1, 200: 0.5})
