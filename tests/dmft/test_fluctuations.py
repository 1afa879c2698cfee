"""Noise carried along by derivatives against replicas; the onset against the roots of a polynomial."""

import jax
import numpy as np
import pytest
import scipy.optimize

from attention_book.chapters.dmft.replicas import fluctuations
from statmech_attention import dmft

from .conftest import model_of
from .reference import random_network


def test_the_first_word_scatters_as_in_one_step():
    network = random_network(41, sites=10)
    model = model_of(network)
    found = fluctuations(model, dmft.initial_window(model), steps=1)
    attention = network.run([network.words["o"][0]], 0)["A"][0]
    gain = 1 - np.tanh(network.beta * network.fields(attention)) ** 2
    outputs = network.words["o"]
    np.testing.assert_allclose(found[0], (outputs * gain) @ outputs.T / 10, rtol=0, atol=1e-13)


@pytest.mark.parametrize("gamma", [5.0, 60.0])
def test_later_words_scatter_as_in_replicas_of_very_many_bits(published, gamma):
    """With 10^10 bits deviations are small, whatever attention does to them."""
    model = dmft.dynamics(published, beta=1.27, gamma=gamma, epsilon=0.02)
    begin, copies, replicas = dmft.advance(model, dmft.initial_window(model), steps=7), 10**8, 4000
    run = dmft.simulate(
        model, key=jax.random.key(3), steps=12, replicas=replicas, window=begin, copies=copies, keep="output_words"
    )
    limit = dmft.trajectory(model, begin, steps=12, keep="output_words").output_words
    away = np.asarray(run.overlaps.output_words) - np.asarray(limit)
    products = away[..., :, None] * away[..., None, :] * copies * published.sites
    error = products.std(0) / np.sqrt(replicas)
    wanted = np.asarray(fluctuations(model, begin, steps=12))
    assert np.all(np.abs(products.mean(0) - wanted) < 5 * error + 1e-3 * np.abs(wanted))


def test_copies_are_repeated_sites(published):
    model = dmft.dynamics(published, beta=1.27, gamma=220.0, epsilon=0.02)
    repeated = dmft.dynamics(dmft.published_patterns(seed=1, sites=5 * 99), beta=1.27, gamma=220.0, epsilon=0.02)
    key = jax.random.key(0)
    one = dmft.simulate(model, key=key, steps=20, replicas=2, copies=5).overlaps.output
    np.testing.assert_array_equal(one, dmft.simulate(repeated, key=key, steps=20, replicas=2).overlaps.output)
    with pytest.raises(ValueError, match="copies: wanted 1 where words are kept, got 5"):
        dmft.simulate(model, key=key, steps=2, copies=5, keep="words")


@pytest.mark.parametrize("window", [2, 4, 16])
@pytest.mark.parametrize("seed", [1, 2, 5])
def test_the_onset_is_where_a_root_reaches_the_unit_circle(seed, window):
    patterns = dmft.published_patterns(segments=None, seed=seed, window=window)
    found = dmft.onset(patterns)
    eigenvalues = np.linalg.eigvals(np.asarray(dmft.pair_correlations(patterns.value, patterns.output)))

    def fastest(beta):
        roots = np.concatenate([np.roots([1, *np.full(window, -beta * c / window)]) for c in eigenvalues])
        return roots[np.argmax(np.abs(roots))]

    wanted = scipy.optimize.brentq(lambda beta: np.abs(fastest(beta)) - 1, 0.1, 200, xtol=1e-10)
    assert found.beta == pytest.approx(wanted, rel=1e-8)
    assert found.frequency == pytest.approx(abs(np.angle(fastest(wanted))) / (2 * np.pi), abs=1e-6)


def test_patterns_without_correlations_have_no_onset():
    rows = np.array([[1.0, 1, -1, -1], [1, -1, 1, -1]])
    one, other = ((rows[row : row + 1], np.ones((1, 2))) for row in (0, 1))
    patterns = dmft.patterns_from_arrays(query=one, key=one, value=one, output=other)
    assert dmft.onset(patterns).beta == np.inf
