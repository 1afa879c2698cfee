"""Encoders with few heads, fine-tuned: beside the training of the smaller encoder itself."""

import functools
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from attention_book import experiments
from attention_book.experiments.masked_heads import fine_tuned
from attention_book.tasks._encoder_layers import embedded, through_layers, without_heads

from .shared import *  # noqa: F403
from .shared import test_an_interrupted_run_goes_on_and_ends_the_same  # noqa: F401
from .test_removed_heads import SETTINGS as SCORED

EXPERIMENT = "TunedHeads"
TRAINING = dict(epochs=2, rate=0.01, batch=10)
SETTINGS = dict(seed=0, task="made", test_examples=70, random=1, **TRAINING)
WRONG = [{"task": "weather"}, {"test_examples": 1}, {"random": 0}, {"epochs": 0}, {"rate": 0}, {"batch": 0}]


def prepare(folder):
    """Scores of the heads."""
    experiments.RemovedHeads(folder=folder, **{**SCORED, "repeats": 0}).run(progress=False)


@pytest.fixture(scope="module")
def experiment(recorded):
    return experiments.experiment_of(recorded)


def test_gates_at_zero_train_the_smaller_encoder(experiment):
    data, gates = experiment.removed.words(), np.array([[1.0, 0, 0], [0, 0, 1.0]])
    learned = data._replace(tokens=data.tokens[np.arange(30)], labels=data.labels[:30])
    gated = fine_tuned(learned, gates=gates, seed=0, **TRAINING).classifier
    layers = jax.tree.map(lambda *each: jnp.stack(each), *without_heads(data.encoder, gates).layers)
    smaller = replace(data.encoder, layers=layers)
    alone = fine_tuned(learned._replace(encoder=smaller), seed=0, **TRAINING).classifier
    ids, mask = (jnp.asarray(part[30:]) for part in (data.tokens.ids, data.tokens.mask))
    found, wanted = (
        through_layers(one.encoder, embedded(one.encoder, ids), mask, head_gates=on)[0][-1, :, 0] @ one.probe.weights
        for one, on in ((gated, jnp.asarray(gates)), (alone, None))
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


def test_every_network_has_its_heads(experiment, found):
    words = functools.cache(experiment.removed.words)
    rows = {name[:2]: name[2] for name in experiment.networks(words().encoder)}
    assert len(rows) == experiment.total == 1 + found["accuracy"].size
    assert rows["all heads", 6].all() and rows["lower layers", 2].shape == (1, 3)
    assert all(gates.sum() == size for (order, size), gates in rows.items() if order != "lower layers")
    for order in ("kernel weights", "lower layers"):
        again = experiment.accuracy(words, rows[order, 2], order == "lower layers")
        assert again == float(found["accuracy"].sel(order=order, kept=2))
