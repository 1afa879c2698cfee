"""Mean, variance and accuracy of the predictor: equations (9), (30)."""

import jax.numpy as jnp
import numpy as np
import pytest
import reference
from scipy.stats import multivariate_normal

import statmech_attention as sma
from statmech_attention.theory.outputs import cross_kernels, output
from statmech_attention.theory.prepared import all_pairs

HEADS, TRAIN, TEST, FEATURES = (2, 3), 5, 4, 8


def draw(seed, examples=TRAIN):
    rng = np.random.default_rng(seed)
    train, test = rng.normal(size=(examples, 6, FEATURES)), rng.normal(size=(TEST, 6, FEATURES))
    return train, rng.normal(size=examples), test, reference.random_order_parameters(rng, HEADS)[0]


def predict(train, labels, test, order_parameter, **changes):
    problem = sma.Problem(train, labels, **{"temperature": 0.1, "layers": HEADS} | changes)
    return sma.kernel_regression(problem, order_parameter).predict(test)


@pytest.mark.parametrize(("temperature", "examples"), [(0.001, TRAIN), (0.1, TRAIN), (10.0, TRAIN), (0.1, 60)])
def test_mean_and_variance_are_those_of_the_joint_gaussian(temperature, examples):
    train, labels, test, order_parameter = draw(80, examples)  # 60 are more than six paths of eight features
    found = predict(train, labels, test, order_parameter, temperature=temperature, variance=1.3)
    mean, variance = reference.predict(train, labels, test, order_parameter, HEADS, temperature, 1.3)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-9)


def test_two_outputs_are_those_of_dense_algebra():
    rng = np.random.default_rng(87)
    heads = (*HEADS, sma.Outputs(2))
    train, _, test, _ = draw(87)
    rows, labels = rng.normal(size=(12, 12)), rng.normal(size=(TRAIN, 2))
    options = {"layers": heads, "variance": 1.3}
    found = predict(train, labels, test, rows @ rows.T, **options)
    both = np.concatenate([train, test])
    kernel = np.asarray(sma.kernel(both, both, rows @ rows.T, **options)).reshape(2 * ((TRAIN + TEST) * 2,))
    seen, rest = np.split(np.arange(len(kernel)), [TRAIN * 2])
    inverse = np.linalg.inv(kernel[np.ix_(seen, seen)] + 0.1 * np.eye(len(seen)))
    mean = kernel[np.ix_(rest, seen)] @ inverse @ labels.reshape(-1)
    covariance = kernel[np.ix_(rest, rest)] - kernel[np.ix_(rest, seen)] @ inverse @ kernel[np.ix_(seen, rest)]
    np.testing.assert_allclose(found.mean, mean.reshape(TEST, 2), rtol=1e-9)
    np.testing.assert_allclose(found.variance, np.diag(covariance).reshape(TEST, 2), rtol=1e-9)


def test_training_labels_are_interpolated_as_the_temperature_falls():
    train, labels, _, order_parameter = draw(85)
    errors, variances = [], []
    for temperature in (1e-2, 1e-4, 1e-6):
        found = predict(train, labels, train, order_parameter, temperature=temperature)
        errors.append(np.max(np.abs(found.mean - labels)))
        variances.append(np.max(found.variance) / temperature)
    # Both vanish in proportion to the temperature; the variance of a noisy label at a training point is its own T.
    np.testing.assert_allclose(np.array(errors[:-1]) / errors[1:], 100, rtol=0.1)
    assert np.all(np.diff(variances) > 0)
    assert variances[-1] == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(
    ("mean", "labels", "wanted"),
    [
        ([0.3, -2.0, 1.0, -0.1], [1, -1, 1, -1], 1.0),
        ([0.3, -2.0, 1.0, -0.1], [-1, 1, -1, 1], 0.0),
        ([0.3, -2.0, 1.0, -0.1], [1, 1, 1, -1], 0.75),
        ([0.0, -2.0, 0.0, -0.1], [1, 1, -1, -1], 0.5),
        ([0.0], [-1], 0.5),
    ],
)
def test_accuracy_counts_signs_and_half_of_the_ties(mean, labels, wanted):
    assert sma.accuracy(mean, labels) == wanted


def test_variances_are_never_negative():
    train, labels, _, order_parameter = draw(92)
    found = predict(1e6 * train, labels, 1e6 * train, order_parameter, temperature=1e-6)
    assert np.all(found.variance >= 0)


def test_evidence_of_two_outputs_at_infinite_width_is_a_gaussian_density():
    train, _, _, _ = draw(93)
    options, labels = {"layers": (*HEADS, sma.Outputs(2))}, np.random.default_rng(93).normal(size=(TRAIN, 2))
    covariance = np.asarray(sma.kernel(train, train, np.eye(12), **options)).reshape(2 * (2 * TRAIN,))
    wanted = multivariate_normal(cov=covariance + 0.1 * np.eye(2 * TRAIN)).logpdf(labels.ravel())
    found = sma.solve(sma.Problem(train, labels, width=np.inf, temperature=0.1, **options))
    assert float(sma.log_evidence(found)) == pytest.approx(wanted, rel=1e-10)


def test_kernels_by_pairs_of_paths_have_the_mean_and_variance_of_the_whole_kernel():
    """Both orders of a pair of paths count, in an example's kernel with itself, too."""
    random = np.random.default_rng(5)
    values, labels, root = random.normal(size=(9, 4, 3)), random.normal(size=6), random.normal(size=(4, 4))
    problem = sma.Problem(values[:6], labels, layers=(2, 2), width=5.0, temperature=0.2, variance=1.3)
    test = sma.AttentionedInputs(jnp.asarray(values[6:]), (2, 2))
    overlap = root @ root.T
    kernels = cross_kernels(problem.attentioned, test, problem.variance)
    found = output(jnp.asarray(overlap), all_pairs(problem), kernels)
    kernel = 1.3 / (4 * 3) * np.einsum("api,pq,bqi->ab", values, overlap, values)
    solved = np.linalg.solve(kernel[:6, :6] + 0.2 * np.eye(6), np.column_stack([labels, kernel[:6, 6:]]))
    np.testing.assert_allclose(found.mean, kernel[6:, :6] @ solved[:, 0], rtol=1e-10)
    variance = np.diag(kernel)[6:] - np.einsum("ab,ba->a", kernel[6:, :6], solved[:, 1:])
    np.testing.assert_allclose(found.variance, variance, rtol=1e-10)
