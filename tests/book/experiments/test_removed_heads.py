"""Heads removed from an encoder: beside gates at 0, and a probe refitted by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from attention_book import tasks
from attention_book.experiments.encoded_inputs import words
from attention_book.experiments.linear_probes import logistic
from attention_book.tasks._encoder_layers import sentence_embeddings, without_heads

from .shared import *  # noqa: F403

EXPERIMENT = "RemovedHeads"
SETTINGS = dict(seed=0, task="made", split=[60, 80], examples=30, test_examples=70, directions=6, width=10)
SETTINGS |= dict(temperatures=[1.0, 0.1], kept=[4, 2], random=1, repeats=2)
WRONG = [{"split": [60]}, {"examples": 61}, {"test_examples": 81}, {"kept": [7]}, {"random": 0}, {"repeats": -1}]


@pytest.fixture(scope="module")
def read():
    whole = words("made", 0, 60, 80)
    rows = [*range(30), *range(60, 130)]
    return whole._replace(tokens=whole.tokens[rows], labels=whole.labels[rows])


@pytest.mark.parametrize("left", [[0, 1, 5], [3]])
def test_the_smaller_encoder_is_the_one_with_gates_at_zero(read, left):
    """Also without any head in a layer."""
    gates = np.isin(np.arange(6), left).reshape(2, 3)
    smaller, part = without_heads(read.encoder, gates), read.tokens[np.arange(9)]
    assert smaller.layers[0].query.weight.shape == (4 * gates[0].sum(), 12)
    found = sentence_embeddings(smaller, jnp.asarray(part.ids), jnp.asarray(part.mask))
    wanted = tasks.encode(read.encoder, part, head_gates=gates.astype(float)).pooled
    np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("order", ["both", "kernel weights", "Taylor in the encoder", "lower layers"])
def test_accuracies_by_hand(found, read, order):
    gates = np.ones(6)
    if order != "lower layers":
        gates[np.argsort(found["score"].sel(criterion=order).values, kind="stable")[:4]] = 0
    seen = tasks.encode(read.encoder, read.tokens, head_gates=gates.reshape(2, 3))
    pooled = np.asarray(seen.pooled)
    if order == "lower layers":
        mask = read.tokens.mask[..., None]
        pooled = np.sum(np.asarray(seen.hidden[:, 0]) * mask, axis=1)
        pooled /= np.linalg.norm(pooled, axis=1, keepdims=True)
    outputs = logistic(pooled[:30], read.labels[:30])(pooled[30:])
    assert float(found["accuracy"].sel(order=order, kept=2)) == np.mean(np.sign(outputs) == read.labels[30:])


def test_times_are_there_and_of_the_same_embeddings(found, make, tmp_path):
    assert float(found["removed_apart"]) < 1e-12
    assert found["sentence_seconds"].min() > 0 and found["whole_seconds"].min() > 0
    assert found["sentence_seconds"].sizes == {"timed": 5, "kept": 2, "batch": 2}
    assert np.all(found["selection_seconds"] > 0)
