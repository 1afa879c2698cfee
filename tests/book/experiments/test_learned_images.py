"""Attention of images learned at tiny size: patterns entry by entry, distances, and the record's numbers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.fft

import statmech_attention as sma
from attention_book.experiments import learned_images as images
from attention_book.experiments.networks import draw_of

from .conftest import random_network
from .shared import *  # noqa: F403

SETTINGS = dict(data="glyphs", seed=1, draws=1, starts=2, examples=20, width=10, steps=3, test_examples=20)
SETTINGS |= dict(descent_steps=1)
WRONG = [{"draws": 0}, {"starts": 0}, {"examples": 1}, {"width": 0}, {"steps": 0}]


@pytest.fixture(scope="module")
def make(small, suite):
    def make(folder, **changes):
        given = {"suites": {"glyphs": suite}.__getitem__, **SETTINGS, **changes}
        return small("LearnedImages", folder, **given)

    return make


def test_attention_is_a_softmax_of_bands_distance_and_pair_of_images(suite):
    theta, sample = images.random_start(jax.random.key(0)), suite.train(jax.random.key(1), 2)
    found = images.attention(theta, images.set_of(suite.task, sample).similar)
    layer, head, query = 1, 0, 37  # in the third image: row 1, column 1
    patches = []
    for token in range(48):
        image, row, column = token // 16, token % 16 // 4, token % 4
        grey = suite.task.images.pixels[int(sample.sequences.drawings[1, image])] / 255
        grey = grey[8 * row : 8 * row + 8, 8 * column : 8 * column + 8]
        patches.append((grey - grey.mean()) / np.sqrt(grey.var() + 1e-5))
    waves = [scipy.fft.dctn(patch, norm="ortho") for patch in patches]
    band = np.minimum(np.maximum(*np.indices((8, 8))), 4)
    weights, near, pairs = (np.asarray(theta[name][layer, head]) for name in ("similar", "near", "images"))
    logits = []
    for key in range(48):
        apart = max(abs(key % 16 // 4 - 1), abs(key % 4 - 1))
        product = waves[key] * waves[query] / 16
        similar = sum(weights[one - 1] * product[band == one].sum() for one in (1, 2, 3, 4))
        logits.append(similar + near[apart] + pairs[3 * (key // 16) + 2])
    wanted = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(found[layer][1, head, :, query], wanted, rtol=1e-5)


def test_the_span_of_the_tokens_keeps_the_kernel(suite):
    sample = suite.train(jax.random.key(2), 5)
    one = images.set_of(suite.task, sample).inputs
    assert one.shape[-1] < 120

    def kernel(tokens):
        return np.einsum("esi,fti->esft", tokens, tokens) / tokens.shape[-1]

    np.testing.assert_allclose(kernel(one), kernel(sample.inputs), atol=1e-4)


def test_the_distance_does_not_see_the_order_of_heads():
    one = jax.nn.softmax(jax.random.normal(jax.random.key(0), (3, 2, 2, 7)), axis=-1)
    other = jax.nn.softmax(jax.random.normal(jax.random.key(1), (3, 2, 2, 7)), axis=-1)
    assert images.distance(one, one[:, ::-1]) == pytest.approx(0, abs=1e-15)
    assert images.distance(one, other) == pytest.approx(images.distance(one[:, :, ::-1], other[:, ::-1]))
    apart = jnp.zeros((1, 2, 2, 4)).at[..., 0].set(1), jnp.zeros((1, 2, 2, 4)).at[..., 3].set(1)
    assert images.distance(*apart) == pytest.approx(1)


def test_the_record_has_the_ends_of_the_climbs(found, make, recorded):
    train, _, test = make(recorded.parent).sets(0)
    one = found.isel(draw=0, start=1, width=1)
    theta = images.restored(one.theta.values)
    along = [images.seen(theta, *part[:2]) for part in (train, test)]
    solution = sma.solve(sma.Problem(along[0], train.labels, width=np.inf, temperature=float(np.exp(theta["heat"]))))
    right = sma.accuracy(solution.predict(along[1]).mean, test.labels)
    assert float(one.accuracy) == pytest.approx(float(right), abs=1e-12)
    prior = -sum(np.sum(np.asarray(part) ** 2) for part in theta.values()) / 50
    assert float(one.log_posterior) == pytest.approx(float(sma.log_evidence(solution)) + prior)
    assert found.apart.shape == (1, 4, 4) and found.network_accuracy.shape == (1, 1, 2)


def test_sequences_are_those_of_the_theory_on_trained_networks(make, suite, tmp_path):
    theirs = draw_of(suite, random_network((2, 2)), seed=1, number=3, examples=20, tests=20)
    ours = [one.labels for one in make(tmp_path).samples(3)]
    for one, other in zip(ours, (theirs.train, theirs.validation, theirs.tests["new"]), strict=True):
        np.testing.assert_array_equal(one, other.labels)
