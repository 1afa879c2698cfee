r"""Gaussian-process regression with the kernel of an order parameter, equations (9) and (30).

The labels are outputs with Gaussian noise, $Y \sim \mathcal N(0, K + T I)$. Energy, evidence,
predictor and posterior draws need the same Cholesky factor of $K + T I$, found once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks


class Prediction(NamedTuple):
    """Mean and variance of the output $f$, per test example and output; a noisy label's variance is $T$ more."""

    mean: Float[Array | np.ndarray, "..."]
    variance: Float[Array | np.ndarray, "..."]


class Regression(NamedTuple):
    """A factorised kernel matrix and its labels; rows are pairs (example, output).

    Attributes:
        factor: lower Cholesky factor of $K + T I$; NaN if that matrix is not positive definite.
        labels: $Y$; columns are independent outputs with the same kernel.
    """

    factor: Float[Array, "rows rows"]
    labels: Float[Array | np.ndarray, "rows *columns"]

    @classmethod
    def of(
        cls,
        kernel: Float[Array | np.ndarray, "rows rows"],
        temperature,
        labels: Float[Array | np.ndarray, "rows *columns"],
    ) -> "Regression":
        """Factorise the kernel matrix at this temperature, or at one of every row."""
        noise = jnp.broadcast_to(jnp.asarray(temperature, float), (len(labels),))
        return cls(jnp.linalg.cholesky(kernel + jnp.diag(noise)), labels)

    def solve(self, right: Float[Array | np.ndarray, "rows *columns"]) -> Float[Array, "rows *columns"]:
        """Return $(K + T I)^{-1}$ times a vector or matrix."""
        return cho_solve((self.factor, True), right)

    def whiten(self, right: Float[Array | np.ndarray, "rows *columns"]) -> Float[Array, "rows *columns"]:
        """Return $C^{-1}$ times a vector or matrix, with the Cholesky factor $C$ of $K + T I$."""
        return solve_triangular(self.factor, right, lower=True)

    @property
    def logdet(self) -> Float[Array, ""]:
        r"""$\ln\det(K + T I)$."""
        return 2 * jnp.sum(jnp.log(jnp.diagonal(self.factor)))

    @property
    def nats(self) -> Float[Array, ""]:
        r"""$\ln\det(K + T I) + Y^\top (K + T I)^{-1} Y$, which is $P E(U)$ in (12).

        The log density of the labels is $-\frac12$ of this, minus $\frac12 \ln 2\pi$ per row.
        """
        columns = self.labels.size // len(self.labels)
        return columns * self.logdet + jnp.vdot(self.labels, self.solve(self.labels))

    def predict(self, cross: Float[Array, "rows tests"], prior: Float[Array, " tests"]) -> Prediction:
        """Mean (9) and variance (30) of the output at test inputs.

        Args:
            cross: kernel between training and test inputs.
            prior: kernel of each test input with itself.

        Returns:
            `Prediction`, each `(tests,)`. Rounding can make a variance of zero slightly negative; it
            is cut off at zero.
        """
        half = self.whiten(cross)
        mean = half.T @ self.whiten(self.labels)
        return Prediction(mean, jnp.maximum(prior - jnp.sum(half**2, axis=0), 0.0))


@jax.custom_jvp
def gaussian_nats(
    covariance: Float[Array, "rows rows"], labels: Float[Array | np.ndarray, "rows *columns"]
) -> Float[Array, ""]:
    r"""`Regression.nats` with $C = K + T I$, whose derivatives cost a few products of matrices.

    With $R = C^{-1}$ and $v = R Y$ they are $\mathrm{tr}(R\, dC) - v^\top dC\, v + 2 v^\top dY$. Those of
    the Cholesky factor would cost three times as much.
    """
    return Regression.of(covariance, 0.0, labels).nats


@gaussian_nats.defjvp
def _change_of_nats(primals, tangents):
    (covariance, labels), (change, moved) = primals, tangents
    logdet, inverse = logdet_and_inverse(covariance)
    solved = inverse @ labels
    columns, flat = labels.size // len(labels), solved.reshape(len(solved), -1)
    slope = jnp.vdot(columns * inverse - flat @ flat.T, change) + 2 * jnp.vdot(solved, moved)
    return columns * logdet + jnp.vdot(labels, solved), slope


@jax.custom_jvp
def logdet_and_inverse(covariance: Float[Array, "rows rows"]) -> tuple[Float[Array, ""], Float[Array, "rows rows"]]:
    r"""$\ln\det C$ and $R = C^{-1}$, with $dR = -R\, dC\, R$."""
    eye = jnp.eye(len(covariance))
    fit = Regression(jax.lax.linalg.cholesky(covariance, symmetrize_input=False), jnp.zeros(len(eye)))
    return fit.logdet, fit.solve(eye)


@logdet_and_inverse.defjvp
def _change_of_inverse(primals, tangents):
    logdet, inverse = logdet_and_inverse(*primals)
    (change,) = tangents
    return (logdet, inverse), (jnp.sum(inverse * change), -inverse @ change @ inverse)


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
    """
    several = getattr(labels, "ndim", 1) == 2
    mean = checks.array("mean", mean, "examples outputs" if several else "examples", double=True)
    labels = checks.labels(labels, mean.shape[0], signs=not several, axes=mean.shape[1:])
    if several and checks.concrete(labels) and np.any(np.sum(labels == jnp.max(labels, 1, keepdims=True), 1) != 1):
        raise ValueError("labels: wanted one largest label per example, got several of the same size.")
    return jnp.mean(hit(mean, labels))


def hit(outputs, labels):
    """Hit of every output, `(.., examples)`: 1, 0, or in between for an undecided one, in NumPy or JAX.

    One output is a hit if it has the label's sign, an exact zero half a hit. Of several the largest
    must be that of the largest label; a tie counts in part.
    """
    xp = outputs.__array_namespace__()
    if labels.ndim == 1:
        return 0.5 + 0.5 * xp.sign(outputs) * labels
    likeliest = outputs == xp.max(outputs, axis=-1, keepdims=True)
    true = labels == xp.max(labels, axis=-1, keepdims=True)
    return xp.sum(likeliest & true, axis=-1) / xp.sum(likeliest, axis=-1)


def left_out_means(regression: Regression, labels) -> Float[np.ndarray, "..."]:
    """Leave-one-out means: with $R = (K + T)^{-1}$, $y_i - (R Y)_i / R_{ii}$; all outputs of an example together."""
    outputs = labels.reshape(len(labels), -1).shape[1]
    resolvent = np.asarray(regression.solve(jnp.eye(labels.size))).reshape(len(labels), outputs, len(labels), outputs)
    own = resolvent[np.arange(len(labels)), :, np.arange(len(labels))]
    solved = np.asarray(regression.solve(regression.labels)).reshape(len(labels), outputs, 1)
    return np.asarray(regression.labels).reshape(labels.shape) - np.linalg.solve(own, solved)[..., 0].reshape(
        labels.shape
    )


class Estimate(NamedTuple):
    """A mean over examples, draws or networks and its standard error, of any shape."""

    mean: Float[np.ndarray, "..."]
    error: Float[np.ndarray, "..."]
