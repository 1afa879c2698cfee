"""Damage spreading: pairs of replicas with common random numbers, against enumeration."""

import jax
import numpy as np
import pytest

from attention_book.chapters.dmft.replicas import damage
from statmech_attention import dmft

from .conftest import model_of
from .reference import random_network


@pytest.fixture(scope="module")
def flipped():
    """A network, the words of a window, and the same with one bit of the newest token flipped."""
    network = random_network(41, sites=9, beta=0.8, gamma=5.0)
    words = np.random.default_rng(42).choice([-1.0, 1.0], size=(4, 9))
    other = words.copy()
    other[-1, 0] *= -1
    return network, words, other


def windows(network, *words, slot=0):
    return (dmft.window_from_words(model_of(network), one, slot=slot) for one in words)


def test_the_first_difference_has_its_mean(flipped):
    """A common uniform number parts a bit with probability |p - p'|: exactly as far as the two laws are apart."""
    network, words, other = flipped
    first, second = windows(network, words, other)
    found = np.asarray(
        damage(model_of(network), key=jax.random.key(0), steps=1, first=first, second=second, pairs=40_000)
    )[:, 0]
    means = [np.tanh(network.beta * network.fields(network.run(part, 0)["A"][-1])) for part in (words, other)]
    apart = np.abs(means[0] - means[1]) / 2
    assert apart.max() > 0.01
    error = np.sqrt(np.sum(apart * (1 - apart))) / 9 / 200
    assert abs(found.mean() - apart.mean()) < 4.5 * error


def test_later_differences_have_their_mean():
    """Two steps of a tiny network: the pairs of first tokens enumerated with their joint probabilities."""
    network = random_network(43, features=2, sites=3, bits=1, beta=0.9, gamma=4.0)
    words = np.array([[1.0, -1, 1], [1, 1, -1]])
    other = words * np.array([[1.0, 1, 1], [-1, 1, 1]])
    first, second = windows(network, words, other, slot=1)
    found = np.asarray(
        damage(model_of(network), key=jax.random.key(1), steps=2, first=first, second=second, pairs=40_000)
    )

    def up(part):
        return (1 + np.tanh(network.beta * network.fields(network.run(part, 0, slot=1)["A"][-1]))) / 2

    def joint(p, q):
        """Probabilities of (+,+), (+,-), (-,+), (-,-) of a bit with a common uniform number."""
        return {
            (1.0, 1.0): min(p, q),
            (1.0, -1.0): max(p - q, 0),
            (-1.0, 1.0): max(q - p, 0),
            (-1.0, -1.0): 1 - max(p, q),
        }

    laws = [joint(p, q) for p, q in zip(up(words), up(other), strict=True)]
    wanted = 0.0
    for choice in np.ndindex(4, 4, 4):
        pairs = [list(law)[number] for law, number in zip(laws, choice, strict=True)]
        weight = np.prod([law[pair] for law, pair in zip(laws, pairs, strict=True)])
        tokens = np.array(pairs).T
        after = [up(np.vstack([past, token])) for past, token in zip((words, other), tokens, strict=True)]
        wanted += weight * np.mean(np.abs(after[0] - after[1]))
    assert wanted > 0.01
    assert abs(found[:, 1].mean() - wanted) < 4.5 * found[:, 1].std() / 200


def test_replicas_that_have_met_stay_together(flipped):
    network, words, other = flipped
    first, second = windows(network, words, other)
    found = np.asarray(
        damage(model_of(network), key=jax.random.key(3), steps=60, first=first, second=second, pairs=200)
    )
    equal = found == 0
    met = np.stack([equal[:, t : t + 4].all(axis=1) for t in range(56)], axis=1)
    assert met.any() and (found > 0).any()
    for pair, place in zip(*np.nonzero(met), strict=True):
        assert equal[pair, place:].all()


def test_windows_have_to_go_on_alike(flipped):
    network, words, other = flipped
    model, key = model_of(network), jax.random.key(0)
    first, second = windows(network, words, other)
    (later,) = windows(network, other, slot=1)
    with pytest.raises(ValueError, match="second: wanted a window with slot 3, as in first, got 0"):
        damage(model, key=key, steps=2, first=first, second=later)
    (shorter,) = windows(network, other[1:], slot=1)
    with pytest.raises(ValueError, match="second: wanted a window with filled 4, as in first, got 3"):
        damage(model, key=key, steps=2, first=first, second=shorter)
