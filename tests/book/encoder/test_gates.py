"""Gates on the heads of a tiny random encoder, on made-up sentences, against passes from scratch."""

import numpy as np
import pytest

from attention_book import encoder
from attention_book.encoder import (
    POOLED,
    Classifier,
    features,
    fine_tuned,
    gates_of,
    logistic,
    lowest_layers,
    taylor_in_encoder,
    words,
)

TRAINING = dict(epochs=2, rate=0.01, batch=10)


@pytest.fixture(scope="module")
def read():
    return words("made", 0, 30, 20)


@pytest.fixture(scope="module")
def classifiers(read):
    learned = read.taken(np.arange(30))
    pooled = np.asarray(encoder.encode(read.encoder, learned.tokens).pooled, float)
    probe = Classifier(read.encoder, POOLED, logistic(pooled, learned.labels))
    return {"probe": probe, "tuned": fine_tuned(learned, seed=0, **TRAINING).classifier}


def outputs_by_hand(classifier, tokens, gates=None):
    """A pass from scratch, all sentences padded alike."""
    seen = encoder.encode(classifier.encoder, tokens, head_gates=gates)
    tokens_out = seen.pooled if classifier.readout == POOLED else seen.hidden[:, -1, 0]
    return np.asarray(tokens_out) @ classifier.probe.weights + classifier.probe.intercept


@pytest.mark.parametrize("network", ["probe", "tuned"])
def test_outputs_with_heads_masked_are_those_of_a_pass_from_scratch(read, classifiers, network):
    gates = np.ones((3, 2, 3))
    gates[1, 1, 2], gates[2, 0] = 0, 0.5
    found = classifiers[network].outputs(read.tokens, gates)
    wanted = [outputs_by_hand(classifiers[network], read.tokens, one) for one in gates]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("network", ["probe", "tuned"])
def test_taylor_importance_in_the_encoder_is_that_of_finite_differences(read, classifiers, network):
    step, slopes = 1e-5, []
    for head in range(6):
        change = step * np.eye(6)[head].reshape(2, 3)
        more, less = (
            np.log1p(np.exp(-read.labels * outputs_by_hand(classifiers[network], read.tokens, 1 + sign * change)))
            for sign in (1, -1)
        )
        slopes.append(np.mean(np.abs(more - less)) / (2 * step))
    found = taylor_in_encoder(classifiers[network], read.tokens, read.labels)
    np.testing.assert_allclose(found, slopes, rtol=1e-5)


def test_gates_keep_the_heads_of_the_highest_scores(read):
    scores = np.array([0.3, 0.9, 0.1, 0.5, 0.2, 0.8])
    np.testing.assert_array_equal(gates_of(scores, 3, read.encoder), [[0, 1, 0], [1, 0, 1]])
    np.testing.assert_array_equal(gates_of(scores, 6, read.encoder), np.ones((2, 3)))


def test_lowest_layers_end_where_the_encoder_has_their_output(read):
    found = features(lowest_layers(read.encoder, 1), read.tokens, POOLED, np.ones((1, 1, 3)))[0]
    hidden = np.asarray(encoder.encode(read.encoder, read.tokens).hidden)[:, 0]
    inside = np.arange(hidden.shape[1]) < read.tokens.lengths[:, None]
    mean = (hidden * inside[..., None]).sum(axis=1) / inside.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found, mean / np.linalg.norm(mean, axis=1, keepdims=True), rtol=1e-6, atol=1e-9)


def test_heads_of_gate_zero_are_not_trained(read):
    learned, gates = read.taken(np.arange(30)), np.array([[1.0, 0, 0], [0, 0, 1.0]])
    after, before = fine_tuned(learned, gates=gates, seed=0, **TRAINING).classifier.encoder, read.encoder
    for name in ("query", "key", "value"):
        old, new = (np.asarray(getattr(one.layers, name).weight) for one in (before, after))
        moved = np.any((old != new).reshape(2, 3, -1), axis=2)
        np.testing.assert_array_equal(moved, gates > 0)
