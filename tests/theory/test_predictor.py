"""Mean, variance and accuracy of the predictor: equations (9), (30)."""

import jax
import numpy as np
import pytest
import reference

import statmech_attention as sma

HEADS, TRAIN, TEST, FEATURES = (2, 3), 5, 4, 8


def draw(seed):
    rng = np.random.default_rng(seed)
    train, test = rng.normal(size=(TRAIN, 6, FEATURES)), rng.normal(size=(TEST, 6, FEATURES))
    return train, rng.normal(size=TRAIN), test, reference.random_order_parameters(rng, HEADS)[0]


def predict(train, labels, test, order_parameter, *, joint=False, **changes):
    problem = sma.Problem(train, labels, **{"temperature": 0.1, "layers": HEADS} | changes)
    return sma.predict(problem, test, order_parameter, joint=joint)


@pytest.mark.parametrize("temperature", [0.001, 0.1, 10.0])
def test_mean_and_variance_are_those_of_the_joint_gaussian(temperature):
    train, labels, test, order_parameter = draw(80)
    found = predict(train, labels, test, order_parameter, temperature=temperature, variance=1.3)
    mean, variance = reference.predict(train, labels, test, order_parameter, HEADS, temperature, 1.3)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-9)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-9)


@pytest.mark.parametrize("outputs", [1, 2])
def test_a_joint_prediction_is_the_gaussian_of_dense_algebra(outputs):
    rng = np.random.default_rng(87)
    heads = HEADS if outputs == 1 else (*HEADS, sma.Outputs(2))
    train, labels, test, _ = draw(87)
    rows = rng.normal(size=(6 * outputs, 6 * outputs))
    order_parameter = rows @ rows.T
    if outputs == 2:
        labels = rng.normal(size=(TRAIN, 2))
    options = {"layers": heads, "variance": 1.3}
    found = predict(train, labels, test, order_parameter, joint=True, **options)
    both = np.concatenate([train, test])
    kernel = np.asarray(sma.kernel(both, both, order_parameter, **options)).reshape(2 * ((TRAIN + TEST) * outputs,))
    seen, rest = np.split(np.arange(len(kernel)), [TRAIN * outputs])
    inverse = np.linalg.inv(kernel[np.ix_(seen, seen)] + 0.1 * np.eye(len(seen)))
    mean = kernel[np.ix_(rest, seen)] @ inverse @ labels.reshape(-1)
    covariance = kernel[np.ix_(rest, rest)] - kernel[np.ix_(rest, seen)] @ inverse @ kernel[np.ix_(seen, rest)]
    axes = (TEST,) if outputs == 1 else (TEST, 2)
    assert found.mean.shape == axes and found.covariance.shape == 2 * axes
    np.testing.assert_allclose(found.mean.reshape(-1), mean, rtol=1e-9)
    np.testing.assert_allclose(found.covariance.reshape(covariance.shape), covariance, rtol=1e-9, atol=1e-11)
    alone = predict(train, labels, test, order_parameter, **options)
    np.testing.assert_allclose(found.variance, alone.variance, rtol=1e-9)
    np.testing.assert_allclose(found.mean, alone.mean, rtol=1e-13)  # another program: up to rounding

    drawn = np.asarray(found.samples(jax.random.key(1), 4000))
    assert drawn.shape == (4000, *axes)
    flat, size = drawn.reshape(4000, -1) - mean, len(mean)
    # Second moments of a Gaussian vary by C_ii C_jj + C_ij^2.
    errors = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / 4000)
    assert np.max(np.abs(flat.T @ flat / 4000 - covariance) / errors) < 4.5
    assert np.max(np.abs(flat.mean(axis=0)) / np.sqrt(np.diag(covariance) / 4000)) < 4.5 and size == TEST * outputs


def test_a_batch_of_solutions_predicts_jointly_and_draws_for_each():
    train, labels, test, _ = draw(88)
    sweep = sma.solve_sweep(sma.Problem(train, labels, layers=HEADS), widths=[9.0, 3.0], temperatures=[0.1])
    found = sweep.predict(test, joint=True)
    one = sweep[1, 0].predict(test, joint=True)
    assert found.covariance.shape == (2, 1, TEST, TEST)
    np.testing.assert_allclose(found.covariance[1, 0], one.covariance, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.variance, sweep.predict(test).variance, rtol=1e-9)
    assert found.samples(jax.random.key(0), 3).shape == (3, 2, 1, TEST)
    with pytest.raises(ValueError, match="draws: wanted a whole number of at least 1, got 0"):
        one.samples(jax.random.key(0), 0)


def test_the_kernel_is_factorised_once():
    train, labels, test, order_parameter = draw(89)
    for joint in (False, True):
        program = jax.make_jaxpr(lambda *given, joint=joint: predict(*given, joint=joint))(
            train, labels, test, order_parameter
        )
        assert str(program).count("= cholesky ") == 1


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
