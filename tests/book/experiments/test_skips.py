"""The record of skip connections: the solver and the sampler called directly, once."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from attention_book import results
from attention_book.experiments import experiment_of
from attention_book.experiments import skips as module
from statmech_attention import sampling

from .shared import *  # noqa: F403

EXPERIMENT = "Skips"
SETTINGS = dict(seed=3, draws=2, examples=6, test_examples=8, widths=[20, 12], temperatures=[1.0, 0.5])
SETTINGS |= dict(chains=2, warmup=20, samples=30, thinning=1)
WRONG = [{"widths": [7.5, 20]}, {"draws": 0}, {"samples": 3}]


def test_the_two_networks_see_the_same_chains(recorded):
    trials = experiment_of(recorded).trials(1)
    task = sma.tasks.HiddenMarkov()
    keys = jax.random.split(jax.random.fold_in(jax.random.key(3), 1), 3)
    attention = sma.attention_from_products(task.heads(keys[2]))
    for kind, heads in module.KINDS.items():
        for name, key, count in (("train", keys[0], 6), ("test", keys[1], 8)):
            sample = task.sample(key, count)
            wanted = sma.attentioned_inputs(sample.inputs, attention, readout="last", layers=heads)
            np.testing.assert_allclose(getattr(trials[kind], name).values, wanted.values, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(trials[kind].labels, task.sample(keys[0], 6).labels)


@pytest.mark.parametrize("kind", ["heads", "skip"])
def test_the_record_is_what_solver_and_predictor_give(recorded, kind):
    found, trial = results.load(recorded), experiment_of(recorded).trials(0)[kind]
    assert found.width.values.tolist() == [12, 20] and found.temperature.values.tolist() == [0.5, 1.0]
    solution = sma.solve(sma.Problem(trial.train, trial.labels, width=20, temperature=0.5))
    point = found.isel(draw=0, width=1, temperature=0)
    np.testing.assert_allclose(point[f"order_parameter_{kind}"], solution.order_parameter, rtol=1e-6, atol=1e-7)
    mean = solution.predict(trial.test).mean
    assert float(point[f"accuracy_{kind}"]) == pytest.approx(float(sma.accuracy(mean, trial.test_labels)))
    limit = sma.theory.gp_order_parameters(trial.train.layers)[0]
    mean = (
        sma.kernel_regression(sma.Problem(trial.train, trial.labels, temperature=0.5), limit).predict(trial.test).mean
    )
    assert float(point[f"gp_accuracy_{kind}"]) == pytest.approx(float(sma.accuracy(mean, trial.test_labels)))


def test_the_exact_posterior_is_that_of_weighted_points(recorded):
    """Importance sampling shares the density with the Markov chain and nothing else."""
    found, trial = results.load(recorded).isel(draw=0), experiment_of(recorded).trials(0)["skip"]
    problem = sma.Problem(trial.train, trial.labels, width=12, temperature=1.0)
    exact = sampling.importance(problem, key=jax.random.key(9), points=64, test=trial.test, warn=False)
    point = found.sel(temperature=1.0)
    spread = np.hypot(point["exact_order_parameter_error_skip"], exact.order_parameter.error)
    apart = np.abs(point["exact_order_parameter_skip"] - exact.order_parameter.mean) / np.maximum(spread, 1e-9)
    assert float(apart.max()) < 6
    theory = sma.solve(problem).predict(trial.test).mean
    distance = np.sqrt(np.mean((theory - exact.output.mean) ** 2))
    assert float(point["distance_skip"]) == pytest.approx(distance, abs=4 * float(point["distance_error_skip"]))
