"""The samplers against each other and against the posterior on a grid; diagnostics, bad input.

Two means agree within four of their standard errors, found from effective sample sizes; every key is fixed.
"""

import math
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer.util import potential_energy

import statmech_attention as sma
from attention_book.theory.measures import mean_accuracy
from sampling import problem
from statmech_attention.sampling import weights

VARIANCES = (0.8, 1.5, 1.2)
sampling = sma.sampling


def given(paths, width):
    """A problem and its test inputs."""
    train, labels, test = problem.inputs(paths)
    numbers = {"width": width, "temperature": problem.TEMPERATURE, "variance": VARIANCES}
    return sma.Problem(train, labels, layers=(paths,), **numbers), test


def exact(paths, width, **numbers):
    known, test = given(paths, width)
    settings = sma.SamplerSettings(**{"warn": False, "draws": 4000, "warmup": 200} | numbers)
    return sampling.posterior(known, key=jax.random.key(1), test=test, settings=settings)


@pytest.fixture(scope="module")
def drawn():
    """The exact posterior at width 10."""
    return exact(2, 10)


def test_one_head_agrees_with_a_grid():
    found = exact(1, 5)
    lower, upper = (found[name].values.ravel() for name in ("order_parameter", "order_parameter_2"))
    logs = 0.5 * np.log(np.stack([lower / upper / VARIANCES[1], upper / VARIANCES[2]], axis=1))
    overlap, mean, variance, _ = problem.on_a_grid(5, VARIANCES, logs.mean(axis=0), np.linalg.cholesky(np.cov(logs.T)))
    estimate = sampling.estimate(found["order_parameter"])
    assert abs(estimate.mean.item() - overlap) < 4 * estimate.error.item()
    estimate = sampling.estimate(found["output"])
    np.testing.assert_array_less(np.abs(estimate.mean - mean), 4 * estimate.error)
    centred = (found["output"] - found["output"].mean(("chain", "draw"))) ** 2 + found["output_variance"]
    np.testing.assert_array_less(
        np.abs(sampling.prediction(found).variance - variance), 4 * sampling.estimate(centred).error
    )


def test_double_precision_of_this_thread_alone_reaches_the_chains():
    def few():
        return exact(2, 10, draws=4, warmup=2)["order_parameter"]

    expected = few()
    jax.config.update("jax_enable_x64", False)
    try:
        with jax.enable_x64(True):
            found = few()
    finally:
        jax.config.update("jax_enable_x64", True)
    np.testing.assert_array_equal(found, expected)


def test_chains_in_one_program_draw_what_chains_in_threads_do():
    # Few steps: rounding grows along a chain.
    apart, together = (exact(2, 10, draws=6, warmup=4, method=method) for method in ("parallel", "vectorized"))
    for name in ("order_parameter", "output"):
        np.testing.assert_allclose(together[name], apart[name], rtol=1e-8)


def test_r_hat_and_effective_size_of_known_chains():
    rng = np.random.default_rng(0)
    shifted = rng.normal(size=(4, 100, 2)) + np.array([0, 0, 0, 5])[:, None, None]
    assert sampling.r_hat(shifted).min() > 1.5
    assert sampling.r_hat(rng.normal(size=(4, 1000))) < 1.01
    assert np.isnan(sampling.effective_size(np.ones((4, 10)))) and np.isnan(sampling.r_hat(np.ones((4, 10))))
    assert sampling.estimate(np.ones((4, 10))).error == 0
    # An autoregressive chain of coefficient r has an effective size of (1 - r) / (1 + r) of the draws.
    noise, chain = rng.normal(size=(4, 20_000)), np.zeros((4, 20_000))
    for step in range(1, 20_000):
        chain[:, step] = 0.8 * chain[:, step - 1] + noise[:, step]
    assert sampling.effective_size(chain) == pytest.approx(80_000 / 9, rel=0.15)
    assert sampling.estimate(chain).error == pytest.approx(chain.std() * 3 / np.sqrt(80_000), rel=0.1)


def test_the_error_of_a_mean_accuracy_is_that_of_repeated_estimates():
    rng = np.random.default_rng(4)
    outputs, labels = 0.3 * rng.normal(size=300), np.sign(rng.normal(size=300))
    error = 0.1 * rng.random(300)
    found = mean_accuracy(sampling.Estimate(outputs, error), labels)
    assert found.mean == np.mean(np.sign(outputs) == labels)
    repeated = np.mean(np.sign(outputs + error * rng.normal(size=(20_000, 300))) == labels, axis=1)
    assert found.error == pytest.approx(repeated.std(), rel=0.03)
    sure = mean_accuracy(sampling.Estimate(outputs, np.zeros(300)), labels)
    assert sure.mean == found.mean and sure.error == 0


def test_predictors_give_the_mean_outputs(drawn):
    known, test = given(2, 10)
    some = drawn.isel(draw=slice(5))
    vectors = sampling.predictors(sma.Problem(known.attentioned, known.labels), some)
    outputs = jnp.einsum("cdpi,epi->cde", vectors, jnp.asarray(test))
    np.testing.assert_allclose(outputs, some["output"], rtol=1e-9, atol=1e-12)


def test_few_draws_are_warned_of(drawn):
    with pytest.warns(sampling.MixingWarning, match="effective size of order_parameter down to"):
        found = exact(2, 10, draws=50, warn=True)
    assert "effective size" in found.attrs["warning"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert exact(2, 10, draws=50).attrs["warning"] == found.attrs["warning"]


def test_the_potential_of_the_weights_is_that_of_a_model_in_numpyro():
    """Several outputs and prior variances."""
    rng = np.random.default_rng(2)
    layers, shapes = (2, sma.Outputs(3)), {"projection": (5, 4), "values_1": (2, 5, 5), "readout": (5, 3)}
    position = {name: jnp.asarray(rng.normal(size=shape)) for name, shape in shapes.items()}
    numbers = {"width": 5, "temperature": 0.3, "variance": VARIANCES}
    known = sma.Problem(rng.normal(size=(6, 2, 4)), rng.normal(size=(6, 3)), layers=layers, **numbers)

    def model():
        sites = zip(shapes.items(), VARIANCES, strict=True)
        projection, values, readout = (
            math.sqrt(variance) * numpyro.sample(name, dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape)))
            for (name, shape), variance in sites
        )
        outputs = sma.model.forward_paths(sma.model.Weights(projection, (values,), readout), known.attentioned)
        numpyro.sample("labels", dist.Normal(outputs, math.sqrt(0.3)).to_event(2), obs=known.labels)

    data, _ = weights.prepared(known, None, jax.random.key(0))
    wanted = jax.jit(lambda position: potential_energy(model, (), {}, position))(position)
    found = jax.jit(lambda position: weights._potential(position, data, False))(position)
    assert float(found) == pytest.approx(float(wanted), rel=1e-13)
