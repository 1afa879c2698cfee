"""The theory on an encoder's attention at chosen points, at tiny size with a random encoder and made-up sentences."""

import itertools

import numpy as np
import pytest

import statmech_attention as sma
from attention_book import experiments, results, tasks
from attention_book.experiments.encoded_inputs import STEP, shuffled, tf_idf, words
from attention_book.measures import training_kernel

from ..tasks.encoded import encoded_sentences
from .shared import *  # noqa: F403

EXPERIMENT = "EncodedPoints"
SETTINGS = dict(seed=0, task="made", split=[60, 40], layers=[0, 1], skips=True, fitted=20, examples=30)
SETTINGS |= dict(validation_examples=20, directions=6, widths=[10], temperatures=[1.0, 0.1])
WRONG = [{"task": "weather"}, {"split": [60]}, {"examples": 41}, {"fitted": 1}, {"validation_examples": 60}]
WRONG += [{"attention": "uniform"}, {"attention": "mine"}]  # the first with skips


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
        assert float(here["log_evidence"]) == pytest.approx(float(sma.log_evidence(solution)), abs=1e-5)
        np.testing.assert_allclose(
            here["score"].sel(definition="both"),
            sma.head_scores(solution.order_parameter, layers=solution.problem.layers),
            atol=1e-3,
        )
        outputs = np.asarray(solution.predict(problem.test).mean)
        assert float(here["accuracy"]) == np.mean(np.sign(outputs) == problem.test_labels)
        np.testing.assert_array_equal(here["right"], 2 * (np.sign(outputs) == problem.test_labels))


def with_attention(make, folder, attention):
    return make(folder, skips=False, attention=attention)


def test_uniform_attention_is_the_mean_over_tokens_with_any_number_of_heads(make, tmp_path):
    read, problem = words("made", 0, 60, 40), with_attention(make, tmp_path, "uniform").problem()
    embeddings = np.asarray(tasks.encode(read.encoder, read.tokens).embeddings)
    means = np.stack([one[:size].mean(axis=0) for one, size in zip(embeddings, read.tokens.lengths, strict=True)])
    centred = means - means[:20].mean(axis=0)
    _, sizes, axes = np.linalg.svd(centred[:20], full_matrices=False)
    wanted = centred @ axes[:6].T * np.sqrt(20 * 6 / np.sum(sizes[:6] ** 2))
    for part, rows in ((problem.train, np.r_[:30]), (problem.validation, np.r_[40:60]), (problem.test, np.r_[60:100])):
        seen = np.asarray(part.values)[:, 0]
        signs = np.sign(np.sum(seen * wanted[rows], axis=0))
        assert part.layers == (2, 2) and np.abs(seen - signs * wanted[rows]).max() < 0.51 * STEP
    one = sma.Problem(problem.train, problem.labels, width=10, temperature=0.1)
    many = one.replace(attentioned=sma.AttentionedInputs(np.repeat(problem.train.values[:, :1], 9, axis=1), (3, 3)))
    one, many = sma.solve(one), sma.solve(many)
    np.testing.assert_allclose(
        training_kernel(one),
        training_kernel(many),
        rtol=1e-4,
    )
    assert float(sma.log_evidence(one)) == pytest.approx(float(sma.log_evidence(many)), abs=1e-5)


def test_every_path_is_centred_or_queries_and_keys_are_shuffled(make, tmp_path):
    real, centred, first, second = (
        with_attention(make, tmp_path, name).problem() for name in ("real", "centred", "shuffled0", "shuffled1")
    )
    assert (
        np.abs(np.mean(centred.train.values[:20], axis=0)).max()
        < STEP
        < np.abs(np.mean(real.train.values[:20], axis=0)).max()
    )
    differ = [one.train.values != other.train.values for one, other in itertools.combinations((real, first, second), 2)]
    assert all(np.mean(one) > 0.5 for one in differ)
    encoder = words("made", 0, 60, 40).encoder
    mixed = shuffled(encoder, 0, 1)
    for name in encoder.layers._fields:
        for before, after in zip(getattr(encoder.layers, name), getattr(mixed.layers, name), strict=True):
            assert np.array_equal(before, after) == (name not in ("query", "key"))
            np.testing.assert_array_equal(np.sort(before, axis=None), np.sort(after, axis=None))


def test_what_is_recorded_beside_another_attention(make, tmp_path):
    experiment = with_attention(make, tmp_path, "uniform")
    found = results.load(experiment.run(progress=False))
    assert experiments.experiment_of(experiment.path) == experiment
    assert float(found["participation"]) == pytest.approx(1) and found["bag_right"].shape == (40,)
    assert float(found["majority"]) == np.bincount(experiment.problem().test_labels > 0).max() / 40


def test_terms_are_weighted_by_how_few_sentences_have_them():
    tokens = tasks.Tokens(
        np.array([[0, 5, 5, 6, 1], [0, 5, 7, 1, 0], [0, 6, 7, 8, 1]]), np.array([5, 4, 5]), np.array([5, 4, 5])
    )
    found = tf_idf(tokens, 2)
    rare, common = 1 + np.log(3 / 2), 1.0
    # 5, 6, (5, 5), (5, 6), 7, (5, 7): what only the third sentence has is not known.
    wanted = np.array([[2 * common, rare, rare, rare, 0, 0], [common, 0, 0, 0, rare, rare], [0, rare, 0, 0, rare, 0]])
    np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted, axis=1, keepdims=True))
