"""Periods, orbits and Floquet multipliers of the published setting, and of the fixed point at zero."""

import numpy as np
import pytest

from attention_book.chapters.dmft.orbits import floquet_multipliers, periodic_orbit
from statmech_attention import dmft

from .conftest import model_of
from .reference import random_network


def test_published_periods(published):
    betas, periods = np.array([1.24, 1.27, 1.28, 1.45, 2.6, 3.0]), [4, 28, 0, 60, 24, 24]
    model = dmft.dynamics(published, beta=betas, gamma=220.0, epsilon=0.02)
    window = dmft.advance(model, dmft.initial_window(model.at(beta=3.0)), steps=40_000)
    assert dmft.period(model, window, longest=128).tolist() == periods


def test_the_period_is_that_of_the_trajectory(at_three):
    model, window = at_three
    found = int(dmft.period(model, window))
    attention = np.asarray(dmft.trajectory(model, window, steps=5 * found, keep="attention").attention)
    np.testing.assert_allclose(attention[found:], attention[:-found], atol=1e-9)
    for shorter in range(1, found):
        assert np.max(np.abs(attention[shorter:] - attention[:-shorter])) > 1e-3
    assert dmft.period(model, window, longest=found - 1) == 0


def test_a_fixed_point_without_positional_weight_has_period_one(published):
    model = dmft.dynamics(published, beta=0.5, gamma=220.0, epsilon=np.array([0.0, 0.1]))
    window = dmft.advance(model, dmft.initial_window(model), steps=500)
    assert dmft.period(model, window, longest=8).tolist() == [1, 4]


def test_multipliers_of_the_fixed_point_are_powers_of_the_eigenvalues(published):
    """Four times around the fixed point at zero: fourth powers, to a relative accuracy that a product would lose."""
    model = dmft.dynamics(published, beta=1.1, gamma=220.0, epsilon=0.0)
    zero = dmft.window_from_attention(model, np.zeros((4, 3)), slot=0)
    eigenvalues = np.linalg.eigvals(np.asarray(dmft.pair_correlations(published.value, published.output)))
    wanted = np.concatenate([np.roots([1.0, *([-1.1 * c / 4] * 4)]) for c in eigenvalues]) ** 4
    found = floquet_multipliers(model, zero, 4)
    # Rounded, so that both halves of a pair sort alike.
    np.testing.assert_allclose(np.sort_complex(np.round(found, 9)), np.sort_complex(np.round(wanted, 9)), atol=2e-9)
    assert np.all(np.diff(np.abs(found)) <= 1e-12)


def test_multipliers_give_the_exponents_and_their_product_the_determinant():
    model = model_of(random_network(41, features=2, sites=9, beta=2.5, gamma=1.5, epsilon=0.1))
    window = dmft.advance(model, dmft.initial_window(model), steps=2000)
    found, product, there = floquet_multipliers(model, window, 4), np.eye(8), window
    for _ in range(4):
        product, there = np.asarray(dmft.jacobian(model, there)) @ product, dmft.advance(model, there, steps=1)
    np.testing.assert_allclose(np.prod(found), np.linalg.det(product), rtol=1e-8)
    np.testing.assert_allclose(
        np.sort_complex(found)[-3:], np.sort_complex(np.linalg.eigvals(product))[-3:], atol=1e-12
    )


def test_the_leading_multiplier_of_the_published_orbit(at_three):
    model, window = at_three
    found = floquet_multipliers(model, window, 24)
    assert np.log(np.abs(found[0])) / 24 == pytest.approx(-0.1015, abs=5e-5)


def test_the_forced_orbit_loses_its_stability_where_it_was_measured(published):
    """The orbit of period four, followed by Newton's method across 1.2434, where it is no longer stable."""
    leading, window = [], None
    for beta in (1.2433, 1.2435):
        model = dmft.dynamics(published, beta=beta, gamma=220.0, epsilon=0.02)
        if window is None:
            zero = dmft.window_from_attention(model, np.zeros((4, 3)), slot=3)
            window = dmft.advance(model, zero, steps=8)
        window = periodic_orbit(model, window, 4)
        leading.append(np.abs(floquet_multipliers(model, window, 4))[:2])
    np.testing.assert_allclose(leading[0][0], leading[0][1])  # a complex pair: Neimark-Sacker
    assert leading[0][0] < 1 < leading[1][0]


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda m, w: floquet_multipliers(m, w, 4),
            "window: wanted a point of an orbit of period 4, got one that",
        ),
        (
            lambda m, w: periodic_orbit(m, w, 4, max_steps=1),
            "window: wanted a point close to an orbit of period 4",
        ),
    ],
)
def test_bad_input_is_refused(at_three, call, message):
    with pytest.raises(ValueError, match=message):
        call(*at_three)
