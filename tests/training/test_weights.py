"""Gradient descent on the weights at fixed attention: against closed forms of its minimum, and what holds at any."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq

import statmech_attention as sma
from statmech_attention.training.weights import train_weights

HEADS, VARIANCES, TEMPERATURE = (2, sma.Outputs(3)), (0.7, 1.4, 0.9), 0.05


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    return jnp.asarray(rng.normal(size=(5, 2, 4))), rng.normal(size=(5, 3))


@pytest.fixture(scope="module")
def trained(data):
    problem = sma.Problem(*data, layers=HEADS, width=6, temperature=TEMPERATURE, variance=VARIANCES)
    return train_weights(problem, key=jax.random.key(1), steps=3000)


def shares(weights):
    """Squared length of each layer's weights in units of their prior variance."""
    layers = (weights.projection, *weights.values, weights.readout)
    return [float(np.sum(np.asarray(layer) ** 2) / variance) for layer, variance in zip(layers, VARIANCES, strict=True)]


def objective(weights, inputs, labels):
    outputs = sma.model.forward_paths(weights, sma.AttentionedInputs(inputs, HEADS))
    return 0.5 * np.sum((np.asarray(outputs) - labels) ** 2) / TEMPERATURE + 0.5 * sum(shares(weights))


def test_it_ends_where_the_gradient_vanishes(data, trained):
    assert trained.objective.shape == (3000,)
    assert float(trained.gradient_norm) < 1e-4
    assert objective(trained.weights, *data) == pytest.approx(float(trained.objective[-1]), rel=1e-6)
    rng = np.random.default_rng(4)
    for size in (1e-2, 1e-1):
        moved = jax.tree.map(lambda leaf, size=size: leaf + size * rng.normal(size=leaf.shape), trained.weights)
        assert objective(moved, *data) > float(trained.objective[-1])


def test_at_the_minimum_all_layers_have_the_same_length(data, trained):
    """The output is linear in every layer, so that sum_i theta_i d/dtheta_i of the error is the same for each."""
    outputs = np.asarray(sma.model.forward_paths(trained.weights, sma.AttentionedInputs(data[0], HEADS)))
    wanted = -np.sum((outputs - data[1]) * outputs) / TEMPERATURE
    assert wanted > 1
    np.testing.assert_allclose(shares(trained.weights), wanted, rtol=1e-4)


@pytest.mark.parametrize(("label", "temperature"), [(2.0, 0.1), (-1.5, 0.05)])
def test_of_one_example_the_minimum_is_the_root_of_a_polynomial(label, temperature):
    """f = r^3 x / N with r the length of every layer, (r^3 x / N - y) 3 r^2 x / (N T) + 3 r = 0; or r = 0."""
    width, x = 4, 1.3
    slope = x / width
    root = brentq(lambda r: (r**3 * slope - abs(label)) * r * slope / temperature + 1, 1.2, 6, xtol=1e-14)
    inputs, found = jnp.full((1, 1, 1), x), []
    problem = sma.Problem(inputs, np.array([label]), layers=(1,), width=width, temperature=temperature)
    for key in jax.random.split(jax.random.key(2), 4):
        weights = train_weights(problem, key=key, steps=3000).weights
        sizes = [float(np.linalg.norm(np.ravel(leaf))) for leaf in jax.tree.leaves(weights)]
        found.append(float(sma.model.forward_paths(weights, sma.AttentionedInputs(inputs, (1,)))[0]))
        away = abs(found[-1]) > 1e-3
        np.testing.assert_allclose(sizes, root * away, rtol=1e-4, atol=1e-2)
    largest = max(found, key=abs)
    assert largest == pytest.approx(np.sign(label) * root**3 * slope, rel=1e-4)
