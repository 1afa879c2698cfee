"""The problem object: checked once, a pytree, replaced and added."""

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


def test_the_sum_is_the_problem_of_both_sets_of_examples():
    first, second = (sma.Problem(XI[part], LABELS[part], **NUMBERS) for part in (slice(0, 5), slice(5, None)))
    whole, added = sma.solve(problem()), sma.solve(first + second)
    np.testing.assert_array_equal(added.order_parameter, whole.order_parameter)
    with pytest.raises(ValueError, match="^temperature: wanted the same in both problems"):
        _ = first + second.replace(temperature=1.0)
    with pytest.raises(ValueError, match="^sum of problems: wanted the same number in features"):
        _ = first + sma.Problem(XI[5:, :, :4], LABELS[5:], **NUMBERS)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: sma.solve(XI), "^problem: wanted a Problem, got ndarray"),
        (lambda: sma.solve(problem(width=None)), "^width: not set in this problem"),
        (lambda: sma.solve(problem(temperature=None)), "^temperature: not set in this problem"),
        (lambda: sma.maximise_evidence(problem(width=None)), "^width: not set in this problem"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
