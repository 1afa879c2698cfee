"""Sentences through an encoder's attention: the same by brute force over all tokens, with a small random encoder."""

import itertools

import jax
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.tasks import Tokens, encode, random_encoder
from statmech_attention.layers import Outputs, SkipHeads

from .encoded import encoded_sentences

DEPTH, HEADS, WIDTH = 3, 2, 8


@pytest.fixture(scope="module")
def encoder():
    return random_encoder(jax.random.key(6), layers=DEPTH, heads=HEADS, width=WIDTH, vocabulary=30, positions=12)


def sentences(seed, examples):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 9, size=examples)
    return Tokens(rng.integers(30, size=(examples, 8)), lengths, lengths)


TRAIN, TEST = sentences(1, 7), sentences(2, 5)


def brute_force(encoder, tokens, sides, skips):
    """(7) as it stands, with all tokens of every layer, the padding cut off each sentence first."""
    rows = []
    for row, length in enumerate(tokens.lengths):
        one = Tokens(tokens.ids[row : row + 1, :length], tokens.lengths[row : row + 1], tokens.uncut[row : row + 1])
        found = encode(encoder, one)
        branches = [
            [np.eye(length)] * skips
            + [np.asarray(found.attention[layer][0, head]) for layer in side for head in range(HEADS)]
            for side in sides
        ]
        inputs = np.asarray(found.embeddings[0]).T
        rows.append(
            [np.linalg.multi_dot([inputs, *path, np.eye(length)])[:, 0] for path in itertools.product(*branches)]
        )
    return np.array(rows)


@pytest.mark.parametrize(
    ("layers", "sides", "skips"),
    [((0, 2), [[0], [2]], 0), (((2, 0, 1),), [[2, 0, 1]], 0), ((1, (0, 1)), [[1], [0, 1]], 1), ((1,), [[1]], 1)],
)
def test_all_directions_are_a_shift_a_rotation_and_a_scale(encoder, layers, sides, skips):
    found = encoded_sentences(encoder, TRAIN, TEST, layers, directions=WIDTH, skips=bool(skips), batch=3)
    wanted, other = (brute_force(encoder, tokens, sides, skips) for tokens in (TRAIN, TEST))
    mean = wanted.mean(axis=(0, 1))
    scale = np.sqrt(WIDTH / np.mean(np.sum((wanted - mean) ** 2, axis=2)))
    for seen, values in ((found.train, wanted), (found.test, other)):
        assert seen.values.dtype == np.float64 and seen.values.shape == values.shape
        product = np.einsum("epi,fqi->epfq", seen.values, found.train.values)
        shifted = np.einsum("epi,fqi->epfq", values - mean, wanted - mean)
        np.testing.assert_allclose(product, scale**2 * shifted, rtol=1e-9, atol=1e-9)
    assert np.mean(np.sum(found.train.values**2, axis=2)) / WIDTH == pytest.approx(1.0, rel=1e-12)
    assert found.features.variance_lost == pytest.approx(0.0, abs=1e-12)


def test_the_same_features_of_tokens_give_the_same_attentioned_inputs(encoder):
    """The shift is harmless: it is one of the network's inputs."""
    found = encoded_sentences(encoder, TRAIN, TEST, (0, 2), directions=3)
    encoding = encode(encoder, TEST, (0, 2))
    tokens = found.features.of(sma.AttentionedInputs(encoding.embeddings, (8,))).values  # tokens in the place of paths
    mask = encoding.attention[0][:, 0].sum(axis=-1) > 0  # nothing attends to padding
    seen = sma.attentioned_inputs(tokens, encoding.attention, readout="first", mask=mask)
    np.testing.assert_allclose(seen.values, found.test.values, rtol=1e-10, atol=1e-12)


def test_padding_and_test_sentences_decide_nothing(encoder):
    found = encoded_sentences(encoder, TRAIN, TEST, (0, 2), directions=3)
    more = encoded_sentences(encoder, TRAIN.padded(11), TEST[:2], (0, 2), directions=3)
    np.testing.assert_allclose(more.features.directions, found.features.directions, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(more.train.values, found.train.values, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(more.test.values, found.test.values[:2], rtol=1e-7, atol=1e-9)


def test_heads_are_spelled_for_the_theory(encoder):
    options = {"directions": 2}
    assert encoded_sentences(encoder, TRAIN, TEST, (0, 2), **options).train.layers == (HEADS, HEADS)
    assert encoded_sentences(encoder, TRAIN, TEST, (range(DEPTH),), **options).test.layers == (DEPTH * HEADS,)
    found = encoded_sentences(encoder, TRAIN, TEST, (0, 2), skips=True, outputs=3, **options)
    assert found.test.layers == (SkipHeads(HEADS), SkipHeads(HEADS), Outputs(3))
    assert found.train.values.shape == (7, (HEADS + 1) ** 2, 2)
    labels = np.eye(3)[np.arange(7) % 3] - 1 / 3
    solution = sma.solve(sma.Problem(found.train, labels, width=20, temperature=0.1))
    assert solution.predict(found.test).mean.shape == (5, 3)


def test_what_cannot_be_is_refused(encoder):
    with pytest.raises(ValueError, match="directions: wanted .* at most 8, got 9"):
        encoded_sentences(encoder, TRAIN, TEST, (0, 2), directions=9)
