"""The estimators of scikit-learn: its own checks, the theory's numbers, and the tools that take an estimator."""

import math
import pickle

import jax
import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel

LAYERS = (2, 2)


@pytest.mark.filterwarnings("ignore:layers. wanted those of the paths, got .* flat columns:UserWarning")
@parametrize_with_checks([sma.AttentionPathsClassifier(), sma.AttentionPathsRegressor()])
def test_scikit_learn_accepts_the_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def data():
    """Inputs along four paths, of which two tell the target."""
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(60, 4, 5))
    return inputs, inputs[:, 0, 0] + inputs[:, 3, 1]


def test_the_regressor_predicts_what_the_theory_does(data):
    inputs, target = data
    model = sma.AttentionPathsRegressor(LAYERS, width=5.0, temperature=0.2).fit(inputs[:40], target[:40])
    shift, scale = target[:40].mean(), target[:40].std()
    problem = sma.Problem(inputs[:40], (target[:40] - shift) / scale, layers=LAYERS, width=5.0, temperature=0.2)
    solution = sma.minima(problem)[0]
    mean, variance = solution.predict(inputs[40:])
    found, deviation = model.predict(inputs[40:], return_std=True)
    np.testing.assert_allclose(found, shift + scale * mean, rtol=1e-9)
    np.testing.assert_allclose(deviation, scale * np.sqrt(variance), rtol=1e-9)
    assert model.log_evidence_ == pytest.approx(float(sma.log_evidence(solution)))
    np.testing.assert_array_equal(model.set_params(temperature=3.0).predict(inputs[40:]), found)  # as it was fitted
    flat = sma.AttentionPathsRegressor(LAYERS, width=5.0, temperature=0.2).fit(inputs[:40].reshape(40, -1), target[:40])
    np.testing.assert_allclose(flat.predict(inputs[40:].reshape(20, -1)), found, rtol=1e-9)


@pytest.mark.parametrize("kind", ["AttentionPathsClassifier", "AttentionPathsRegressor"])
def test_a_weight_is_as_many_equal_examples(data, kind):
    inputs, target = data
    target = np.where(target > 0, "yes", "no") if kind.endswith("Classifier") else target
    weights = np.random.default_rng(1).integers(0, 4, 40)
    model = getattr(sma, kind)(LAYERS, width=5.0, temperature=0.2)
    outputs = "predict_proba" if kind.endswith("Classifier") else "predict"
    found = getattr(model.fit(inputs[:40], target[:40], sample_weight=weights), outputs)(inputs[40:])
    again = [np.repeat(part[:40], weights, axis=0) for part in data[:1]] + [np.repeat(target[:40], weights)]
    np.testing.assert_allclose(getattr(model.fit(*again), outputs)(inputs[40:]), found, rtol=1e-6)
    plain = getattr(model.fit(inputs[:40], target[:40]), outputs)(inputs[40:])
    assert np.abs(plain - found).max() > 0.01
    np.testing.assert_allclose(getattr(model.fit(inputs[:40], target[:40], np.ones(40)), outputs)(inputs[40:]), plain)
    assert model.fit(inputs[:40], target[:40], weights).criterion(inputs[40:]).r >= 0
    with pytest.raises(ValueError, match="must contain at least one non-zero number"):
        model.fit(inputs, target, np.zeros(60))


def test_the_classifier_is_pickled_searched_and_stands_in_a_pipeline(data):
    inputs, target = data
    flat, names = inputs.reshape(60, -1), np.where(target > 0, "yes", "no")
    pipeline = make_pipeline(StandardScaler(), sma.AttentionPathsClassifier(LAYERS))
    assert cross_val_score(pipeline, flat, names, cv=3).mean() > 0.75
    search = GridSearchCV(sma.AttentionPathsClassifier(LAYERS), {"temperature": [0.1, 10.0]}, cv=3).fit(inputs, names)
    best = search.best_estimator_
    loaded = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(loaded.predict_proba(inputs), best.predict_proba(inputs))


def test_the_fit_is_at_the_lowest_of_two_minima_and_says_how_far_to_trust_it():
    numbers = {"examples": 100, "features": 400, "width": 10.0, "temperature": 0.05}
    problem, test, labels = SolvableModel([[1, 0.999], [0.999, 1]], [0.5, 0.0], **numbers).sample(jax.random.key(0), 60)
    model = sma.AttentionPathsClassifier(width=10.0, temperature=0.05)
    model.fit(np.asarray(problem.attentioned.values), np.asarray(problem.labels))
    assert model.score(np.asarray(test.values), np.asarray(labels)) > 0.98  # at the other minimum near one half
    found = model.criterion(np.asarray(test.values))
    assert found.is_lowest and len(found.minima) == 2 and found.r < 0.1


def test_three_classes_are_told_apart_in_single_precision_outside(data):
    inputs, target = data
    classes = np.digitize(target, [-0.5, 0.5])
    with jax.enable_x64(False):
        model = sma.AttentionPathsClassifier(LAYERS).fit(inputs, classes)
        share = model.predict_proba(inputs)
    np.testing.assert_allclose(share.sum(axis=1), 1.0)
    assert share.shape == (60, 3) and model.score(inputs, classes) > 0.7


def test_columns_that_are_no_multiple_of_the_paths_are_refused(data):
    with pytest.raises(ValueError, match="X: wanted a multiple of 4 columns"):
        sma.AttentionPathsRegressor(LAYERS).fit(np.ones((5, 7)), np.arange(5.0))


def test_flat_columns_without_layers_are_one_path_and_say_so(data):
    inputs, target = data
    flat = inputs.reshape(60, -1)
    with pytest.warns(UserWarning, match=r"layers: wanted those of the paths, got 20 flat columns, .* as one path"):
        found = sma.AttentionPathsRegressor().fit(flat, target)
    assert found.order_parameter_.shape == (1, 1)
    same = sma.AttentionPathsRegressor((1,)).fit(flat, target)  # no warning
    np.testing.assert_array_equal(found.predict(flat), same.predict(flat))
    deep = sma.AttentionPathsRegressor().fit(inputs, target)
    np.testing.assert_array_equal(deep.predict(flat), deep.predict(inputs))
    flattened = sma.AttentionPathsRegressor(LAYERS).fit(flat, target)
    np.testing.assert_array_equal(flattened.predict(inputs), flattened.predict(flat))


def test_probabilities_are_those_of_a_normal_output_with_its_noise(data):
    inputs, target = data
    names = np.where(target > 0, 1, -1)
    model = sma.AttentionPathsClassifier(LAYERS, temperature=0.7).fit(inputs[:40], names[:40])
    problem = sma.Problem(inputs[:40], names[:40].astype(float), layers=LAYERS, width=10.0, temperature=0.7)
    solution = sma.minima(problem)[0]
    mean, variance = sma.kernel_regression(problem, solution.order_parameter).predict(inputs[40:])
    wanted = [math.erfc(-m / math.sqrt(2 * (v + 0.7))) / 2 for m, v in zip(mean, variance, strict=True)]
    np.testing.assert_allclose(model.predict_proba(inputs[40:])[:, 1], wanted, rtol=1e-8)


def test_the_deviation_of_a_new_observation_has_the_noise(data):
    inputs, target = data
    model = sma.AttentionPathsRegressor(LAYERS, temperature=0.7).fit(inputs, target)
    _, alone = model.predict(inputs, return_std=True)
    _, noisy = model.predict(inputs, return_std=True, noise=True)
    np.testing.assert_allclose(noisy**2 - alone**2, 0.7 * target.var(), rtol=1e-9)


def test_what_is_no_array_and_outputs_given_twice_are_refused(data):
    seen = sma.model.AttentionedInputs(jax.numpy.asarray(data[0]), sma.layers.Chain.of(LAYERS))
    with pytest.raises(
        ValueError, match=r"X: wanted an array, got AttentionedInputs. Take X.values, and layers=\(2, 2"
    ):
        sma.AttentionPathsRegressor().fit(seen, data[1])
    classes = np.digitize(data[1], [-0.5, 0.5])
    with pytest.raises(ValueError, match=r"layers: wanted none of outputs"):
        sma.AttentionPathsClassifier((2, 2, sma.Outputs(3))).fit(data[0], classes)
