"""Diagrams against the trajectories they sum up; continuation against single networks; spectra against sums."""

from functools import partial

import numpy as np
import pytest

from attention_book.dynamics import attractors, bifurcation_diagram, continuation, power_spectrum
from statmech_attention import dmft


def test_continuation_starts_each_network_where_its_neighbour_ended():
    model = dmft.dynamics(dmft.published_patterns(seed=1), beta=3.0, gamma=220.0, epsilon=0.02)
    betas = np.array([2.7, 2.9, 3.0])
    model, window = model.at(beta=np.stack([betas, betas[::-1]])), dmft.initial_window(model)
    measure = partial(bifurcation_diagram, pairs=((0, 1),), transient=20, steps=30, levels=101)
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


@pytest.fixture(scope="module")
def pair():
    """Two values of beta and a start."""
    model = dmft.dynamics(dmft.published_patterns(seed=1), beta=np.array([1.27, 3.0]), gamma=220.0, epsilon=0.02)
    return model, dmft.advance(model, dmft.initial_window(model), steps=5000)


def test_a_bifurcation_diagram_holds_the_values_of_the_trajectory(pair):
    model, window = pair
    options = dict(transient=10, steps=700, thickness=0.05, levels=401, limit=0.8, pairs=((0, 1), (2, 0)))
    found = bifurcation_diagram(model, window, **options)
    assert found.visited.shape == (2, 3, 401) and found.sections.shape == (2, 2, 401)
    words = np.asarray(
        dmft.trajectory(model, dmft.advance(model, window, steps=10), steps=700, keep="output_words").output_words
    )
    for network in range(2):
        for feature in range(3):
            assert _values(found.values, found.visited[network, feature]) == _rounded(
                words[network, :, feature], 0.8, 401
            )
        for number, (feature, other) in enumerate(options["pairs"]):
            close = np.abs(words[network, :, other]) <= 0.05
            wanted = _rounded(words[network, close, feature], 0.8, 401)
            assert _values(found.values, found.sections[network, number]) == wanted
    assert np.any(found.sections)
    last = dmft.advance(model, window, steps=710)
    np.testing.assert_allclose(found.window.newest_first(), last.newest_first(), atol=1e-9)


def _values(values, marked):
    return set(np.round(values[marked], 9))


def _rounded(series, limit, levels):
    step = 2 * limit / (levels - 1)
    inside = series[np.abs(series) <= limit + step / 2]
    return set(np.round(np.round((inside + limit) / step) * step - limit, 9))


def test_attractors_over_two_parameters():
    model = dmft.dynamics(
        dmft.published_patterns(seed=1), beta=np.array([0.5, 3.0]), gamma=np.array([[100.0], [220.0]]), epsilon=0.02
    )
    found = attractors(model, dmft.initial_window(model), transient=5000, steps=2000, longest=64)
    assert found.regime.shape == (2, 2) and found.exponents.shape == (2, 2, 2)
    assert found.regime[1].tolist() == [dmft.Regime.PERIODIC, dmft.Regime.PERIODIC]
    assert found.period[:, 0].tolist() == [4, 4] and found.period[1, 1] == 24


def test_what_comes_back_is_periodic_however_slowly_it_attracts():
    """Just below the onset the first exponent is within the threshold, which alone would leave it open."""
    model = dmft.dynamics(dmft.published_patterns(seed=1), beta=1.243, gamma=220.0, epsilon=0.02)
    found = attractors(model, dmft.initial_window(model), transient=200_000, steps=2000, longest=8)
    assert abs(found.exponents[0]) < dmft.THRESHOLD and found.period == 4 and found.regime == dmft.Regime.PERIODIC
