"""The Gaussian energy with derivatives by hand, against those of the Cholesky factor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statmech_attention.theory.kernels.regression import Regression, gaussian_nats


@pytest.mark.parametrize("columns", [(), (2,)])
def test_first_and_second_derivatives_are_those_of_the_cholesky_factor(columns):
    random = np.random.default_rng(0)
    half, step, labels = random.normal(size=(5, 5)), random.normal(size=(5, 5)), random.normal(size=(5, *columns))
    moved = random.normal(size=labels.shape)

    def along(nats):
        def of(steps):
            covariance = half @ half.T + jnp.eye(5) + steps[0] * (step + step.T)
            return nats(covariance, labels + steps[1] * moved)

        return of

    found, wanted = along(gaussian_nats), along(lambda covariance, labels: Regression.of(covariance, 0.0, labels).nats)
    for derivative in (lambda of: of, jax.grad, jax.hessian):
        np.testing.assert_allclose(derivative(found)(jnp.zeros(2)), derivative(wanted)(jnp.zeros(2)), rtol=1e-10)
