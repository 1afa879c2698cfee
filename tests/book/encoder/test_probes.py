"""Ridge and logistic regression against what they minimise, and a penalty chosen by leaving out one after the other."""

import numpy as np
import pytest
import scipy.optimize

from attention_book.encoder.probes import logistic, ridge


@pytest.fixture(scope="module", params=[(12, 20), (30, 4)])
def data(request):
    """Fewer examples than features, and more; classes that overlap."""
    random = np.random.default_rng(0)
    labels = random.permutation(np.resize([1.0, 1.0, -1.0], request.param[0]))
    return 0.5 * labels[:, None] + random.normal(size=request.param) + 1, labels


def by_hand(inputs, labels, penalty):
    """Ridge regression, the intercept without a penalty."""
    ones = np.column_stack([inputs, np.ones(len(inputs))])
    penalties = np.diag([penalty] * inputs.shape[1] + [0.0])
    return np.linalg.solve(ones.T @ ones + penalties, ones.T @ labels)


def test_ridge_solves_its_equations_with_the_penalty_of_leaving_one_out(data):
    inputs, labels = data
    found = ridge(inputs, labels)
    wanted = by_hand(inputs, labels, found.penalty)
    np.testing.assert_allclose([*found.weights, found.intercept], wanted, atol=1e-8)

    def left_out(penalty):
        errors = []
        for one in range(len(labels)):
            others = np.arange(len(labels)) != one
            *weights, intercept = by_hand(inputs[others], labels[others], penalty)
            errors.append((labels[one] - inputs[one] @ weights - intercept) ** 2)
        return np.sum(errors)

    penalties = (0.01, 0.3, 10.0, 300.0)
    assert ridge(inputs, labels, penalties).penalty == min(penalties, key=left_out)


def test_logistic_regression_is_at_its_minimum(data):
    inputs, labels = data
    found = logistic(inputs, labels, [0.7])

    def loss(point):
        margins = labels * (inputs @ point[:-1] + point[-1])
        return np.sum(np.logaddexp(0, -margins)) + 0.35 * point[:-1] @ point[:-1]

    wanted = scipy.optimize.minimize(loss, np.zeros(inputs.shape[1] + 1), method="BFGS", tol=1e-9).x
    np.testing.assert_allclose([*found.weights, found.intercept], wanted, atol=2e-3)
    np.testing.assert_allclose(found(inputs), inputs @ wanted[:-1] + wanted[-1], atol=5e-3)
    assert found.penalty == 0.7
