"""The evidence: how likely the labels are before they are seen, from the minimum of the action."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.levels.levels import order_one
from statmech_attention.theory.prepared import prepared
from statmech_attention.theory.solution import Solution, single


def log_evidence(solution: Solution, *, corrected: bool = False) -> Float[Array, "*batch"]:
    r"""$\ln p(Y) \approx -\frac{N}{2} (S^* - S_0) - \frac{P C}{2} \ln 2\pi$, of $C$ outputs, to leading order in $N$.

    Corrected it has in addition $-\frac12 \ln \det (S''_0)^{-1} S''(x^*) - \psi(x^*)$, (V4): with
    $\psi$ of (C1) and the Hessian of $S$ in the good coordinates, with labels and without. An error of
    order $1/N$ is left.

    $S_0 = \sum_l d_l N_l / N_{max}$, the smallest entropy, normalises the prior of the order
    parameters, and differs between networks of different numbers of paths. Terms left out do not
    grow with $N$, but with the number of paths. Where the action has several minima, this is the
    evidence of the solution's basin alone; that of `minima(problem)[0]` is the largest. On tokens it is
    that of the solution's directions: the rest is at its prior, so that it may err to either side.

    Args:
        solution: a `Solution` or a batch, of any width; exact at infinite width.
        corrected: add the next order, of a single solution. It forms the Hessian, of $d^2/2$ rows for $d$ paths.

    Returns:
        A scalar, or one number per solution of a batch.

    Source: Laplace's method, as in Tierney and Kadane (1986); (V4) is ours.
    """
    problem = checks.instance("solution", solution, Solution).problem
    corrected = checks.flag("corrected", corrected)
    unit = jnp.asarray(problem.architecture.unit, float)
    finite = jnp.isfinite(unit)  # else nothing moves, and N (S - S_0) is P E
    nats = problem.examples * solution.energy
    excess = jnp.where(finite, jnp.where(finite, unit, 0.0) * solution.excess, nats)
    labels = problem.examples * problem.attentioned.chain.outputs
    leading = -0.5 * (excess + labels * np.log(2 * np.pi))
    if not corrected:
        return leading
    single(solution, "corrected")
    action = solution.landscape if solution.directions else prepared(problem, "dense")[0]
    return leading + _order_one(solution.point, action)


@jax.jit
def _order_one(point, action: Action):
    """The terms of order one, (V4)."""
    bend = action.bend(jnp.zeros_like(point))
    hessian = action.dense(point)[2].hessian / jnp.sqrt(jnp.outer(bend, bend))
    return -jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(hessian)))) - order_one(point, action.levels)
