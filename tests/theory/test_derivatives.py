"""Ways to the derivatives of the action that the random chains do not take."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.theory import coordinates, derivatives
from statmech_attention.theory.derivatives import (
    action_of,
    action_on,
    dense_hessian,
    entropy_curvature,
    factored_derivatives,
    hessian_product,
    kept_pairs,
)
from statmech_attention.theory.rows import Reduced
from statmech_attention.theory.trust_region import exact_step

dense_hessian = jax.jit(dense_hessian)
action_of = jax.jit(action_of)
factored_derivatives = jax.jit(factored_derivatives)
hessian_product = jax.jit(hessian_product)

# Heads, widths (N_1, .., N_{L+1}), variances (sigma_0^2, .., sigma_a^2).
HEADS, WIDTHS, VARIANCES = (3, 1, 2), (7, 5, 9, 6), (0.7, 1.3, 0.9, 1.6, 0.8)
EXAMPLES, FEATURES, TEMPERATURE = 5, 3, 0.3


@pytest.fixture(scope="module")
def case():
    """The problem and a point away from the origin."""
    rng = np.random.default_rng(50)
    values = jnp.asarray(rng.normal(size=(EXAMPLES, math.prod(HEADS), FEATURES)))
    labels = jnp.asarray(rng.normal(size=EXAMPLES))
    whole = sma.Problem(values, labels, width=WIDTHS, temperature=TEMPERATURE, variance=VARIANCES, layers=HEADS)
    problem = action_on(Reduced(values, labels), None, whole)
    factors = coordinates.full_rank(whole.architecture)
    point = jnp.asarray(0.4 * rng.normal(size=factors.coordinates))
    return problem, factors, point


def test_the_pairs_kernels_give_the_derivatives_that_the_features_give(case):
    problem, factors, point = case
    values = jnp.swapaxes(problem.inputs, 1, 2)
    kept = problem._replace(pairs=kept_pairs(jnp.tile(values, (1, 1, 9)) / 3, dense=True))
    assert kept.pairs.shape == (21, EXAMPLES, EXAMPLES)
    found, wanted = dense_hessian(point, kept, factors), dense_hessian(point, problem, factors)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11), found, wanted)


def test_a_large_hessian_in_single_precision_is_that_in_double(case, monkeypatch):
    problem, factors, point = case
    monkeypatch.setattr(derivatives, "_LARGEST_DOUBLE", 0)
    value, gradient, curvature = jax.jit(lambda *args: derivatives.dense_hessian(*args))(point, problem, factors)
    wanted = dense_hessian(point, problem, factors)
    np.testing.assert_array_equal(value, wanted[0])
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-12, atol=1e-13)
    largest = np.max(np.abs(wanted[2].hessian))
    np.testing.assert_allclose(curvature.hessian, wanted[2].hessian, rtol=0, atol=1e-5 * largest)
    assert np.any(curvature.hessian != wanted[2].hessian)


def test_a_point_that_is_not_finite_gives_derivatives_that_are_not(case):
    problem, factors, point = case
    value, gradient, curvature = dense_hessian(point.at[0].set(jnp.nan), problem, factors)
    assert not np.isfinite(value)
    assert not np.all(np.isfinite(gradient))
    step, _ = exact_step(jnp.ones_like(point), curvature.hessian, jnp.asarray(1.0))
    assert np.all(np.isfinite(step))


def test_the_entropys_hessian_is_its_curvature_and_nothing_beside():
    """Without labels and inputs the energy is constant: the Hessian of the action is that of the entropy."""
    values, labels = jnp.zeros((4, 6, 2)), jnp.zeros(4)
    whole = sma.Problem(values, labels, width=(7, 5, 9), temperature=0.5, variance=1.3, layers=(2, 3))
    problem, factors = action_on(Reduced(values, labels), None, whole), coordinates.full_rank(whole.architecture)
    point = jnp.asarray(np.random.default_rng(5).normal(size=factors.coordinates))
    hessian = dense_hessian(point, problem, factors)[2].hessian
    np.testing.assert_allclose(hessian, np.diag(entropy_curvature(point, problem, factors)), rtol=1e-12, atol=1e-12)
