"""Continuation against single networks; spectra against sums."""

from functools import partial

import numpy as np
import pytest

from attention_book.dynamics import continuation, power_spectrum
from statmech_attention import dmft


def test_continuation_starts_each_network_where_its_neighbour_ended():
    model = dmft.dynamics(dmft.segment_patterns(seed=1), beta=3.0, gamma=220.0, epsilon=0.02)
    betas = np.array([2.7, 2.9, 3.0])
    model, window = model.at(beta=np.stack([betas, betas[::-1]])), dmft.initial_window(model)
    measure = partial(dmft.bifurcation_diagram, transient=20, steps=30, levels=101)
    found = continuation(model, window, measure)
    assert found.visited.shape == (2, 3, 3, 101) and found.values.shape == (101,)
    for way, order in enumerate((betas, betas[::-1])):
        there = window
        for place, beta in enumerate(order):
            one = measure(model.at(beta=beta), there)
            there = one.window
            np.testing.assert_array_equal(found.visited[way, place], one.visited)
        np.testing.assert_allclose(found.window.attention[way], there.attention, atol=1e-11)


def test_hanns_window_leaves_lines_without_feet():
    steps = np.arange(1000)
    series = 0.7 + np.sin(2 * np.pi * 0.10037 * steps)
    frequencies, power = power_spectrum(series, hann=True)
    weights = np.sqrt(8 / 3) * np.sin(np.pi * steps / 1000) ** 2
    wanted = np.abs((series - series.mean()) * weights @ np.exp(-2j * np.pi * np.outer(steps, frequencies))) ** 2 / 1000
    np.testing.assert_allclose(power, wanted, rtol=0, atol=1e-9)
    assert np.mean(weights**2) == pytest.approx(1)
    far = np.asarray(frequencies) > 0.2
    assert power[far].max() < 1e-4 * power_spectrum(series - series.mean())[1][far].max()


def test_the_spectrum_is_its_sum():
    series = np.random.default_rng(0).normal(0.3, 1.0, size=(2, 40))
    frequencies, power = power_spectrum(series)
    steps = np.arange(40)
    for place, frequency in enumerate(np.arange(21) / 40):
        assert frequencies[place] == pytest.approx(frequency)
        wanted = np.abs(series @ np.exp(-2j * np.pi * frequency * steps)) ** 2 / 40
        np.testing.assert_allclose(power[:, place], wanted, rtol=1e-9)


def test_a_single_way_is_refused():
    model = dmft.dynamics(dmft.segment_patterns(seed=1), beta=np.ones(2), gamma=1.0, epsilon=0.1)
    with pytest.raises(ValueError, match="model: wanted networks in an array"):
        continuation(model, dmft.initial_window(model), dmft.attractors)
