"""Derivatives through the saddle point: forward, reverse, under jit and vmap, of second order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma

HEADS = (2,)
SOLVING = {"tolerance": 1e-12, "throw": False}
STEP = 3e-4  # of finite differences


def drawn():
    """Inputs, labels, variances, and test inputs."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(9, 2, 3)) + rng.normal(size=(9, 1, 3))
    return jnp.asarray(values[:6]), jnp.asarray(rng.normal(size=6)), rng.uniform(0.6, 1.6, 3), values[6:]


@pytest.fixture(scope="module")
def plain():
    values, labels, variance, test = drawn()

    def mean(temperature, width=4.0, **how):
        problem = sma.Problem(values, labels, layers=HEADS, width=width, temperature=temperature, variance=variance)
        return jnp.sum(sma.solve(problem, **how).predict(test).mean)

    return mean


def slope_and_bend(function):
    """The derivatives of first and second order at a point, in one program."""

    def twice(point):
        slope = jax.jacrev(function)(point)
        return slope, slope

    bend_and_slope = jax.jit(jax.jacfwd(twice, has_aux=True))
    return lambda point: bend_and_slope(point)[::-1]


def differences(both, at):
    """The derivative of the slope, by finite differences."""
    ends = [(both(at + STEP * one)[0], both(at - STEP * one)[0]) for one in np.eye(len(at))]
    return np.stack([(up - down) / (2 * STEP) for up, down in ends], axis=-1)


def test_forward_and_reverse_agree_with_and_without_jit_and_vmap(plain):
    temperatures = jnp.array([0.05, 0.1, 0.4])

    def quiet(temperature):
        return plain(temperature, throw=False)

    together = jax.jit(jax.vmap(jax.jacfwd(quiet)))(temperatures)
    one_by_one = jax.jit(jax.grad(quiet))
    np.testing.assert_allclose(together, [one_by_one(temperature) for temperature in temperatures], rtol=1e-8)
    for temperature, wanted in zip(temperatures[::2], together[::2], strict=True):
        np.testing.assert_allclose(jax.grad(plain)(temperature), wanted, rtol=1e-8)
        np.testing.assert_allclose(jax.jvp(plain, (temperature,), (jnp.ones(()),))[1], wanted, rtol=1e-8)


def test_gradients_of_a_sweep_are_those_of_its_solutions(plain):
    values, labels, variance, test = drawn()
    problem = sma.Problem(values, labels, layers=HEADS, variance=variance)

    def means(temperatures):
        return sma.solve_sweep(problem, widths=[4.0, 20.0], temperatures=temperatures).predict(test).mean.sum(axis=-1)

    at = jnp.array([0.1, 0.4])
    found = jax.jacrev(means)(at)
    for row, width in enumerate((4.0, 20.0)):
        for column, temperature in enumerate(at):
            alone = jax.grad(lambda one, width=width: plain(one, width=width))(temperature)
            np.testing.assert_allclose(found[row, column], np.eye(2)[column] * alone, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("method", "outputs"),
    [
        ("dense", (2,)),
        pytest.param("dense", (), marks=pytest.mark.slow),
        pytest.param("products", (), marks=pytest.mark.slow),
        pytest.param("gradients", (2,), marks=pytest.mark.slow),
    ],
)
def test_second_derivatives_are_slopes_of_the_first(method, outputs):
    """Those of predictions need the second derivative of the minimum itself, which those of the evidence do not."""
    rng = np.random.default_rng(3)
    values, labels, test = rng.normal(size=(3, 2, 2)), rng.normal(size=(3, *outputs)), rng.normal(size=(2, 2, 2))
    layers = (2, *map(sma.Outputs, outputs))

    def observed(logs):
        numbers = {"width": 3.0, "temperature": jnp.exp(logs[0]), "variance": (jnp.exp(logs[1]), 1.0, 1.0)}
        solution = sma.solve(sma.Problem(values, labels, layers=layers, **numbers), method=method, **SOLVING)
        numbers = solution.predict(test).mean.sum(), sma.log_evidence(solution)
        return jnp.append(jnp.stack(numbers), solution.order_parameter[0])

    at, both = jnp.array([-1.0, 0.3]), slope_and_bend(observed)
    wanted, found = differences(both, at), both(at)[1]
    assert np.max(np.abs(wanted)) > 0.05
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-6)


def test_where_it_started_from_has_no_derivative(plain):
    values, labels, *_ = drawn()
    problem = sma.Problem(values, labels, layers=HEADS, width=4.0, temperature=0.1)
    start = sma.solve(problem.replace(width=5.0)).order_parameters
    slopes = jax.grad(lambda start: sma.solve(problem, start=start).action)(start)
    assert all(not np.any(np.asarray(slope)) for slope in slopes)


def test_width_at_the_gaussian_process_limit_has_no_slope(plain):
    assert float(jax.grad(lambda width: plain(0.1, width=width))(jnp.inf)) == 0
    slope = jax.grad(lambda temperature: plain(temperature, width=jnp.inf))(0.1)
    assert float(slope) == pytest.approx(
        float((plain(0.1001, width=jnp.inf) - plain(0.0999, width=jnp.inf)) / 2e-4), rel=1e-6
    )


def test_a_minimisation_that_did_not_converge_raises_under_grad_or_has_no_derivative(plain):
    with pytest.raises(sma.NotConverged, match=r"T = 0.1, N = 4, 4 .*The steps ran out") as caught:
        jax.grad(lambda temperature: plain(temperature, max_steps=1))(0.1)
    assert np.isfinite(np.asarray(caught.value.solution.order_parameter)).all()  # known numbers, not traced ones
    assert np.isnan(jax.grad(lambda temperature: plain(temperature, max_steps=1, throw=False))(0.1))


def test_a_head_dimension_to_differentiate_in_is_refused():
    with pytest.raises(ValueError, match="values: wanted a known head dimension"):
        jax.grad(lambda values: sma.Heads(2, values=values).values)(3.0)
