r"""The minimum of one action, and its derivatives by the implicit function theorem.

At the minimum $x^*$ of the action $S(x, \theta)$ the gradient $\nabla_x S$ vanishes whatever the
inputs, labels, temperature, widths and prior variances $\theta$, so

    dx* = - (d2S/dx2)^{-1}  d(grad_x S)/dtheta  dtheta

without derivatives of the loop that found $x^*$. In the good coordinates no direction is flat:
triangular factors with positive diagonals are unique, and the entropy bends every coordinate. If
the Hessian is singular all the same, two minima meet, and there is no derivative.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.theory.descent.gradients import descend
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.trust_region import Minimum, Outcome, exact_step, truncated_step
from statmech_attention.theory.descent.trust_region import minimise as minimise_function
from statmech_attention.theory.levels.levels import entries

_MAX_PRODUCTS = 200
_DERIVATIVE_PRODUCTS = 1000  # for a derivative, which no later step corrects
_DERIVATIVE_TOLERANCE = 1e-12


class ActionMinimum(NamedTuple):
    """A minimum, whose value is $S - S_0$, without its curvature; order parameters along paths, and $P E$ there."""

    minimum: Minimum
    order_parameters: tuple
    nats: Float[Array, ""]


def minimise(action: Action, start, tolerance, max_steps, method: str) -> ActionMinimum:
    """Minimise an action: "dense", with its Hessian, by "products" with it, or by "gradients" alone.

    Derivatives in all arrays of the action are implicit. They are NaN where the minimisation did not
    converge, and do not depend on the start. Gradients need numbers: where they are traced, products
    take their place.
    """
    known = checks.concrete(*jax.tree.leaves((action, start)))  # then nothing is differentiated, nor compiled for it
    still, start = jax.lax.stop_gradient((action, start))
    if method == "gradients" and checks.concrete(*jax.tree.leaves((still, start))):
        reached, nats, _ = descend(still, start, tolerance, max_steps)
        return _with_order_parameters(action, reached, nats) if known else _differentiated(action, reached)
    return (_found if known else _differentiable)(action, start, tolerance, max_steps, method == "dense")


@quick_jit(static=("dense",))
def _found(action: Action, start, tolerance, max_steps, dense: bool) -> ActionMinimum:
    reached = _minimum(action, start, tolerance, max_steps, dense)
    return _with_order_parameters(action, reached, reached.curvature.energy if dense else action.nats(reached.point))


@quick_jit(static=("dense",))
def _differentiable(action: Action, start, tolerance, max_steps, dense: bool) -> ActionMinimum:
    still, start = jax.lax.stop_gradient((action, start))
    return _with_derivatives(action, _minimum(still, start, tolerance, max_steps, dense), dense)


@quick_jit()
def _differentiated(action: Action, reached: Minimum) -> ActionMinimum:
    return _with_derivatives(action, reached, dense=False)


def _with_derivatives(action: Action, reached: Minimum, dense: bool) -> ActionMinimum:
    """The minimum with its derivatives in the action."""
    still = jax.lax.stop_gradient(action)
    known = jnp.where(reached.outcome == Outcome.CONVERGED, 1.0, jnp.nan)

    def tangent_solve(product, vector):
        """The inverse Hessian times a vector; its own derivative needs `product` alone."""
        inverse = _inverse_hessian(reached.point, still, dense)
        return known * jax.lax.custom_linear_solve(product, vector, inverse, symmetric=True)

    point = jax.lax.custom_root(jax.grad(action.value), reached.point, lambda _, there: there, tangent_solve)
    minimum = reached._replace(point=point, value=action.value(point))
    return _with_order_parameters(action, minimum, action.nats(point))


def _with_order_parameters(action: Action, reached: Minimum, nats) -> ActionMinimum:
    overlaps = action.levels.order_parameters(entries(reached.point, action.levels))
    return ActionMinimum(reached._replace(curvature=None), overlaps, nats)


def _minimum(action: Action, start, tolerance, max_steps, dense: bool) -> Minimum:
    """The end of the trust region's steps."""

    def dense_step(gradient, curvature, radius):
        return exact_step(gradient, curvature.hessian, radius)

    def local(point):
        return *jax.value_and_grad(action.value)(point), point

    def products_step(gradient, point, radius):
        # Half the entropy's Hessian, which is diagonal, and one at the Gaussian-process limit.
        scale = 0.5 * action.bend(point)
        return truncated_step(gradient, action.product(point), scale, radius, _MAX_PRODUCTS, tolerance)

    derivatives, step = (action.dense, dense_step) if dense else (local, products_step)
    return minimise_function(derivatives, step, start, tolerance, max_steps)


def _inverse_hessian(point, action: Action, dense: bool):
    """A function that solves with the Hessian at a point; NaN where it is not positive definite."""
    if not dense:
        bend = action.bend(point)
        options = {"tol": _DERIVATIVE_TOLERANCE, "maxiter": _DERIVATIVE_PRODUCTS}
        return lambda product, vector: cg(product, vector, M=lambda residual: residual / bend, **options)[0]
    chol = jnp.linalg.cholesky(action.dense(point)[2].hessian)

    def solve(product, vector):
        solution = cho_solve((chol, True), vector)
        return solution + cho_solve((chol, True), vector - product(solution)) if action.energy.rough else solution

    return solve
