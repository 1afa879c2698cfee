"""Likelihood ratios of what two windows say, against a list of all paths of a tiny network."""

import itertools

import jax
import numpy as np
import pytest

from attention_book.chapters.dmft.replicas import log_likelihood_ratios
from statmech_attention import dmft

from .conftest import model_of
from .reference import random_network


@pytest.fixture(scope="module")
def pair():
    """A network of five bits, a window of two tokens, and windows after histories that differ in one bit."""
    network = random_network(51, features=2, sites=5, bits=1)
    histories = np.random.default_rng(3).choice([-1.0, 1.0], (2, 5))
    histories = [histories, histories * np.array([[1.0], [1.0]])]
    histories[1][-1, 2] *= -1
    model = model_of(network)
    return network, model, histories, [dmft.window_from_words(model, words) for words in histories]


def _laws(network, histories, steps):
    """Probabilities of all continuations of both histories, by the reference."""
    words = [np.array(word) for word in itertools.product([-1.0, 1.0], repeat=5)]
    found = []
    for history in histories:
        weights = []
        for path in itertools.product(words, repeat=steps):
            seen = network.run([*history, *path], 0)["A"]
            fields = [network.fields(attention) for attention in seen[1:-1]]
            weights.append(
                np.prod([np.prod((1 + np.tanh(network.beta * h) * s) / 2) for h, s in zip(fields, path, strict=True)])
            )
        found.append(np.array(weights))
    return found


def test_averages_are_those_over_all_paths(pair):
    network, model, histories, windows = pair
    replicas = 40_000
    found = log_likelihood_ratios(
        model, key=jax.random.key(0), steps=5, first=windows[0], second=windows[1], replicas=replicas
    )
    for steps in (1, 2):
        one, other = _laws(network, histories, steps)
        assert one.sum() == pytest.approx(1) and other.sum() == pytest.approx(1)
        ratio = np.asarray(found[:, steps - 1])
        for samples, wanted in (
            (np.exp(ratio), 1.0),
            (np.maximum(1 - np.exp(ratio), 0), 0.5 * np.abs(one - other).sum()),
            (-ratio, np.sum(one * np.log(one / other))),
        ):
            assert abs(samples.mean() - wanted) < 5 * samples.std() / np.sqrt(replicas)


def test_nothing_is_told_after_the_first_window(pair):
    _, model, _, windows = pair
    found = np.asarray(
        log_likelihood_ratios(model, key=jax.random.key(1), steps=8, first=windows[0], second=windows[1], replicas=50)
    )
    np.testing.assert_allclose(found[:, 2:], found[:, 1:2] + np.zeros((1, 6)), rtol=0, atol=1e-12)
    assert np.all(np.abs(found[:, 0] - found[:, 1]).max() > 1e-3)
