"""Chains that exchange states with the prior: their law, and a case of two modes."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.layers import SkipHeads
from statmech_attention.model.architecture import Architecture
from statmech_attention.sampling import _bartlett, _chains
from statmech_attention.sampling._tempering import tempering

sampling = sma.sampling
HEADS, VARIANCES = (2, 2), (0.8, 1.5, 0.7, 1.2)


def second_moments(values, draws):
    values = np.asarray(values).reshape(draws, -1)
    return np.concatenate([values, (values[:, :, None] * values[:, None, :]).reshape(draws, -1)], axis=1)


@pytest.mark.parametrize(("heads", "widths"), [(HEADS, (3, 2, 1)), ((SkipHeads(1), 2), (4, 4, 3))], ids=str)
def test_standard_normal_numbers_make_order_parameters_of_the_prior(heads, widths):
    layout, draws = Architecture.of(heads, widths, VARIANCES), 20_000
    factors = _bartlett.bartlett(layout)
    points = jax.random.normal(jax.random.key(5), (draws, _bartlett.normal_count(widths, factors)))
    found = jax.jit(jax.vmap(lambda p: _bartlett.order_parameters_of_normals(p, widths, factors)))(points)

    def network(key):
        weights = sma.sample_weights(key=key, layers=heads, width=widths, features=1, variance=VARIANCES)
        return sma.model.weights_order_parameters(weights, layers=heads)

    wanted = jax.jit(jax.vmap(network))(jax.random.split(jax.random.key(6), draws))
    for one, other in zip(found, wanted, strict=True):
        one, other = second_moments(one, draws), second_moments(other, draws)
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / draws)
        assert np.max(np.abs(one.mean(axis=0) - other.mean(axis=0)) / error) < 4.5


def test_two_far_modes_are_visited_in_their_shares():
    """A mixture of two narrow normals 60 standard deviations apart, times the standard normals of the prior."""
    places, width, shares = np.array([-1.5, 1.5]), 0.05, np.array([0.3, 0.7])

    def energy(position, data):
        logs = jnp.log(shares) - 0.5 * ((position[0] - places) / width) ** 2
        return -jax.scipy.special.logsumexp(logs)

    chain = tempering(energy, lambda position, data: {"position": position}, 8, 0.5 * math.pi)
    settings = sma.SamplerSettings(warmup=300, draws=3000)
    found = _chains.run(chain, (None, 300), np.zeros((4, 2)), jax.random.key(2), settings)
    right = sampling.estimate((found["position"][..., 0] > 0).astype(float))
    assert right.error < 0.03 and abs(right.mean - 0.7) < 4 * right.error
    beside = found["position"][..., 1]
    assert abs(sampling.estimate(beside**2).mean - 1) < 4 * sampling.estimate(beside**2).error
    assert np.mean(found["exchanged"]) > 0.3 and sampling.r_hat(found["position"]).max() < 1.02
