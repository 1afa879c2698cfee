"""The theory's predictor as a classifier and a regressor of scikit-learn.

Inputs are `(examples, paths, features)`, as from `attentioned_inputs(..).values`, or flattened to
`(examples, paths * features)`. Double precision is switched on inside, also in worker processes.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike
from scipy.special import ndtr

from statmech_attention.installed import need

need("sklearn", "estimators")

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from statmech_attention.layers import Chain, Outputs
from statmech_attention.layers.chains import Layers
from statmech_attention.model import AttentionedInputs
from statmech_attention.theory import (
    Criterion,
    NotConverged,
    Problem,
    WeightedLabels,
    criterion,
    kernel_regression,
    log_evidence,
    minima,
)

_ARRAYS: dict[str, Any] = {"allow_nd": True, "dtype": np.float64}


class _AttentionPaths(BaseEstimator):
    """Fit the order parameter to labels, at the lowest minimum; predict mean (9) and variance (30) of the output."""

    def __init__(
        self,
        layers: Layers | None = None,
        *,
        width: float | Sequence[float] = 10.0,
        temperature: float = 0.1,
        variance: float | Sequence[float] = 1.0,
    ):
        self.layers = layers
        self.width = width
        self.temperature = temperature
        self.variance = variance

    def _checked(self, X, *labels, **options):
        """Inputs, and labels if there are any, as scikit-learn has them."""
        if isinstance(X, AttentionedInputs):
            raise ValueError(
                f"X: wanted an array, got AttentionedInputs. Take X.values, and layers={X.chain.shorthand} "
                "when the estimator is made."
            )
        if not labels and hasattr(self, "inputs_"):
            X = self._as_fitted(X)
        return validate_data(self, X, *labels, **options, **_ARRAYS)

    def _as_fitted(self, X):
        """Numbers as they were when fitting, with axes of examples, paths and features or flattened."""
        paths, features = self.inputs_.shape[1:]
        shape = tuple(getattr(X, "shape", ()))
        if self.n_features_in_ == paths and shape[1:] == (paths * features,) != (paths,):
            return np.reshape(X, (len(X), paths, features))
        if self.n_features_in_ == paths * features and shape[1:] == (paths, features):
            return np.reshape(X, (len(X), -1))
        return X

    def _weighted(self, X, labels, sample_weight):
        """Inputs, labels and weights of the examples that count; no weights if none are given."""
        if sample_weight is None:
            return X, labels, None
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        counted = weights > 0
        return X[counted], labels[counted], weights[counted]

    def _fit(self, X, labels, weights) -> None:
        """Find the order parameter at the lowest minimum of the action."""
        default = (X.shape[1],) if X.ndim == 3 else (1,)
        if self.layers is None and X.ndim == 2 and X.shape[1] > 1:
            got = f"{X.shape[1]} flat columns, which are read as one path"
            warnings.warn(f"layers: wanted those of the paths, got {got}. layers=(1,) says so.", stacklevel=3)
        self.layers_ = Chain.of(default if self.layers is None else self.layers).shorthand
        self.numbers_ = {name: getattr(self, name) for name in ("width", "temperature", "variance")}
        if labels.ndim == 2:
            if any(isinstance(layer, Outputs) for layer in self.layers_):
                raise ValueError(f"layers: wanted none of outputs, got {self.layers_}. Leave it out: classes add it.")
            self.layers_ = (*self.layers_, Outputs(labels.shape[1]))
        self.inputs_, self.labels_ = self._paths(X), labels
        self.energy_: Any = None if weights is None else WeightedLabels(1 / weights)
        with jax.enable_x64(True):
            try:
                solution = minima(self._problem())[0]
            except NotConverged as failure:
                warnings.warn("No saddle point was reached. Raise the temperature.", ConvergenceWarning, stacklevel=3)
                solution = failure.solution
            self.order_parameter_ = np.asarray(solution.order_parameter)
            self.log_evidence_ = float(log_evidence(solution))

    def _problem(self) -> Problem:
        return Problem(self.inputs_, self.labels_, layers=self.layers_, energy=self.energy_, **self.numbers_)

    def _paths(self, X) -> np.ndarray:
        """Inputs as `(examples, paths, features)`."""
        paths = Chain.of(self.layers_).paths
        if X.ndim == 2 and X.shape[1] % paths:
            raise ValueError(f"X: wanted a multiple of {paths} columns for layers={self.layers_}, got {X.shape[1]}.")
        return X.reshape(len(X), paths, -1) if X.ndim == 2 else X

    def criterion(self, X: ArrayLike) -> Criterion:
        """What `statmech_attention.criterion` says of the theory on these inputs: how far to trust it, in a line."""
        check_is_fitted(self)
        X = self._paths(self._checked(X, reset=False))
        with jax.enable_x64(True):
            return criterion(minima(self._problem())[0], X)

    def _predicted(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the outputs."""
        check_is_fitted(self)
        X = self._paths(self._checked(X, reset=False))
        with jax.enable_x64(True):
            mean, variance = kernel_regression(self._problem(), self.order_parameter_).predict(X)
            return np.asarray(mean), np.asarray(variance)


class AttentionPathsClassifier(ClassifierMixin, _AttentionPaths):
    r"""Classifier by the attention paths: labels are $\pm 1$, with one output per class if there are several.

    Args:
        layers: $(H_1, .., H_L)$, as in `Problem`, without `Outputs`, which classes add. If None, one
            layer with a head per path; flattened inputs are then read as one path, with a warning.
        width, temperature, variance: as in `Problem`.

    There are no weights of classes, and the network has no constant of its own. Where classes differ in size, add a
    feature that is 1 to all paths, or change the threshold of `predict_proba`.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "AttentionPathsClassifier":
        r"""Find the order parameter of `(examples, paths, features)`, or flattened, and the classes `y`.

        An example of weight $w$ has noise of variance $T / w$, as if it was there $w$ times.
        """
        values, names = self._checked(X, y)
        check_classification_targets(names)
        values, names, weights = self._weighted(values, names, sample_weight)
        self.classes_, place = np.unique(names, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("y: wanted at least two classes, got one class.")
        signs = 2.0 * np.eye(len(self.classes_))[place] - 1.0
        self._fit(values, signs if len(self.classes_) > 2 else signs[:, 1], weights)
        return self

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        r"""$\Phi(\langle f \rangle / \sqrt{\mathrm{Var} f + T})$ of every class, normalised to a sum of one.

        Labels are taken for real numbers with noise of variance $T$, so that this is calibrated only as far
        as $T$ is their noise. At the $T$ of the largest evidence, on 1000 new sequences of the book's page
        on a network of your own, it says more than is right where it is least sure; a figure there compares
        the two. Compare it with the labels of your other examples, or take `CalibratedClassifierCV`.
        """
        mean, variance = self._predicted(X)
        share = ndtr(mean / np.sqrt(variance + self.numbers_["temperature"]))
        share = np.stack([1 - share, share], axis=1) if mean.ndim == 1 else share + np.finfo(float).tiny
        return share / share.sum(axis=1, keepdims=True)

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The likeliest class."""
        share = self.predict_proba(X)  # first: it refuses what is not fitted
        return self.classes_[np.argmax(share, axis=1)]


class AttentionPathsRegressor(RegressorMixin, _AttentionPaths):
    """Regression, with arguments as of the classifier, on targets shifted and scaled to mean 0 and variance 1."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> "AttentionPathsRegressor":
        """Find the order parameter, as of the classifier, for the targets `y`."""
        values, targets = self._checked(X, y, y_numeric=True)
        values, targets, weights = self._weighted(values, targets, sample_weight)
        self.mean_ = float(np.average(targets, weights=weights))
        self.scale_ = float(np.sqrt(np.average((targets - self.mean_) ** 2, weights=weights))) or 1.0
        self._fit(values, (targets - self.mean_) / self.scale_, weights)
        return self

    def predict(self, X: ArrayLike, return_std: bool = False, noise: bool = False) -> Any:
        """The mean output; with `return_std` its standard deviation, with `noise` that of a new observation."""
        mean, variance = self._predicted(X)
        variance = variance + self.numbers_["temperature"] if noise else variance
        mean = self.mean_ + self.scale_ * mean
        return (mean, self.scale_ * np.sqrt(variance)) if return_std else mean
