r"""The minimum of one action, and its derivatives by the implicit function theorem.

At the minimum $x^*$ of the action $S(x, \theta)$ the gradient $\nabla_x S$ vanishes whatever the
inputs, labels, temperature, widths and prior variances $\theta$, so

    dx* = - (d2S/dx2)^{-1}  d(grad_x S)/dtheta  dtheta

without derivatives of the loop that found $x^*$. In the good coordinates no direction is flat:
triangular factors with positive diagonals are unique, and the entropy bends every coordinate. If
the Hessian is singular all the same, two minima meet, and there is no derivative.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.trust_region import Minimum, Outcome, exact_step, truncated_step
from statmech_attention.theory.descent.trust_region import minimise as minimise_function
from statmech_attention.theory.levels.paths import entropy, entropy_derivatives, order_parameters

_MAX_PRODUCTS = 200
_DERIVATIVE_PRODUCTS = 1000  # for a derivative, which no later step corrects
_DERIVATIVE_TOLERANCE = 1e-12


class ActionMinimum(NamedTuple):
    """A minimum, without its curvature, and order parameters, $P E$ and entropy there."""

    minimum: Minimum
    order_parameters: tuple
    nats: Float[Array, ""]
    entropy: Float[Array, ""]


def minimise(action: Action, start, tolerance, max_steps, dense: bool) -> ActionMinimum:
    """Minimise an action, with implicit derivatives in all its arrays.

    Derivatives are NaN where the minimisation did not converge, and do not depend on the start.
    """
    known = checks.concrete(*jax.tree.leaves((action, start)))  # then nothing is differentiated, nor compiled for it
    return (_found if known else _differentiable)(action, start, tolerance, max_steps, dense)


@quick_jit(static=("dense",))
def _found(action: Action, start, tolerance, max_steps, dense: bool) -> ActionMinimum:
    reached = _minimum(action, start, tolerance, max_steps, dense)
    nats = reached.curvature.energy
    bulk = reached.value - action.weight * nats
    overlaps = order_parameters(reached.point, action.factors)
    return ActionMinimum(reached._replace(curvature=None), overlaps, nats, bulk)


@quick_jit(static=("dense",))
def _differentiable(action: Action, start, tolerance, max_steps, dense: bool) -> ActionMinimum:
    still = jax.lax.stop_gradient(action)
    reached = _minimum(still, jax.lax.stop_gradient(start), tolerance, max_steps, dense)
    known = jnp.where(reached.outcome == Outcome.CONVERGED, 1.0, jnp.nan)

    def tangent_solve(product, vector):
        """The inverse Hessian times a vector; its own derivative needs `product` alone."""
        inverse = _inverse_hessian(reached.point, still, dense)
        return known * jax.lax.custom_linear_solve(product, vector, inverse, symmetric=True)

    point = jax.lax.custom_root(jax.grad(action.value), reached.point, lambda _, there: there, tangent_solve)
    overlaps, bulk = order_parameters(point, action.factors), entropy(point, action.shares, action.factors)
    nats = action.nats(point)
    minimum = reached._replace(point=point, value=bulk + action.weight * nats, curvature=None)
    return ActionMinimum(minimum, overlaps, nats, bulk)


def _minimum(action: Action, start, tolerance, max_steps, dense: bool) -> Minimum:
    """The end of the trust region's steps."""

    def dense_step(gradient, curvature, radius):
        return exact_step(gradient, curvature.hessian, radius)

    def products_step(gradient, curvature, radius):
        # Half the entropy's Hessian, which is diagonal, and one at the Gaussian-process limit.
        _, _, bend = entropy_derivatives(curvature.point, action.shares, action.factors)
        product = partial(action.product, curvature=curvature)
        return truncated_step(gradient, product, 0.5 * bend, radius, _MAX_PRODUCTS, tolerance)

    local, step = (action.dense, dense_step) if dense else (action.factored, products_step)
    return minimise_function(local, step, start, tolerance, max_steps)


def _inverse_hessian(point, action: Action, dense: bool):
    """A function that solves with the Hessian at a point; NaN where it is not positive definite."""
    if not dense:
        _, _, bend = entropy_derivatives(point, action.shares, action.factors)
        options = {"tol": _DERIVATIVE_TOLERANCE, "maxiter": _DERIVATIVE_PRODUCTS}
        return lambda product, vector: cg(product, vector, M=lambda residual: residual / bend, **options)[0]
    chol = jnp.linalg.cholesky(action.dense(point)[2].hessian)

    def solve(product, vector):
        solution = cho_solve((chol, True), vector)
        return solution + cho_solve((chol, True), vector - product(solution)) if action.energy.rough else solution

    return solve
