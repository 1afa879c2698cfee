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
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import map_factorisations, quick_jit
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.kernels.regression import Prediction
from statmech_attention.theory.levels.levels import differentiated, entries, order_one
from statmech_attention.theory.outputs import by_output, outputs_at
from statmech_attention.theory.prepared import all_pairs
from statmech_attention.theory.solution import Solution, single


class Corrected(NamedTuple):
    """The saddle point to the next order in $1/N$.

    Attributes:
        order_parameters: $E[U^{(1)}], .., E[U^{(L+1)}]$, the last a scalar; none on tokens.
        prediction: mean and variance of the output on the test inputs, or None without them.
    """

    order_parameters: tuple[Float[Array, "..."], ...]
    prediction: Any


def corrected(solution: Solution, *, test: AttentionedInputs | TokenInputs | ArrayLike | None = None) -> Corrected:
    r"""$E[U] = U^* + \frac1N U_1$, $\langle f \rangle = f^* + \frac1N f_1$: the saddle point with its first correction.

    The variance of the output is right to order $1/N$, too: (30) with its correction, and the
    contribution of the fluctuations of $U$, $\mathrm{tr}(C f' f'^\top)$. On tokens the directions are held.

    Args:
        solution: a saddle point at finite width, not a batch.
        test: test inputs, `AttentionedInputs`, or an array `(examples, paths, features)`.

    Returns:
        `Corrected(order_parameters, prediction)`.

    Source: ours; the expansion is Laplace's, see Tierney and Kadane (1986).
    """
    problem, action = need_single(solution).problem, solution.landscape
    if solution.directions is None:
        action = Action.of(all_pairs(problem), problem.architecture, action.levels)
    result = _corrected(solution.point, action, outputs_at(solution, test))
    if test is None:
        return result
    return result._replace(prediction=Prediction(*(by_output(part, problem.attentioned) for part in result.prediction)))


def need_single(solution) -> Solution:
    """Validate a single solution of finite width."""
    single(checks.instance("solution", solution, Solution, instead="Take sma.solve(problem)."), "solution")
    if not all(map(math.isfinite, solution.problem.width)):
        raise ValueError("solution: wanted a finite width, got infinity, where there is nothing to correct.")
    return solution


@quick_jit()
def _corrected(point, action: Action, outputs: Callable[..., Prediction] | None) -> Corrected:
    slope = jax.grad(action.half)

    def newton(point, _):
        _, gradient, hessian = differentiated(action.half, point)
        values, vectors = jnp.linalg.eigh(hessian)
        return point - vectors @ ((vectors.T @ gradient) / values), (point, values, vectors)

    # One Newton step more, so that the solver's tolerance does not stand in for the remainder. A loop compiles it once.
    _, visited = jax.lax.scan(newton, point, length=2)
    point, values, vectors = (both[1] for both in visited)
    directions = (vectors / jnp.sqrt(values)[None, :]).T

    third = map_factorisations(lambda w: _second(slope, point, w), directions).sum(axis=0)
    push = jax.grad(order_one)(point, action.levels) + 0.5 * third
    shift = -directions.T @ (directions @ push)

    def observed(p):
        overlaps = action.levels.order_parameters(entries(p, action.levels))
        return overlaps, None if outputs is None else outputs(p, action)

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
