"""The minimiser on functions whose minima are known."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statmech_attention.theory.descent.trust_region import (
    Outcome,
    exact_step,
    minimise,
    truncated_step,
)


def rosenbrock(x):
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def two_wells(x):
    """A saddle at the origin; minima of value -1/4 at x = (0, +-1)."""
    return x[0] ** 2 - x[1] ** 2 / 2 + x[1] ** 4 / 4


def roots_of_two(x):
    return jnp.sum((x**2 - 2) ** 2)


def walled(x):
    """x - ln x in every direction; not a number left of zero."""
    return jnp.sum(x - jnp.log(x))


@partial(jax.jit, static_argnames=("function", "method"))
def run(function, method, start, tolerance, max_steps):
    if method == "exact":

        def derivatives(point):
            return function(point), jax.grad(function)(point), jax.hessian(function)(point)

        step = exact_step
    else:

        def derivatives(point):
            return function(point), jax.grad(function)(point), point

        def step(gradient, point, radius):
            def product(vector):
                return jax.jvp(jax.grad(function), (point,), (vector,))[1]

            return truncated_step(gradient, product, jnp.ones_like(gradient), radius, 50)

    return minimise(derivatives, step, start, tolerance, max_steps)


METHODS = ["exact", "truncated"]


@pytest.mark.parametrize("method", METHODS)
def test_rosenbrock_valley_is_followed_to_its_end(method):
    found = run(rosenbrock, method, jnp.array([-1.2, 1.0]), 1e-9, 200)
    assert found.outcome == Outcome.CONVERGED
    np.testing.assert_allclose(found.point, 1.0, atol=1e-8)
    assert found.gradient_norm <= 1e-9
    assert found.gradient_norm == pytest.approx(np.max(np.abs(jax.grad(rosenbrock)(found.point))), abs=1e-11)


def test_a_saddle_is_left_by_the_exact_step():
    found = run(two_wells, "exact", jnp.array([0.0, 0.0]), 1e-9, 100)
    assert found.outcome == Outcome.CONVERGED
    np.testing.assert_allclose(np.abs(found.point), [0.0, 1.0], atol=1e-8)
    assert found.value == pytest.approx(-0.25)


@pytest.mark.parametrize("method", METHODS)
def test_steps_into_a_region_without_values_are_taken_back(method):
    found = run(walled, method, jnp.array([8.0, 0.2, 3.0]), 1e-9, 200)
    assert found.outcome == Outcome.CONVERGED
    np.testing.assert_allclose(found.point, 1.0, atol=1e-8)


def test_a_start_without_a_value_is_said_so():
    found = run(walled, "exact", jnp.array([1.0, -1.0, 1.0]), 1e-9, 200)
    assert found.outcome == Outcome.NOT_FINITE
    assert found.steps == 0


def test_a_tolerance_below_rounding_is_said_to_be_out_of_reach():
    # No floating-point number is the square root of two: the gradient never vanishes.
    found = run(roots_of_two, "exact", jnp.array([1.0, 2.0]), 1e-300, 2000)
    assert found.outcome == Outcome.STALLED
    assert found.steps < 2000
    assert 0 < found.gradient_norm < 1e-14
    np.testing.assert_allclose(found.point, np.sqrt(2), rtol=1e-15)


@pytest.mark.parametrize("radius", [0.05, 0.5, 100.0])
@pytest.mark.parametrize("lowest", [1.0, -2.0])
def test_exact_step_is_no_worse_than_any_other_in_the_ball(radius, lowest):
    rng = np.random.default_rng(60)
    vectors, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    values = np.array([lowest, 2.0, 5.0])
    hessian, gradient = vectors @ np.diag(values) @ vectors.T, rng.normal(size=3)
    step, promised = jax.jit(exact_step)(jnp.asarray(gradient), jnp.asarray(hessian), jnp.asarray(radius))
    # To reach the edge in the hard case a square root is taken of a difference that may be rounding alone.
    assert np.linalg.norm(step) <= radius * (1 + 1e-6)

    def model(step):
        return gradient @ step + 0.5 * step @ hessian @ step

    assert float(promised) == pytest.approx(-model(np.asarray(step)), rel=1e-9)
    others = rng.normal(size=(2000, 3))
    others *= radius * rng.uniform(size=(2000, 1)) ** (1 / 3) / np.linalg.norm(others, axis=1, keepdims=True)
    assert -promised <= min(map(model, others))


def test_truncated_step_without_curvature_limits_is_newtons():
    rng = np.random.default_rng(61)
    factor = rng.normal(size=(4, 4))
    hessian, gradient = factor @ factor.T + np.eye(4), 1e-6 * rng.normal(size=4)
    step, promised = truncated_step(
        jnp.asarray(gradient), lambda v: jnp.asarray(hessian) @ v, jnp.ones(4), jnp.asarray(1.0), 50
    )
    newton = -np.linalg.solve(hessian, gradient)
    np.testing.assert_allclose(step, newton, rtol=0.1)
    assert float(promised) == pytest.approx(-gradient @ newton / 2, rel=0.01)
