"""Ridge and logistic regression on embeddings of sentences; penalties chosen on training sentences."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.optimize
from jaxtyping import Float

PENALTIES = tuple(10.0 ** np.arange(-3, 3))
_FOLDS = 5


class Probe(NamedTuple):
    r"""A linear function, $f(x) = w \cdot x + b$."""

    weights: Float[np.ndarray, " features"]
    intercept: float
    penalty: float  # the one chosen, of the squares of the weights

    def __call__(self, inputs) -> Float[np.ndarray, "*networks examples"]:
        return inputs @ self.weights + self.intercept


def ridge(inputs, labels, penalties: Sequence[float] = PENALTIES) -> Probe:
    r"""Minimise $\sum_\mu (f(x_\mu) - y_\mu)^2 + \lambda |w|^2$; $\lambda$ by leave-one-out."""
    centre, mean, count = inputs.mean(axis=0), labels.mean(), len(labels)
    left, sizes, right = np.linalg.svd(inputs - centre, full_matrices=False)
    along = left.T @ (labels - mean)

    def left_out(penalty: float) -> float:
        shrunk = sizes**2 / (sizes**2 + penalty)
        outputs, own = mean + left @ (shrunk * along), 1 / count + left**2 @ shrunk
        return float(np.sum(((labels - outputs) / (1 - own)) ** 2))

    penalty = min(penalties, key=left_out)
    weights = right.T @ (sizes / (sizes**2 + penalty) * along)
    return Probe(weights, float(mean - centre @ weights), float(penalty))


def logistic(inputs, labels, penalties: Sequence[float] = PENALTIES) -> Probe:
    r"""Minimise $\sum_\mu \ln(1 + e^{-y_\mu f(x_\mu)}) + \frac\lambda2 |w|^2$; $\lambda$ by held-out fifths."""
    # Of classes that come in any order: every fifth of each class.
    order = np.argsort(labels, kind="stable")
    fold = np.empty(len(labels), int)
    fold[order] = np.arange(len(labels)) % _FOLDS

    def held_out(penalty: float) -> float:
        losses = 0.0
        for number in range(_FOLDS):
            here = fold == number
            probe = _logistic(inputs[~here], labels[~here], penalty)
            losses += float(np.sum(np.logaddexp(0, -labels[here] * probe(inputs[here]))))
        return losses

    return _logistic(inputs, labels, min(penalties, key=held_out))


def _logistic(inputs, labels, penalty: float) -> Probe:
    # With no more features than examples: the weights are a combination of the inputs.
    centre = inputs.mean(axis=0)
    _, _, basis = np.linalg.svd(inputs - centre, full_matrices=False)
    seen = (inputs - centre) @ basis.T

    def loss(point):
        margins = labels * (seen @ point[:-1] + point[-1])
        slopes = -labels * scipy.special.expit(-margins)
        value = np.sum(np.logaddexp(0, -margins)) + 0.5 * penalty * point[:-1] @ point[:-1]
        return value, np.append(seen.T @ slopes + penalty * point[:-1], slopes.sum())

    start = np.zeros(seen.shape[1] + 1)
    point = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
    weights = basis.T @ point[:-1]
    return Probe(weights, float(point[-1] - centre @ weights), float(penalty))
