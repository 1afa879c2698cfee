r"""Gaussian-process regression: a kernel matrix that is factorised once.

The labels are outputs with Gaussian noise, $Y \sim \mathcal N(0, K + T I)$. Energy, evidence,
predictor and posterior draws need the same Cholesky factor of $K + T I$.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float


class Prediction(NamedTuple):
    """Mean and variance of the output under the posterior, per test example and output."""

    mean: Float[Array | np.ndarray, "..."]
    variance: Float[Array | np.ndarray, "..."]


class Regression(NamedTuple):
    """A factorised kernel matrix and its labels; rows are pairs (example, output).

    Attributes:
        factor: lower Cholesky factor of $K + T I$; NaN if that matrix is not positive definite.
        labels: $Y$.
    """

    factor: Float[Array, "rows rows"]
    labels: Float[Array, " rows"]

    @classmethod
    def of(cls, kernel: Float[Array, "rows rows"], temperature, labels: Float[Array, " rows"]) -> "Regression":
        """Factorise the kernel matrix at this temperature."""
        return cls(jnp.linalg.cholesky(kernel + temperature * jnp.eye(len(labels))), labels)

    def solve(self, right: Float[Array, "rows *columns"]) -> Float[Array, "rows *columns"]:
        """Return $(K + T I)^{-1}$ times a vector or matrix."""
        return cho_solve((self.factor, True), right)

    def whiten(self, right: Float[Array, "rows *columns"]) -> Float[Array, "rows *columns"]:
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
        return self.logdet + self.labels @ self.solve(self.labels)

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
