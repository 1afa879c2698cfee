"""The recorded draws of weights: those of the sampler called directly, once, resumed, refused."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from attention_book import experiments, results
from statmech_attention import sampling

from .shared import *  # noqa: F403

EXPERIMENT = "HiddenMarkovWeights"
SETTINGS = dict(width=2, seed=3, network="good and denoising", noise=0.5, temperature=1.0, examples=6, test_examples=5)
SETTINGS |= dict(chains=2, warmup=60, draws=60, thinning=1)
WRONG = [{"network": "good"}, {"width": 0}, {"draws": 2}, {"temperature": 0.0}, {"chains": 1}]


KEY = jax.random.fold_in(jax.random.key(3), 2)


def problem_of(trial):
    return sma.Problem(trial.train, trial.labels, width=2, temperature=1.0)


@pytest.fixture(scope="module")
def direct():
    trial = experiments.sampling_trial(3, network="good and denoising", noise=0.5, examples=6, test_examples=5)
    chains = sma.Chains(draws=60, count=2, warmup=60, warn=False)
    return sampling.weights_posterior(problem_of(trial), key=KEY, test=trial.test, chains=chains), trial


def test_the_record_is_a_summary_of_the_draws(found, direct):
    draws, trial = direct
    for name in ("order_parameter", "order_parameter_2", "steps", "diverging", "output_r_hat"):
        np.testing.assert_allclose(found[name], draws[name], rtol=1e-12)
    np.testing.assert_allclose(found.output_mean, draws.output.values.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.output_variance, draws.output.values.var(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.output_error, sampling.estimate(draws.output).error, rtol=1e-12)
    np.testing.assert_array_equal(found.test_labels, trial.test_labels)
    assert found.sizes["path"] == 2 and "output" not in found


def test_the_record_says_how_it_was_made_and_is_found(recorded):
    (found,) = experiments.recorded_sampling(recorded.parent)
    assert {name: found.attrs[name] for name in SETTINGS} == SETTINGS
    assert found.attrs["sampler"] == "weights, NUTS" and found.attrs["warning"]
    assert recorded.name == "weights-good-and-denoising-noise0.5-width2-seed3.nc"
    assert experiments.recorded_sampling(recorded.parent / "nowhere") == []


def test_the_opening_is_what_the_sampler_draws_first(recorded):
    """The same key and hardly any warm-up."""
    trial, found = experiments.experiment_of(recorded).trial(), results.load(recorded)
    chains = sma.Chains(draws=4, count=2, warmup=2, warn=False)
    wanted = sampling.weights_posterior(problem_of(trial), key=KEY, chains=chains)
    np.testing.assert_allclose(found["opening_potential"], wanted["potential"], rtol=1e-10)


def test_one_seed_is_the_same_data_for_both_networks():
    whole = experiments.sampling_trial(3, examples=4, test_examples=2)
    part = experiments.sampling_trial(3, network="good and denoising", examples=4, test_examples=2)
    np.testing.assert_array_equal(whole.train.values[:, [0, 2]], part.train.values)
    np.testing.assert_array_equal(whole.labels, part.labels)
