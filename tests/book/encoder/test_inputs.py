"""Sentences as inputs of networks, against the encoder's own passes one by one; made-up sentences, a random encoder."""

import itertools

import numpy as np
import pytest

from attention_book import encoder
from attention_book.encoder import encoded_task, shuffled, tf_idf, uniform, words
from attention_book.encoder.inputs import STEP


def through_all_tokens(network, tokens, sides):
    """(7) as it stands, with all tokens of every layer, the padding cut off each sentence first."""
    rows = []
    for row, length in enumerate(tokens.lengths):
        one = encoder.Tokens(tokens.ids[[row], :length], tokens.lengths[[row]], tokens.uncut[[row]])
        found = encoder.encode(network, one)
        heads = [[np.asarray(found.attention[layer][0, head]) for layer in side for head in range(3)] for side in sides]
        inputs = np.asarray(found.embeddings[0], float).T
        paths = [np.linalg.multi_dot([inputs, *path, np.eye(length)])[:, 0] for path in itertools.product(*heads)]
        rows.append(paths)
    return np.array(rows)


@pytest.mark.parametrize(("layers", "sides"), [([0, 1], [[0], [1]]), ([range(2)], [[0, 1]])])
def test_inputs_of_all_directions_are_shifted_turned_and_scaled_from_those_of_all_tokens(layers, sides):
    read = words("made", 3, 25, 20)
    found = encoded_task(read, {"network": layers}, fitted=30, directions=12)
    seen = np.asarray(found.networks["network"].values, float)
    wanted = through_all_tokens(read.encoder, read.tokens, sides)
    wanted -= wanted[:30].mean(axis=(0, 1))
    wanted *= np.sqrt(12 / np.mean(np.sum(wanted[:30] ** 2, axis=2)))
    assert seen.shape == wanted.shape and found.networks["network"].layers == tuple(3 * len(side) for side in sides)
    products = [np.einsum("epi,fqi->epfq", one, one) for one in (seen, wanted)]
    assert np.abs(products[0] - products[1]).max() < 2 * STEP * np.sqrt(np.max(products[1]))
    np.testing.assert_allclose(found.pooled, encoder.encode(read.encoder, read.tokens).pooled, rtol=1e-6)


def test_shuffling_an_encoder_moves_the_entries_of_queries_and_keys_alone():
    encoder = words("made", 0, 60, 40).encoder
    first, second = (shuffled(encoder, 0, number) for number in (0, 1))
    assert any(not np.array_equal(*pair) for pair in zip(first.layers.query, second.layers.query, strict=True))
    for name in encoder.layers._fields:
        for before, after in zip(getattr(encoder.layers, name), getattr(second.layers, name), strict=True):
            assert np.array_equal(before, after) == (name not in ("query", "key"))
            np.testing.assert_array_equal(np.sort(before, axis=None), np.sort(after, axis=None))


def test_encoder_with_uniform_attention_has_equal_heads():
    read = words("made", 0, 30, 10)
    seen = encoded_task(read._replace(encoder=uniform(read.encoder)), {"deep": [0, 0]}, 20, 4).networks["deep"]
    for one, other in itertools.pairwise(range(seen.values.shape[1])):
        np.testing.assert_allclose(seen.values[:, one], seen.values[:, other], atol=STEP)


def test_terms_of_sentences_are_weighted_by_their_rarity():
    tokens = encoder.Tokens(
        np.array([[0, 5, 5, 6, 1], [0, 5, 7, 1, 0], [0, 6, 7, 8, 1]]), np.array([5, 4, 5]), np.array([5, 4, 5])
    )
    found = tf_idf(tokens, 2)
    rare, common = 1 + np.log(3 / 2), 1.0
    # 5, 6, (5, 5), (5, 6), 7, (5, 7): what only the third sentence has is not known.
    wanted = np.array([[2 * common, rare, rare, rare, 0, 0], [common, 0, 0, 0, rare, rare], [0, rare, 0, 0, rare, 0]])
    np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted, axis=1, keepdims=True))
