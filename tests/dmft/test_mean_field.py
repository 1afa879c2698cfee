"""The map (B7), (B8) against plain NumPy, its two ways to average over sites, windows, batches, bad input."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statmech_attention import dmft

from .conftest import assert_overlaps, model_of
from .reference import random_network

NETWORKS = [
    dict(features=1, sites=5, bits=1, beta=2.0, gamma=10.0, epsilon=0.2),
    dict(features=3, sites=12, bits=5, beta=1.7, gamma=90.0, epsilon=0.3),
    dict(features=5, sites=40, bits=3, beta=0.8, gamma=30.0, epsilon=0.0),
]


@pytest.fixture(params=NETWORKS, ids=lambda given: f"M{given['features']}-L{2 ** given['bits']}")
def network(request):
    return random_network(11, **request.param)


def test_trajectory_agrees_with_the_reference(network):
    model = model_of(network)
    found, wanted = (
        dmft.trajectory(model, dmft.initial_window(model), steps=50),
        network.run([network.words["o"][0]], 50),
    )
    # Rounding grows with the largest Lyapunov exponent, here at most by 1e4 in 50 steps.
    assert_overlaps(found, wanted, 1, 1e-12)


def test_one_step_from_a_window_of_attention(network):
    size, model = 2 ** network.shape[2], model_of(network)
    history = np.random.default_rng(2).uniform(-1, 1, (size, network.shape[0]))
    for slot in (0, size - 1):
        window = dmft.window_from_attention(model, history, slot=slot)
        np.testing.assert_array_equal(window.newest_first(), history)
        window, overlaps = dmft.step(model, window)
        np.testing.assert_allclose(overlaps.attention, network.next(history, slot), rtol=0, atol=1e-14)
        np.testing.assert_array_equal(window.newest_first()[1:], history[:-1])
        assert int(window.slot) == (slot + 1) % size


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), beta=st.floats(0, 20), gamma=st.floats(0, 1e4), epsilon=st.floats(0, 1))
def test_overlaps_stay_within_one_and_attention_in_the_hull_of_the_values(seed, beta, gamma, epsilon):
    network = random_network(seed)
    model = model_of(network).at(beta=beta, gamma=gamma, epsilon=epsilon)
    window, found = dmft.trajectory(model, dmft.initial_window(model), steps=30, last=True)
    for part in found:
        assert np.all(np.abs(part) <= 1 + 1e-12)
    assert np.all(found.attention[-1] <= np.max(window.values, axis=0) + 1e-12)
    assert np.all(found.attention[-1] >= np.min(window.values, axis=0) - 1e-12)


@settings(max_examples=10)
@given(words=st.integers(1, 4), slot=st.integers(0, 3), seed=st.integers(0, 10**6))
def test_start_from_words(words, slot, seed):
    network = random_network(21)
    given_words = np.random.default_rng(seed).choice([-1.0, 1.0], size=(words, 12))
    model = model_of(network)
    window = dmft.window_from_words(model, given_words, slot=slot)
    wanted = network.run(list(given_words), 9, slot=slot)
    assert (int(window.slot), int(window.filled)) == ((slot + words - 1) % 4, words)
    np.testing.assert_allclose(window.newest_first()[0], wanted["A"][words - 1], rtol=0, atol=1e-14)
    assert_overlaps(dmft.trajectory(model, window, steps=9), wanted, words, 1e-13)


def test_a_batch_is_its_networks_side_by_side():
    network = random_network(24)
    betas, gammas = np.array([0.5, 1.0, 2.0]), np.array([[10.0], [200.0]])
    model = model_of(network).at(beta=betas, gamma=gammas)
    assert model.shape == (2, 3)
    found = dmft.trajectory(model, dmft.initial_window(model), steps=12, keep=("attention", "output_words"))
    assert found.query is None and found.attention.shape == (2, 3, 12, 3)
    for row, column in itertools.product(range(2), range(3)):
        one = model.at(beta=betas[column], gamma=gammas[row, 0])
        alone = dmft.trajectory(one, dmft.initial_window(one), steps=12)
        np.testing.assert_allclose(found.attention[row, column], alone.attention, rtol=0, atol=1e-13)
        np.testing.assert_allclose(found.output_words[row, column], alone.output_words, rtol=0, atol=1e-13)


def test_without_positional_weight_zero_stays_and_without_sharpness_all_codes_cancel(published):
    model = dmft.dynamics(published, beta=1.1, gamma=220.0, epsilon=0.0)
    zero = dmft.window_from_attention(model, np.zeros((4, 3)), slot=3)
    np.testing.assert_array_equal(dmft.advance(model, zero, steps=9).attention, 0)
    flat = model.at(gamma=0.0, epsilon=0.02)
    # Not exactly zero: rounding of the average over the window.
    assert np.max(np.abs(dmft.advance(flat, dmft.initial_window(flat), steps=3000).attention)) < 1e-15


def test_amplitude_of_the_forced_orbit_is_cubic_in_epsilon(published):
    """To leading order the attention is (gamma / sqrt M) eps^3 / L sum_c (pi^q(t) pi^k(c)) pi^v(c)."""
    epsilon = np.array([1e-3, 2e-3])
    model = dmft.dynamics(published, beta=0.0, gamma=220.0, epsilon=epsilon)
    found = dmft.trajectory(
        model, dmft.advance(model, dmft.initial_window(model), steps=8), steps=4, keep="attention"
    ).attention
    query, key, value, _ = np.asarray(model.codes)
    lead = np.einsum("ta,ca,cb->tb", query, key, value) / 4 * 220 / np.sqrt(3)
    assert np.max(np.abs(lead)) == pytest.approx(0.5 * 220 / np.sqrt(3))  # the 0.50 of the published patterns
    for eps, orbit in zip(epsilon, found, strict=True):
        order = np.roll(orbit, 1, axis=0)  # the first of the four tokens has slot 1
        np.testing.assert_allclose(order / eps**3, lead, atol=220 / np.sqrt(3) * 220 * eps**2)


def test_a_cycle_of_words_is_replayed_with_the_overlap_of_the_scalar_equation():
    """m = <s_1 tanh beta m (w_0 s_1 + w_1 (s_2 + .. + s_L))>, (H3), for M = L = 4 uncorrelated words."""
    beta, gamma, signs = 1.5, 60.0, np.array(list(itertools.product([1.0, -1.0], repeat=4))).T
    same, before = (signs, np.ones((4, 2))), (np.stack([-signs[3], *signs[:3]]), np.ones((4, 2)))
    model = dmft.dynamics(
        dmft.patterns_from_arrays(query=same, key=same, value=before, output=same), beta=beta, gamma=gamma, epsilon=0.0
    )
    end = dmft.advance(model, dmft.window_from_words(model, signs), steps=500)
    found = np.asarray(dmft.trajectory(model, end, steps=8, keep="output_words").output_words)
    overlap = 1.0
    for _ in range(500):
        weights = np.exp([gamma / 2 * overlap**2, 0, 0, 0])
        overlap = np.mean(signs[0] * np.tanh(beta * overlap * (weights / weights.sum()) @ signs))
    written = np.abs(found).argmax(axis=1)
    np.testing.assert_array_equal(np.diff(written) % 4, 1)
    np.testing.assert_allclose(np.abs(found).max(axis=1), overlap, atol=1e-9)


@pytest.mark.parametrize("index", [2, (0, 3), "a", (0, 0, 0)])
def test_an_index_outside_of_a_batch_is_refused(index):
    model = model_of(random_network(24)).at(beta=np.ones(3), gamma=np.ones((2, 1)))
    for batch in (model, dmft.initial_window(model)):
        with pytest.raises(IndexError):
            batch[index]


GOOD = dict(beta=1.0, gamma=1.0, epsilon=0.1)


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(gamma=-0.1), r"gamma: wanted numbers in \[0, inf\], got -0.1"),
        (dict(epsilon=1.5), r"epsilon: wanted numbers in \[0, 1\], got 1.5"),
        (dict(beta=np.ones(3), gamma=np.ones(2)), "cannot be broadcast"),
    ],
)
def test_bad_parameters_are_refused(published, change, message):
    with pytest.raises(ValueError, match=message):
        dmft.dynamics(published, **{**GOOD, **change})


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda m, w: dmft.window_from_words(m, np.ones((5, 99))), "words: wanted at most 4 tokens"),
        (lambda m, w: dmft.window_from_words(m, np.full((1, 99), 2.0)), "words: wanted at most 4 tokens"),
        (
            lambda m, w: dmft.window_from_words(m, np.ones((1, 99)), slot=4),
            r"slot: wanted a whole number of at least 0 and at most 3, got 4",
        ),
        (lambda m, w: dmft.window_from_attention(m, np.ones((3, 3)), slot=0), r"attention: wanted shape \(4, 3\)"),
        (
            lambda m, w: dmft.step(m.at(beta=np.ones(3)), dmft.initial_window(m.at(beta=np.ones(2)))),
            r"window: wanted arrays of shape \(3, 4, 3\), as the model has, got \(2, 4, 3\)",
        ),
    ],
)
def test_bad_windows_and_steps_are_refused(published, call, message):
    model = dmft.dynamics(published, **GOOD)
    with pytest.raises(ValueError, match=message):
        call(model, dmft.initial_window(model))
