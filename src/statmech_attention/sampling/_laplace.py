"""The mode of the posterior of the order parameters and the Gaussian around it."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from statmech_attention.sampling._density import Posterior, potential
from statmech_attention.theory.coordinates import Factors
from statmech_attention.theory.trust_region import Spectrum, exact_step, minimise

_MAX_STEPS = 100
_AT_ONCE = 16  # columns of a Hessian that are computed together


class Laplace(NamedTuple):
    """A Gaussian approximation of the posterior in the good coordinates.

    Attributes:
        mode: where the density is largest.
        root: $W$ with $W W^\\top$ the covariance; coordinates $y$ with point = mode + $W y$ are nearly standard normal.
        potential: minus the logarithm of the unnormalised density at the mode.
        logdet: $\\ln |\\det W|$.
        outcome: how the search for the mode ended, an `Outcome`.
    """

    mode: Float[Array, " coordinates"]
    root: Float[Array, "coordinates coordinates"]
    potential: Float[Array, ""]
    logdet: Float[Array, ""]
    outcome: Int[Array, ""]


@partial(jax.jit, static_argnames="shape")
def laplace(data: Posterior, start: Float[Array, " coordinates"], shape: Factors) -> Laplace:
    """Newton steps to the mode, and the Hessian there."""

    def derivatives(point):
        value, gradient = jax.value_and_grad(potential)(point, data, shape)
        matrix = hessian(lambda p: potential(p, data, shape), point)
        # eigh of a matrix with NaN never returns on some LAPACKs.
        finite = jnp.all(jnp.isfinite(matrix))
        return value, gradient, Spectrum(*jnp.linalg.eigh(jnp.where(finite, matrix, jnp.eye(point.shape[0]))))

    # Of the order of the posterior's own width, which is the inverse root of N, this is nothing.
    tolerance = 1e-6 * jnp.sqrt(jnp.max(data.widths))
    found = minimise(derivatives, exact_step, start, tolerance, jnp.int32(_MAX_STEPS))
    values, vectors = derivatives(found.point)[2]
    values = jnp.maximum(values, 1e-8 * values[-1])
    return Laplace(
        found.point, vectors / jnp.sqrt(values)[None, :], found.value, -0.5 * jnp.sum(jnp.log(values)), found.outcome
    )


def hessian(function, point: Float[Array, " coordinates"]) -> Float[Array, "coordinates coordinates"]:
    """Second derivatives, a few columns at a time to spare memory."""
    _, product = jax.linearize(jax.grad(function), point)
    directions = jnp.eye(point.shape[0])
    small = point.shape[0] <= _AT_ONCE
    matrix = jax.vmap(product)(directions) if small else jax.lax.map(product, directions, batch_size=_AT_ONCE)
    return 0.5 * (matrix + matrix.T)
