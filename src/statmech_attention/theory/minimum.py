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
import numpy as np
from jax.custom_derivatives import SymbolicZero
from jax.scipy.linalg import cho_solve
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.theory import derivatives
from statmech_attention.theory.coordinates import Factors, entropy, order_parameters
from statmech_attention.theory.derivatives import ActionProblem, dense_hessian, factored_derivatives, rough_hessian
from statmech_attention.theory.trust_region import Minimum, Outcome, exact_step, minimise, truncated_step

_MAX_PRODUCTS = 200
_LARGEST_DOUBLE = 2**19  # entries of the inputs; of larger ones the Hessian's products are in single precision
_DERIVATIVE_PRODUCTS = 1000  # for a derivative, which no later step corrects
_DERIVATIVE_TOLERANCE = 1e-12


class ActionMinimum(NamedTuple):
    """A minimum, without its curvature, and order parameters, energy and entropy there."""

    minimum: Minimum
    order_parameters: tuple
    energy: Float[Array, ""]
    entropy: Float[Array, ""]


@partial(jax.custom_jvp, nondiff_argnums=(5,))
@quick_jit(static=("dense",))
def minimise_action(
    problem: ActionProblem, start, tolerance, max_steps, factors: Factors, dense: bool
) -> ActionMinimum:
    """Minimise the action, with implicit derivatives in all arrays of the problem and the factors.

    Derivatives are NaN where the minimisation did not converge, and do not depend on the start.
    """
    # Newton's steps are inexact anyway; value and gradient, which say where the minimum is, stay in double precision.
    large = problem.inputs.size > _LARGEST_DOUBLE
    rough = problem._replace(inputs=problem.inputs.astype(jnp.float32)) if large else problem

    def dense_step(gradient, curvature, radius):
        return exact_step(gradient, curvature.hessian, radius)

    def products_step(gradient, curvature, radius):
        product = partial(derivatives.hessian_product, curvature=curvature, problem=rough, factors=factors)
        # Half the entropy's Hessian, which is diagonal, and one at the Gaussian-process limit.
        scale = 0.5 * derivatives.entropy_curvature(curvature.point, problem, factors)
        return truncated_step(gradient, product, scale, radius, _MAX_PRODUCTS, tolerance)

    local, step = (dense_hessian, dense_step) if dense else (factored_derivatives, products_step)
    minimum = minimise(partial(local, problem=problem, factors=factors), step, start, tolerance, max_steps)
    energy, point = factors.chain.outputs * minimum.curvature.energy, minimum.point
    bulk = entropy(point, problem.shares, factors)
    return ActionMinimum(minimum._replace(curvature=None), order_parameters(point, factors), energy, bulk)


@partial(minimise_action.defjvp, symbolic_zeros=True)
def _minimum_tangent(dense, primals, tangents):
    found = minimise_action(*primals, dense)
    problem, *_, factors = primals
    minimum = found.minimum
    moving = [None if isinstance(one, SymbolicZero) else one for one in jax.tree.leaves((tangents[0], tangents[-1]))]
    point, action, *others = _tangent_at_minimum(minimum.point, minimum.outcome, (problem, factors), moving, dense)
    whole = [np.zeros(number.shape, jax.dtypes.float0) for number in (minimum.steps, minimum.outcome)]
    moved = Minimum(point, action, jnp.zeros_like(minimum.gradient_norm), *whole, None)
    return found, ActionMinimum(moved, *others)


@partial(jax.jit, static_argnames=("dense",))
def _tangent_at_minimum(point, outcome, arrays: tuple[ActionProblem, Factors], changes: list, dense: bool):
    """Tangents of point, action, order parameters, energy and entropy; `changes` is None for an array that stays."""
    leaves, form = jax.tree.flatten(arrays)

    def given(varied):
        pairs = zip(varied, leaves, strict=True)
        return jax.tree.unflatten(form, [leaf if one is None else one for one, leaf in pairs])

    def gradient(varied):
        return jax.grad(derivatives.action_of)(point, *given(varied))

    def outputs_at(point, varied):
        problem, factors = given(varied)
        energy, bulk = derivatives.energy_at(point, problem, factors), entropy(point, problem.shares, factors)
        overlaps = order_parameters(point, factors)
        return point, bulk + problem.alpha * energy, overlaps, factors.chain.outputs * energy, bulk

    varied = [leaf if change is not None else None for leaf, change in zip(leaves, changes, strict=True)]
    slope_change = jax.jvp(gradient, (varied,), (changes,))[1]
    # A factor, and not a choice: NaN also in reverse mode, where an alternative would be zero.
    known = jnp.where(outcome == Outcome.CONVERGED, 1.0, jnp.nan)
    moved = -known * _hessian_solve(slope_change, point, *arrays, dense)
    return jax.jvp(outputs_at, (point, varied), (moved, changes))[1]


def _hessian_solve(vector, point, problem: ActionProblem, factors: Factors, dense: bool):
    """The inverse Hessian of the action times a vector; NaN where the Hessian is not positive definite."""
    curvature = factored_derivatives(point, problem, factors)[2]

    def product(vector):
        return derivatives.hessian_product(vector, curvature, problem, factors)

    if dense:
        chol = jnp.linalg.cholesky(dense_hessian(point, problem, factors)[2].hessian)

        def solve(product, vector):
            found = cho_solve((chol, True), vector)
            # Parts of a large Hessian are in single precision; products are not.
            return found + cho_solve((chol, True), vector - product(found)) if rough_hessian(problem) else found

    else:
        scale = derivatives.entropy_curvature(point, problem, factors)

        def solve(product, vector):
            options = {"tol": _DERIVATIVE_TOLERANCE, "maxiter": _DERIVATIVE_PRODUCTS}
            return cg(product, vector, M=lambda one: one / scale, **options)[0]

    return jax.lax.custom_linear_solve(product, vector, solve, symmetric=True)
