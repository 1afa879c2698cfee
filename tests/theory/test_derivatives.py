"""Derivatives of the action against finite differences and automatic differentiation."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import statmech_attention as sma
from statmech_attention.model.architecture import architecture
from statmech_attention.theory.action import coordinate_count, order_parameters_at
from statmech_attention.theory.derivatives import (
    dense_derivatives,
    dense_hessian,
    energy_and_entropy,
    factored_derivatives,
    hessian_product,
)
from statmech_attention.theory.minimum import problem_of

dense_hessian = jax.jit(dense_hessian, static_argnums=2)
dense_derivatives = jax.jit(dense_derivatives, static_argnums=2)
energy_and_entropy = jax.jit(energy_and_entropy, static_argnums=2)
factored_derivatives = jax.jit(factored_derivatives, static_argnums=2)
hessian_product = jax.jit(hessian_product, static_argnums=3)

# Heads, widths (N_1, .., N_{L+1}), variances (sigma_0^2, .., sigma_a^2).
HEADS, WIDTHS, VARIANCES = (3, 1, 2), (7, 5, 9, 6), (0.7, 1.3, 0.9, 1.6, 0.8)
EXAMPLES, FEATURES, TEMPERATURE = 5, 3, 0.3


@pytest.fixture(scope="module")
def case():
    """The problem, a point away from the origin, and the action there in the paper's variables."""
    rng = np.random.default_rng(50)
    layout = architecture(HEADS, WIDTHS, VARIANCES)
    values = jnp.asarray(rng.normal(size=(EXAMPLES, math.prod(HEADS), FEATURES)))
    xi, labels = sma.AttentionedInputs(values, HEADS), jnp.asarray(rng.normal(size=EXAMPLES))
    problem = problem_of(values, xi, labels, TEMPERATURE, layout)
    point = jnp.asarray(0.4 * rng.normal(size=coordinate_count(layout)))

    def action(point):
        order_parameters = order_parameters_at(point, layout)
        return sma.action(order_parameters, xi, labels, width=WIDTHS, temperature=TEMPERATURE, variance=VARIANCES)

    def by_brute_force(point):
        order_parameters = [np.asarray(one) for one in order_parameters_at(jnp.asarray(point), layout)]
        return reference.action(
            order_parameters, np.asarray(values), np.asarray(labels), HEADS, WIDTHS, VARIANCES, TEMPERATURE
        )

    return problem, layout, point, action, by_brute_force


def test_value_in_coordinates_is_the_action_in_the_papers_variables(case):
    problem, layout, point, _, by_brute_force = case
    wanted = by_brute_force(point)
    value, *_ = dense_hessian(point, problem, layout)
    assert float(value) == pytest.approx(wanted, rel=1e-11)
    assert float(factored_derivatives(point, problem, layout)[0]) == pytest.approx(wanted, rel=1e-11)
    energy, entropy = energy_and_entropy(point, problem, layout)
    assert float(entropy + EXAMPLES / max(layout.widths) * energy) == pytest.approx(wanted, rel=1e-11)


def test_gradient_agrees_with_automatic_differentiation(case):
    problem, layout, point, action, _ = case
    wanted = jax.jit(jax.grad(action))(point)
    np.testing.assert_allclose(dense_hessian(point, problem, layout)[1], wanted, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(factored_derivatives(point, problem, layout)[1], wanted, rtol=1e-9, atol=1e-11)


def test_gradient_agrees_with_finite_differences(case):
    problem, layout, point, _, by_brute_force = case
    gradient = dense_hessian(point, problem, layout)[1]
    step = 1e-5
    for index in range(0, len(point), 3):
        move = step * np.eye(len(point))[index]
        slope = (by_brute_force(point + move) - by_brute_force(point - move)) / (2 * step)
        assert float(gradient[index]) == pytest.approx(slope, rel=1e-7, abs=1e-8)


def test_hessian_agrees_with_automatic_differentiation(case):
    problem, layout, point, action, _ = case
    found = dense_hessian(point, problem, layout)[2]
    np.testing.assert_allclose(found, jax.jit(jax.hessian(action))(point), rtol=1e-8, atol=1e-10)


def test_hessian_agrees_with_finite_differences_of_the_gradient(case):
    problem, layout, point, *_ = case
    hessian = dense_hessian(point, problem, layout)[2]

    def gradient(point):
        return factored_derivatives(point, problem, layout)[1]

    direction = np.random.default_rng(51).normal(size=len(point))
    step = 1e-5
    change = (gradient(point + step * direction) - gradient(point - step * direction)) / (2 * step)
    np.testing.assert_allclose(hessian @ direction, change, rtol=1e-6, atol=1e-7)


def test_hessian_products_agree_with_the_hessian(case):
    problem, layout, point, *_ = case
    hessian = dense_hessian(point, problem, layout)[2]
    curvature = factored_derivatives(point, problem, layout)[2]
    product = jax.vmap(lambda vector: hessian_product(vector, curvature, problem, layout))
    np.testing.assert_allclose(product(jnp.eye(len(point))), hessian, rtol=1e-9, atol=1e-10)


def test_spectrum_rebuilds_the_hessian(case):
    problem, layout, point, *_ = case
    hessian, spectrum = dense_hessian(point, problem, layout)[2], dense_derivatives(point, problem, layout)[2]
    np.testing.assert_allclose(spectrum.vectors @ jnp.diag(spectrum.values) @ spectrum.vectors.T, hessian, atol=1e-10)


def test_a_point_that_is_not_finite_gives_derivatives_that_are_not(case):
    problem, layout, point, *_ = case
    value, gradient, spectrum = dense_derivatives(point.at[0].set(jnp.nan), problem, layout)
    assert not np.isfinite(value)
    assert not np.all(np.isfinite(gradient))
    assert np.all(np.isfinite(spectrum.values))
