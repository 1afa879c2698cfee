"""The predictor: kernel regression with the kernel of the order parameter, equations (9) and (30)."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.model.accuracy import right
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.kernels import (
    check_order_parameter,
    flat_kernel,
    inputs_like,
    kernel_inputs,
    kernel_scale,
)
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.regression import Prediction, Regression


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KernelRegression:
    """Regression on the labels of a problem with the kernel (10) of an order parameter; a pytree.

    Attributes:
        problem: the training data.
        order_parameter: $U$.
        regression: the factorised kernel matrix.
    """

    problem: Problem
    order_parameter: Float[Array, "paths paths"]
    regression: Regression

    def predict(self, test: AttentionedInputs | ArrayLike, *, paths: ArrayLike | None = None) -> Prediction:
        r"""$\langle f(x^*)\rangle = k^\top (K + T I)^{-1} Y$, (9), and
        $\mathrm{Var} f = \kappa(x^*, x^*) - k^\top (K + T I)^{-1} k$, (30).

        Args:
            test: test inputs, `AttentionedInputs`, or an array `(examples, paths, features)`.
            paths: use only pairs within this subset of paths, by index; all of them if None.

        Returns:
            `Prediction(mean, variance)`, each `(test examples,)`, or `(test examples, outputs)`. The
            variance is that of the output $f$; a noisy label adds $T$. All NaN if $K + T I$ is not
            positive definite to working precision, for too small a $T$.

        Raises:
            ValueError: wrong shapes, NaN or infinity, float32, a subset that is empty or not there.

        Source: Tiberi et al. (2024), equations (9), (10), (29), (30).
        """
        train = self.problem.attentioned
        test, chain = inputs_like("test", test, train), train.chain
        if paths is not None:
            chosen = np.isin(np.arange(chain.paths), checks.indices("paths", paths, chain.paths, least=1))
            chosen = np.repeat(chosen.astype(float), chain.outputs)  # each output is a path of its own
            return kernel_regression(self.problem, self.order_parameter * np.outer(chosen, chosen)).predict(test)
        found = _predicted(self.regression, train, test, self.order_parameter, self.problem.variance[0])
        axes = (test.values.shape[0], *chain.readout.axes)
        return Prediction(found.mean.reshape(axes), found.variance.reshape(axes))


def kernel_regression(problem: Problem, order_parameter: ArrayLike) -> KernelRegression:
    """Kernel regression at a given order parameter, ready to `predict`; it factorises $K + T I$, once.

    Args:
        problem: a `Problem` with a temperature; its width does not matter.
        order_parameter: $U$, `(paths, paths)`, each output a path of its own.

    Raises:
        ValueError: wrong shapes, NaN or infinity, float32, a $U$ that is not symmetric or not
            positive semi-definite.

    Source: Tiberi et al. (2024), equations (9) and (10).
    """
    problem = need_problem(problem, "temperature")
    train = problem.attentioned
    order_parameter = check_order_parameter(order_parameter, train)
    regression = _factorised(train, problem.labels, order_parameter, problem.temperature, problem.variance[0])
    return KernelRegression(problem, order_parameter, regression)


@quick_jit()
def _factorised(train, labels, order_parameter, temperature, input_variance) -> Regression:
    gram = input_variance * flat_kernel(train, train, order_parameter, 1.0)
    return Regression.of(gram, temperature, labels.reshape(-1))


@quick_jit()
def _predicted(regression: Regression, train, test, order_parameter, input_variance) -> Prediction:
    across = input_variance * flat_kernel(train, test, order_parameter, 1.0)
    seen = kernel_inputs(test)
    weighted = jnp.einsum("eai,ab->ebi", seen, order_parameter)
    own = input_variance * kernel_scale(test, 1.0) * jnp.sum(weighted * seen, axis=(1, 2))
    return regression.predict(across, own)


class JointPrediction(NamedTuple):
    """Mean and covariance of the outputs on all test examples together, a Gaussian given the order parameter.

    Attributes:
        mean: `(*batch, examples)`, or `(*batch, examples, outputs)`.
        covariance: `(*batch, examples, examples)`, or
            `(*batch, examples, outputs, examples, outputs)`.
    """

    mean: Float[Array, "..."]
    covariance: Float[Array, "..."]

    @property
    def variance(self) -> Float[Array, "..."]:
        """Variance of each output, in the shape of the mean."""
        diagonal = jnp.diagonal(self._matrix, axis1=-2, axis2=-1)
        return jnp.maximum(diagonal, 0.0).reshape(self.mean.shape)

    def samples(self, key: checks.Key, draws: int) -> Float[Array, "draws ..."]:
        r"""Draw functions from the Gaussian, $f = \langle f \rangle + C^{1/2} z$, without the noise of labels.

        Args:
            key: a JAX random key.
            draws: number of functions.

        Returns:
            `(draws, *batch, examples)`, or `(draws, *batch, examples, outputs)`.

        Raises:
            ValueError: no key, or a number of draws that is not whole or below 1.
        """
        return _samples(self._matrix, self.mean, checks.key("key", key), draws=checks.whole("draws", draws))

    @property
    def _matrix(self) -> Float[Array, "*batch rows rows"]:
        """The covariance with examples and outputs on one axis."""
        axes = self.covariance.ndim - self.mean.ndim
        rows = math.prod(self.mean.shape[self.mean.ndim - axes :])
        return self.covariance.reshape(*self.mean.shape[: self.mean.ndim - axes], rows, rows)


@quick_jit(static=("draws",))
def _samples(covariance, mean, key, draws: int):
    # A covariance that is singular to working precision has a root all the same.
    values, vectors = jnp.linalg.eigh(covariance)
    normals = jax.random.normal(key, (draws, *values.shape)) * jnp.sqrt(jnp.maximum(values, 0.0))[None]
    return mean[None] + jnp.einsum("...ij,d...j->d...i", vectors, normals).reshape(draws, *mean.shape)


@checks.flags
def predict(
    problem: Problem,
    test: AttentionedInputs | ArrayLike,
    order_parameter: ArrayLike,
    *,
    paths: ArrayLike | None = None,
    joint: bool = False,
) -> Prediction | JointPrediction:
    r"""$\langle f(x^*)\rangle = k^\top (K + T I)^{-1} Y$, (9), and
    $\mathrm{Var} f = \kappa(x^*, x^*) - k^\top (K + T I)^{-1} k$, (30).

    Args:
        problem: a `Problem` with a temperature; its width does not matter.
        test: test inputs, `AttentionedInputs`, or an array `(examples, paths, features)`.
        order_parameter: $U$, `(paths, paths)`, each output a path of its own.
        paths: use only pairs within this subset of paths, by index; all of them if None.
        joint: return the covariance between test examples, for `samples`, instead of the variances.

    Returns:
        `Prediction(mean, variance)`, each `(test examples,)`, or `(test examples, outputs)`; with
        `joint` `JointPrediction(mean, covariance)`. The variance is that of the output $f$; a noisy
        label adds $T$. All NaN if $K + T I$ is not positive definite to working precision, for too
        small a $T$.

    Raises:
        ValueError: wrong shapes, NaN or infinity, float32, a subset that is empty or not there, a
            $U$ that is not symmetric or not positive semi-definite.

    Source: Tiberi et al. (2024), equations (9), (10), (29), (30).
    """
    problem = need_problem(problem, "temperature")
    train, chain = problem.attentioned, problem.attentioned.chain
    test = inputs_like("test", test, train)
    order_parameter = check_order_parameter(order_parameter, train)
    if paths is not None:
        kept = np.isin(np.arange(chain.paths), checks.indices("paths", paths, chain.paths, least=1))
        kept = np.repeat(kept.astype(float), chain.outputs)  # each output is a path of its own
        order_parameter = order_parameter * np.outer(kept, kept)
    given = (train.form, problem.labels, test.form, order_parameter, problem.temperature, problem.variance[0])
    return (_predict_jointly if joint else _predict)(*given)


@quick_jit()
def _predict(train, labels, test, order_parameter, temperature, input_variance) -> Prediction:
    mean, half = _conditioned(train, labels, test, order_parameter, temperature, input_variance)
    seen = kernel_inputs(test)
    weighted = jnp.einsum("eai,ab->ebi", seen, order_parameter)
    own = input_variance * kernel_scale(test, 1.0) * jnp.sum(weighted * seen, axis=(1, 2))
    axes = (test.values.shape[0], *train.chain.readout.axes)
    # What is left of a large variance where the kernel knows the output is rounding, of either sign.
    return Prediction(mean.reshape(axes), jnp.maximum(own - jnp.sum(half**2, axis=0), 0.0).reshape(axes))


@quick_jit()
def _predict_jointly(train, labels, test, order_parameter, temperature, input_variance) -> JointPrediction:
    mean, half = _conditioned(train, labels, test, order_parameter, temperature, input_variance)
    covariance = input_variance * flat_kernel(test, test, order_parameter, 1.0) - half.T @ half
    axes = (test.values.shape[0], *train.chain.readout.axes)
    return JointPrediction(mean.reshape(axes), covariance.reshape(*axes, *axes))


def _conditioned(train, labels, test, order_parameter, temperature, input_variance):
    """The mean, and $C^{-1} k$ with the Cholesky factor $C$ of $K + T I$."""
    # Kernels for unit variance, so that no other one compiles again.
    gram = input_variance * flat_kernel(train, train, order_parameter, 1.0)
    across = input_variance * flat_kernel(train, test, order_parameter, 1.0)
    chol = jnp.linalg.cholesky(gram + temperature * jnp.eye(gram.shape[0]))
    half = solve_triangular(chol, across, lower=True)
    return half.T @ solve_triangular(chol, labels.reshape(-1), lower=True), half


def accuracy(mean: ArrayLike, labels: ArrayLike) -> Float[Array, ""]:
    """The share of examples whose mean prediction has the label's sign; an exact zero counts half.

    With several outputs: the share whose largest mean is that of the largest label; a tie counts in
    part.

    Args:
        mean: predictions, `(examples,)`, or `(examples, outputs)`.
        labels: `(examples,)`, +1 or -1; or `(examples, outputs)`, the largest of an example for its
            class.

    Returns:
        A scalar between 0 and 1.

    Raises:
        ValueError: unequal shapes, NaN or infinity, labels other than +1 and -1, or without a
            single largest one.
    """
    several = getattr(labels, "ndim", 1) == 2
    mean = checks.array("mean", mean, "examples outputs" if several else "examples", double=True, truth=False)
    labels = checks.labels(labels, mean.shape[0], signs=not several, axes=mean.shape[1:])
    if several and checks.concrete(labels):
        known = np.asarray(labels)
        if np.any(np.sum(known == known.max(axis=1, keepdims=True), axis=1) != 1):
            raise ValueError("labels: wanted one largest label per example, got several of the same size.")
    if not checks.concrete(mean, labels):
        return jnp.mean(right(mean, labels))
    # With nothing to compile: JAX would convert a NumPy scalar by a function of its own, but takes an array as it is.
    return jnp.asarray(np.asarray(np.mean(right(np.asarray(mean), np.asarray(labels)))))
