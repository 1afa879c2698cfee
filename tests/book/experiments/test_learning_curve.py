"""The learning curve at tiny size: the comparison on all examples at once, and streams that go on."""

import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.temperatures import LIMIT, RESCALED, THEORY, compare
from statmech_attention.tasks import HiddenMarkovTrial

from .shared import *  # noqa: F403
from .shared import test_an_interrupted_run_goes_on_and_ends_the_same  # noqa: F401

EXPERIMENT = "LearningCurve"
SETTINGS = dict(
    seed=1,
    draws=1,
    length=3,
    token_size=4,
    counts=[10, 60],
    widths=[20, 5],
    temperatures=[0.1, 1.0],
    test_examples=40,
    chunk=20,
)
WRONG = [{"draws": 0}, {"counts": []}, {"widths": [0.0]}, {"chunk": 0}]


def test_a_reduced_trial_compares_as_all_its_examples(recorded, found, make):
    experiment = make(recorded.parent)
    assert recorded.name == "learning-curve-seed1.nc" and experiment.sizes(60) == [10, 20, 20, 10]
    reduced = experiment.trial(0, 60)
    assert reduced.problem.examples == 60 and len(reduced.labels) == 33
    chunks = list(experiment.chunks(0, 60))
    values = jnp.concatenate([inputs.values for inputs, _ in chunks])
    train, labels = sma.AttentionedInputs(values, (2, 2)), jnp.concatenate([labels for _, labels in chunks])
    whole = HiddenMarkovTrial(train, labels, reduced.test, reduced.test_labels)
    one, other = (compare([trial], width=5.0, temperatures=[0.1, 1.0]) for trial in (reduced, whole))
    for curve in (THEORY, LIMIT, RESCALED):
        np.testing.assert_allclose(one.accuracy[curve], other.accuracy[curve], atol=1e-9)
        np.testing.assert_allclose(one.evidence[curve], other.evidence[curve], rtol=1e-7)
    row = found.sel(draw=0, examples=60, width=5)
    assert float(row.theory) == pytest.approx(one.at_best(THEORY)[0])
    assert float(row.limit_temperature) == pytest.approx(one.temperature(LIMIT))
