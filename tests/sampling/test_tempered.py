"""Chains that exchange states with the prior: their law, and a case of two modes."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from sampling import problem
from statmech_attention.layers.skip import SkipHeads
from statmech_attention.model.architecture import Architecture
from statmech_attention.sampling import _bartlett, _chains
from statmech_attention.sampling._hamiltonian import tempering

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
    np.testing.assert_allclose(
        _bartlett.order_parameter_of_normals(points[0], widths, factors), found[0][0], rtol=1e-12
    )

    def network(key):
        weights = sma.sample_weights(key, layers=heads, width=widths, features=1, variance=VARIANCES)
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
    settings = sma.Chains(warmup=300, draws=3000)
    found = _chains.run(chain, (None, 300), np.zeros((4, 2)), jax.random.key(2), settings)
    right = sampling.estimate((found["position"][..., 0] > 0).astype(float))
    assert right.error < 0.03 and abs(right.mean - 0.7) < 4 * right.error
    beside = found["position"][..., 1]
    assert abs(sampling.estimate(beside**2).mean - 1) < 4 * sampling.estimate(beside**2).error
    assert np.mean(found["exchanged"]) > 0.3 and sampling.r_hat(found["position"]).max() < 1.02


@pytest.fixture(scope="module")
def narrow():
    """A problem with one neuron in the first layer and two paths, and its test inputs."""
    train, labels, test = problem.inputs(2)
    return sma.Problem(train, labels, layers=(2,), width=(1, 3), temperature=0.2), test


def test_tempered_chains_have_the_law_of_the_other_sampler(narrow):
    def drawn(sampler, seed, draws, warmup, **options):
        chains = sma.Chains(draws=draws, warmup=warmup, warn=False)
        return sampler(narrow[0], test=narrow[1], key=jax.random.key(seed), chains=chains, **options)

    found = drawn(sampling.tempered_posterior, 1, 2500, 200, rungs=6)
    other = drawn(sampling.posterior, 3, 4000, 200)
    for name in ("order_parameter", "order_parameter_2", "output"):
        one, two = sampling.estimate(found[name]), sampling.estimate(other[name])
        np.testing.assert_array_less(np.abs(one.mean - two.mean), 4 * np.hypot(one.error, two.error))
    assert found.order_parameter_r_hat.max() < 1.02 and found.sizes["draw"] == 2500
    assert set(found.data_vars) >= {"output_variance", "exchanged", "steps", "acceptance", "diverging", "potential"}
    overlap = found["order_parameter"].values[0, -1]
    assert np.linalg.matrix_rank(overlap, tol=1e-10) == 1
