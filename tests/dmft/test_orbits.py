"""Periods of the published setting, and of the fixed point at zero."""

import numpy as np
import pytest

from statmech_attention import dmft


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
    """With positional weight the slot has to return too, also where flat attention is the same at every step."""
    gammas, epsilons = np.array([220.0, 220.0, 0.0]), np.array([0.0, 0.1, 0.1])
    model = dmft.dynamics(published, beta=0.5, gamma=gammas, epsilon=epsilons)
    window = dmft.advance(model, dmft.initial_window(model), steps=500)
    assert np.max(np.abs(window.attention[2])) < 1e-15
    assert dmft.period(model, window, longest=8).tolist() == [1, 4, 4]


def test_the_leading_multiplier_of_the_published_orbit(at_three):
    model, there = at_three
    product = np.eye(12)
    for _ in range(24):
        product, there = np.asarray(dmft.jacobian(model, there)) @ product, dmft.advance(model, there, steps=1)
    leading = np.abs(np.linalg.eigvals(product)).max()
    assert np.log(leading) / 24 == pytest.approx(-0.1015, abs=5e-5)
