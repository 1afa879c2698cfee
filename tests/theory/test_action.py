"""Entropy, energy and action against explicit Kronecker products and a Gaussian's log density: (11), (12)."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from scipy.stats import multivariate_normal

import statmech_attention as sma

# Heads, widths (N_1, .., N_{L+1}), variances (sigma_0^2, .., sigma_a^2).
NETWORKS = [
    ((1,), (3, 5), (1.0, 1.0, 1.0)),
    ((3,), (9, 4), (0.7, 1.6, 0.8)),
    ((2, 2), (30, 30, 30), (1.0, 1.0, 1.0, 1.0)),
    ((2, 3), (7, 20, 11), (1.2, 0.6, 1.9, 0.7)),
    ((3, 1, 2), (7, 5, 9, 6), (0.7, 1.3, 0.9, 1.6, 0.8)),
]
UNEQUAL = NETWORKS[-1]


@pytest.fixture(params=NETWORKS, ids=str, scope="module")
def network(request):
    return request.param


def test_energy_is_the_log_density_of_a_gaussian():
    rng = np.random.default_rng(43)
    heads, temperature = (2, 2), 0.05
    xi = sma.AttentionedInputs(jnp.asarray(rng.normal(size=(6, 4, 3))), heads)
    labels, order_parameter = rng.normal(size=6), reference.random_order_parameters(rng, heads)[0]
    found = sma.theory.energy(sma.Problem(xi, labels, temperature=temperature, variance=1.4), order_parameter)
    covariance = reference.kernel(xi.values, xi.values, order_parameter, heads, 1.4) + temperature * np.eye(6)
    density = multivariate_normal(mean=np.zeros(6), cov=covariance).logpdf(labels)
    assert float(found) == pytest.approx(-2 / 6 * density - math.log(2 * math.pi), rel=1e-11)


def test_gp_order_parameters_are_products_of_the_variances_above():
    found = sma.theory.gp_order_parameters((3, 1, 2), variance=UNEQUAL[2])
    for one, other in zip(found, reference.gp_order_parameters((3, 1, 2), UNEQUAL[2]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    assert np.shape(found[-1]) == ()


def test_entropy_at_the_gp_limit_counts_the_dimensions(network):
    heads, widths, variances = network
    sizes = [math.prod(heads[layer:]) for layer in range(len(heads) + 1)]
    wanted = sum(size * width / max(widths) for size, width in zip(sizes, widths, strict=True))
    gp = sma.theory.gp_order_parameters(heads, variance=variances)
    assert float(sma.theory.entropy(gp, layers=heads, width=widths, variance=variances)) == pytest.approx(
        wanted, rel=1e-12
    )


def test_entropy_is_flat_at_the_gp_limit(network):
    heads, widths, variances = network
    gp = sma.theory.gp_order_parameters(heads, variance=variances)
    slopes = jax.jit(jax.grad(lambda u: sma.theory.entropy(u, layers=heads, width=widths, variance=variances)))(gp)
    for slope in slopes:
        np.testing.assert_allclose(slope, 0.0, atol=1e-12)


def test_infinite_width_leaves_the_entropy_alone():
    rng = np.random.default_rng(45)
    order_parameters = reference.random_order_parameters(rng, (2, 2))
    found = sma.theory.action(
        sma.Problem(rng.normal(size=(3, 4, 2)), np.ones(3), width=math.inf, temperature=1.0, layers=(2, 2)),
        order_parameters,
    )
    assert float(found) == pytest.approx(float(sma.theory.entropy(order_parameters, layers=(2, 2))), rel=1e-13)
