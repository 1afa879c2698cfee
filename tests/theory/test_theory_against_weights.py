"""The theory against networks drawn from the prior, layer by layer, and weighed by how well they fit.

Tolerances are four standard errors; every key is fixed.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import statmech_attention as sma

HEADS, WIDTHS, VARIANCES, TEMPERATURE = (2, 2), (3, 5, 4), (0.8, 1.5, 0.6, 1.2), 0.5
TRAIN, TEST, TOKENS, FEATURES = 3, 2, 3, 4
DRAWS, BATCHES = 100_000, 20


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(100)
    inputs = rng.normal(size=(TRAIN + TEST, TOKENS, FEATURES))
    attention = [jnp.asarray(matrix) for matrix in reference.random_attention(rng, HEADS, TRAIN + TEST, TOKENS)]
    return jnp.asarray(inputs), attention, jnp.array([1.0, -1.0, 1.0])


@pytest.fixture(scope="module")
def xi(data):
    return sma.attentioned_inputs(data[0], data[1])


@pytest.fixture(scope="module")
def networks(data):
    """Outputs (draws, examples) and order parameters, a leading axis of draws, of networks from the prior."""

    def one(key):
        weights = sma.sample_weights(key=key, layers=HEADS, width=WIDTHS, features=FEATURES, variance=VARIANCES)
        return sma.forward(weights, data[0], data[1]), sma.model.weights_order_parameters(weights)

    return mapped(one, jax.random.split(jax.random.key(101), DRAWS))


def mapped(function, draws):
    """A function of every draw, 5000 at a time, so that what it computes on the way never takes a gigabyte."""
    return jax.jit(partial(jax.lax.map, function, batch_size=5000))(draws)


def assert_within_four_errors(samples, wanted):
    """The mean over draws of `samples`, (draws, ..), against `wanted`."""
    samples = np.asarray(samples)
    error = samples.std(axis=0) / np.sqrt(len(samples))
    assert np.all(error > 0)
    np.testing.assert_array_less(np.abs(samples.mean(axis=0) - wanted), 4 * error)


def test_the_prior_covariance_of_outputs_is_the_gp_kernel_at_finite_width(networks, xi):
    outputs, _ = networks
    gp = sma.theory.gp_order_parameters(layers=HEADS, variance=VARIANCES)[0]
    kernel = sma.kernel(xi, xi, gp, variance=VARIANCES)
    assert_within_four_errors(outputs[:, :, None] * outputs[:, None, :], kernel)
    assert_within_four_errors(outputs, 0.0)


def test_the_prior_mean_of_order_parameters_is_the_gp_limit(networks):
    for samples, wanted in zip(
        networks[1], sma.theory.gp_order_parameters(layers=HEADS, variance=VARIANCES), strict=True
    ):
        assert_within_four_errors(samples, wanted)


def test_outputs_are_gaussian_given_the_order_parameter(networks, xi):
    # Whitened by the kernel of their own order parameter, outputs have unit variance and kurtosis 3 at any width.
    outputs, (order_parameters, *_) = networks
    few = slice(0, 20_000)
    kernels = mapped(lambda u: sma.kernel(xi, xi, u, variance=VARIANCES), order_parameters[few])
    kernels = np.asarray(kernels)[:, :TRAIN, :TRAIN]
    white = np.linalg.solve(np.linalg.cholesky(kernels), np.asarray(outputs)[few, :TRAIN, None])[..., 0]
    assert_within_four_errors(white[:, :, None] * white[:, None, :], np.eye(TRAIN))
    assert_within_four_errors(white**4, 3.0)
    # Plain outputs are not Gaussian at this width: the test above can tell.
    plain = np.asarray(outputs) / np.std(np.asarray(outputs), axis=0)
    assert np.all((plain**4).mean(axis=0) > 4)


def weighted_means(logs, *quantities):
    """Means weighted by exp(logs), one row a batch of draws."""
    logs = np.asarray(logs).reshape(BATCHES, -1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum(axis=1, keepdims=True)
    rows = []
    for quantity in quantities:
        quantity = np.asarray(quantity).reshape(BATCHES, weights.shape[1], -1)
        rows.append(np.einsum("bd,bdq->bq", weights, quantity))
    return rows


@pytest.mark.slow
def test_weights_and_order_parameters_have_the_same_posterior(networks, xi, data):
    """Networks weighed by their squared errors, against their order parameters weighed by exp(-P E(U) / 2).

    No limit is taken on either side, so this checks (8), (9), (10), (12) and (30) at once at widths 3, 5, 4.
    """
    few = slice(0, 40_000)
    outputs, order_parameters, labels = networks[0][few], networks[1][0][few], data[2]
    train, test = (sma.AttentionedInputs(part, HEADS) for part in jnp.split(xi.values, [TRAIN]))

    def theory(order_parameter):
        problem = sma.Problem(train, labels, temperature=TEMPERATURE, variance=VARIANCES)
        return sma.theory.energy(problem, order_parameter), *sma.kernel_regression(problem, order_parameter).predict(
            test
        )

    energies, means, variances = mapped(theory, order_parameters)
    misfit = jnp.sum((outputs[:, :TRAIN] - labels[None]) ** 2, axis=1)
    by_weights = weighted_means(
        -misfit / (2 * TEMPERATURE), outputs[:, TRAIN:], outputs[:, TRAIN:] ** 2, order_parameters
    )
    by_theory = weighted_means(-TRAIN * energies / 2, means, variances + means**2, order_parameters)
    for one, other in zip(by_weights, by_theory, strict=True):
        assert_within_four_errors(one - other, 0.0)

    # The posterior is far from the prior, so that agreement means something.
    prior = np.asarray(order_parameters).mean(axis=0).reshape(-1)
    moved = by_theory[2] - prior
    assert np.max(np.abs(moved.mean(axis=0)) / (moved.std(axis=0) / np.sqrt(BATCHES))) > 10
