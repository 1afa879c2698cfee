"""The problem object: checked once, a pytree, replaced and added."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma

RNG = np.random.default_rng(3)
XI, LABELS = RNG.normal(size=(12, 4, 5)), np.sign(RNG.normal(size=12))
NUMBERS = {"width": 7.0, "temperature": 0.3, "layers": (2, 2)}


def problem(**changes):
    return sma.Problem(XI, LABELS, **NUMBERS | changes)


def test_numbers_per_layer_are_spelled_out():
    found = problem(variance=2.0)
    assert found.width == (7.0,) * 3 and found.variance == (2.0,) * 4 and found.temperature == 0.3
    assert found.layers == (2, 2) and found.labels.dtype == jnp.float64


def test_replace_keeps_the_rest_and_checks_again():
    found = problem().replace(temperature=0.5, width=(3, 4, 5))
    assert found.temperature == 0.5 and found.width == (3.0, 4.0, 5.0) and found.attentioned.values.shape == XI.shape
    with pytest.raises(ValueError, match="^temperature: wanted a positive"):
        problem().replace(temperature=-1.0)


def test_a_batch_of_problems_is_solved_as_one_by_one():
    each = [problem(), sma.Problem(XI[::-1] * 1.5, -LABELS, **NUMBERS | {"width": 9.0, "temperature": 0.1})]
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *each)
    found = jax.vmap(lambda one: sma.solve(one, throw=False))(batch)
    for place, one in enumerate(each):
        np.testing.assert_allclose(found.order_parameter[place], sma.solve(one).order_parameter, rtol=0, atol=1e-9)


def test_the_problem_is_an_argument_of_jit_and_grad():
    found = problem()

    def nats(one):
        return sma.log_evidence(sma.solve(one, throw=False, tolerance=1e-11))

    slope, step = jax.grad(nats)(found), 1e-5
    up, down = (nats(found.replace(temperature=0.3 + sign * step)) for sign in (1, -1))
    assert float(jax.jit(nats)(found)) == pytest.approx(float(nats(found)), rel=1e-10)
    assert float(slope.temperature) == pytest.approx(float(up - down) / (2 * step), rel=1e-6)


def test_the_sum_is_the_problem_of_both_sets_of_examples():
    first, second = (sma.Problem(XI[part], LABELS[part], **NUMBERS) for part in (slice(0, 5), slice(5, None)))
    whole, added = sma.solve(problem()), sma.solve(first + second)
    np.testing.assert_array_equal(added.order_parameter, whole.order_parameter)
    with pytest.raises(ValueError, match="^temperature: wanted the same in both problems"):
        _ = first + second.replace(temperature=1.0)
    with pytest.raises(ValueError, match="^sum of problems: wanted the same number in features"):
        _ = first + sma.Problem(XI[5:, :, :4], LABELS[5:], **NUMBERS)


def test_a_solution_contains_its_problem():
    solution = sma.solve(problem())
    second = sma.solve(solution.problem)
    np.testing.assert_array_equal(second.order_parameter, solution.order_parameter)
    energy = sma.theory.energy(solution.problem, solution.order_parameter)
    assert float(energy) == pytest.approx(float(solution.energy), rel=1e-12)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: sma.solve(XI), "^problem: wanted a Problem, got ndarray"),
        (lambda: sma.solve(problem(width=None)), "^width: not set in this problem"),
        (lambda: sma.solve(problem(temperature=None)), "^temperature: not set in this problem"),
        (lambda: sma.fit(problem(width=None)), "^width: not set in this problem"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
