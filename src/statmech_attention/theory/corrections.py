r"""The first correction in $1/N$ to the saddle point, from the exact posterior's density.

In the good coordinates the density is $e^{-\frac{N}{2} S(x) - \psi(x)}$ with
$\psi = \sum_l \sum_i i \ln F_{l,ii}$, of order one, from the Wishart exponents and the Jacobian.
Laplace's expansion about the minimum $x^*$ of $S$ gives for any smooth $g$, with
$C = (\frac{N}{2} S'')^{-1}$,

    E[g] = g + g' d + 1/2 tr(C g'') + O(1/N^2),      d = -C [ psi' + N/4 tr(C S''') ].

The remainder is of order $1/N^2$ at fixed $\alpha = P/N$, and at fixed $P$, where the action
changes with $N$, too. All moments of the prior are polynomials in $1/N$, so that the expansion holds
for fewer neurons than partial paths as well, where $U$ has no density.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention.compiling import map_factorisations, quick_jit
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.coordinates import full_rank, order_one, order_parameters, point_of
from statmech_attention.theory.kernels import inputs_like
from statmech_attention.theory.landscape import Action
from statmech_attention.theory.outputs import CrossKernels, by_output, cross_kernels, output
from statmech_attention.theory.prepared import all_pairs
from statmech_attention.theory.regression import Prediction
from statmech_attention.theory.solution import Solution

_AT_ONCE = 16  # columns of a Hessian that are computed together


class Corrected(NamedTuple):
    """The saddle point to the next order in $1/N$.

    Attributes:
        order_parameters: $E[U^{(1)}], .., E[U^{(L+1)}]$, the last a scalar.
        prediction: mean and variance of the output on the test inputs, or None without them.
    """

    order_parameters: tuple[Float[Array, "..."], ...]
    prediction: Any


def corrected(solution: Solution, *, test: AttentionedInputs | ArrayLike | None = None) -> Corrected:
    r"""$E[U] = U^* + \frac1N U_1$, $\langle f \rangle = f^* + \frac1N f_1$: the saddle point with its first correction.

    The variance of the output is right to order $1/N$, too: (30) with its correction, and the
    contribution of the fluctuations of $U$, $\mathrm{tr}(C f' f'^\top)$.

    Args:
        solution: a saddle point at finite width, not a batch.
        test: test inputs, `AttentionedInputs`, or an array `(examples, paths, features)`.

    Returns:
        `Corrected(order_parameters, prediction)`.

    Source: ours; the expansion is Laplace's, see Tierney and Kadane (1986).
    """
    problem = need_single(solution).problem
    inputs, architecture = problem.attentioned, problem.architecture
    factors = full_rank(architecture)
    action = Action.of(all_pairs(problem), architecture, factors)
    test = None if test is None else inputs_like("test", test, inputs)
    kernels = None if test is None else cross_kernels(inputs, test, problem.variance)
    result = _corrected(point_of(solution.order_parameters, factors), action, kernels)
    if test is None:
        return result
    return result._replace(prediction=Prediction(*(by_output(values, inputs) for values in result.prediction)))


def need_single(solution) -> Solution:
    """Validate a single solution along paths, of finite width."""
    if not isinstance(solution, Solution):
        raise ValueError(
            f"solution: wanted a Solution along single paths, got a {type(solution).__name__}. Whole models have no "
            "correction: take a smaller model of the kind along paths, by attentioned_inputs and solve."
        )
    if solution.action.ndim:
        raise ValueError("solution: wanted a single solution, got a batch. Take one of them, as in solution[0].")
    if not all(map(math.isfinite, solution.problem.width)):
        raise ValueError("solution: wanted a finite width, got infinity, where there is nothing to correct.")
    return solution


@quick_jit()
def _corrected(point, action: Action, kernels: CrossKernels | None) -> Corrected:
    slope = jax.grad(action.half)

    def newton(point, _):
        values, vectors = jnp.linalg.eigh(hessian(action.half, point))
        return point - vectors @ ((vectors.T @ slope(point)) / values), (point, values, vectors)

    # One Newton step more, so that the solver's tolerance does not stand in for the remainder. A loop compiles it once.
    _, visited = jax.lax.scan(newton, point, length=2)
    point, values, vectors = (both[1] for both in visited)
    directions = (vectors / jnp.sqrt(values)[None, :]).T

    third = map_factorisations(lambda w: _second(slope, point, w), directions).sum(axis=0)
    push = jax.grad(order_one)(point, action.factors) + 0.5 * third
    shift = -directions.T @ (directions @ push)

    def observed(p):
        overlaps = order_parameters(p, action.factors)
        return overlaps, None if kernels is None else output(overlaps[0], action.energy, kernels)

    value, drift = jax.jvp(observed, (point,), (shift,))
    slopes, curvatures = map_factorisations(
        lambda w: (jax.jvp(observed, (point,), (w,))[1], _second(observed, point, w)), directions
    )
    overlaps, prediction = jax.tree.map(lambda g, d, c: g + d + 0.5 * c.sum(axis=0), value, drift, curvatures)
    if prediction is not None:
        prediction = prediction._replace(variance=prediction.variance + jnp.sum(slopes[1].mean ** 2, axis=0))
    return Corrected(overlaps, prediction)


def _second(function, point, direction):
    """The second derivative of a function along a direction."""

    def first(p):
        return jax.jvp(function, (p,), (direction,))[1]

    return jax.jvp(first, (point,), (direction,))[1]


def hessian(function, point: Float[Array, " coordinates"]) -> Float[Array, "coordinates coordinates"]:
    """Second derivatives, a few columns at a time to spare memory."""
    _, product = jax.linearize(jax.grad(function), point)
    directions = jnp.eye(point.shape[0])
    small = point.shape[0] <= _AT_ONCE
    matrix = jax.vmap(product)(directions) if small else jax.lax.map(product, directions, batch_size=_AT_ONCE)
    return 0.5 * (matrix + matrix.T)
