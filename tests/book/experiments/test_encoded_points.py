"""The theory on an encoder's attention at chosen points, at tiny size with a random encoder and made-up sentences."""

import numpy as np
import pytest

import statmech_attention as sma
from attention_book import experiments
from attention_book.experiments.encoded_inputs import STEP, words

from ..tasks.encoded import encoded_sentences
from .shared import *  # noqa: F403

EXPERIMENT = "EncodedPoints"
SETTINGS = dict(seed=0, task="made", split=[60, 40], layers=[0, 1], skips=True, fitted=20, examples=30)
SETTINGS |= dict(validation_examples=20, directions=6, widths=[10], temperatures=[1.0, 0.1])
WRONG = [{"task": "weather"}, {"split": [60]}, {"examples": 41}, {"fitted": 1}, {"validation_examples": 60}]


@pytest.fixture(scope="module")
def problem(recorded):
    return experiments.experiment_of(recorded).problem()


def test_inputs_are_those_of_the_encoders_layers_with_skips(problem):
    read = words("made", 0, 60, 40)
    parts = read.tokens[np.arange(20)], read.tokens[np.arange(60, 100)]
    wanted = encoded_sentences(read.encoder, *parts, [0, 1], directions=6, skips=True)
    assert problem.train.layers == wanted.train.layers == (sma.SkipHeads(3),) * 2
    assert problem.train.values.shape == (30, 16, 6) and problem.validation.values.shape == (20, 16, 6)
    # A path through one head of three has a third of the weight, one through two a ninth: (2) with unit variances.
    weights = np.outer([1, 1 / 3, 1 / 3, 1 / 3], [1, 1 / 3, 1 / 3, 1 / 3]).ravel()
    fitted = np.asarray(problem.train.values)[:20]
    assert np.einsum("epi,epi,p->", fitted, fitted, weights) == pytest.approx(20 * 6)
    # Directions have a sign that nothing decides, and inputs are rounded before they are scaled.
    seen, expected = np.asarray(problem.test.values), np.asarray(wanted.test.values)
    signs = np.sign(np.sum(seen * expected, axis=(0, 1)))
    rounded = STEP * np.round(np.asarray(wanted.train.values) / STEP)
    factor = np.einsum("epi,epi,p->", rounded, rounded, weights) / (20 * 6)
    assert np.abs(seen * np.sqrt(factor) - signs * expected).max() < 0.51 * STEP
    np.testing.assert_array_equal(problem.labels, read.labels[:30])
    np.testing.assert_array_equal(problem.validation_labels, read.labels[40:60])
    np.testing.assert_array_equal(problem.test_labels, read.labels[60:])


def test_points_are_those_of_solver_and_predictor(found, problem):
    assert found["temperature"].values.tolist() == [0.1, 1.0] and sorted(found["width"].values) == [10, np.inf]
    for width in (10, np.inf):
        solution = sma.solve(sma.Problem(problem.train, problem.labels, width=width, temperature=0.1))
        here = found.sel(width=width, temperature=0.1)
        assert float(here["log_evidence"]) == pytest.approx(float(solution.log_evidence()), abs=1e-5)
        np.testing.assert_allclose(here["score"].sel(definition="both"), solution.head_scores(), atol=1e-3)
        outputs = np.asarray(solution.predict(problem.test).mean)
        assert float(here["accuracy"]) == np.mean(np.sign(outputs) == problem.test_labels)
        np.testing.assert_array_equal(here["right"], 2 * (np.sign(outputs) == problem.test_labels))
