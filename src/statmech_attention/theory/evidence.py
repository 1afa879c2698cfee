"""The evidence: how likely the labels are before they are seen, from the minimum of the action."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.theory.levels import paths as coordinates
from statmech_attention.theory.levels.paths import point_of
from statmech_attention.theory.prepared import prepared
from statmech_attention.theory.solution import Solution


def log_evidence(solution: Solution, *, corrected: bool = False) -> Float[Array, "*batch"]:
    r"""$\ln p(Y) \approx -\frac{N}{2} (S^* - S_0) - \frac{P C}{2} \ln 2\pi$, of $C$ outputs, to leading order in $N$.

    Corrected it has in addition $-\frac12 \ln \det (S''_0)^{-1} S''(x^*) - \psi(x^*)$, (V4): with
    $\psi$ of (C1) and the Hessian of $S$ in the good coordinates, with labels and without. An error of
    order $1/N$ is left.

    $S_0 = \sum_l d_l N_l / N_{max}$, the smallest entropy, normalises the prior of the order
    parameters, and differs between networks of different numbers of paths. Terms left out do not
    grow with $N$, but with the number of paths. Where the action has several minima, this is the
    evidence of the solution's basin alone; that of `minima(problem)[0]` is the largest.

    Args:
        solution: a `Solution` or a batch, of any width; exact at infinite width.
        corrected: add the next order, of a single solution. It forms the Hessian, of $d^2/2$ rows for $d$ paths.

    Returns:
        A scalar, or one number per solution of a batch.

    Source: Laplace's method, as in Tierney and Kadane (1986); (V4) is ours.
    """
    problem = solution.problem
    architecture = problem.architecture
    widths = jnp.stack(jnp.broadcast_arrays(*(jnp.asarray(width, float) for width in architecture.stage_widths)))
    finite, unit = jnp.isfinite(widths), jnp.asarray(architecture.unit, float)
    unit = jnp.where(jnp.isfinite(unit), unit, 0.0)  # where nothing is finite, the entropy is the smallest
    diagonals = np.array([diagonal for diagonal, _ in coordinates.full_rank(architecture).counts], float)
    # Entropy and energy apart, since N S has no value at infinite width.
    excess = unit * solution.entropy - jnp.tensordot(diagonals, jnp.where(finite, widths, unit), axes=1)
    labels = problem.examples * problem.attentioned.chain.outputs
    leading = -0.5 * (excess + problem.examples * solution.energy + labels * np.log(2 * np.pi))
    if not corrected:
        return leading
    if solution.action.ndim:
        raise ValueError("corrected: wanted a single solution, got a batch. Take one of them, as in solution[0].")
    action, _ = prepared(problem, "dense")
    return leading + _order_one(point_of(solution.order_parameters, action.factors), action)


@jax.jit
def _order_one(point, action):
    """The terms of order one, (V4)."""
    _, _, bend = coordinates.entropy_derivatives(jnp.zeros_like(point), action.shares, action.factors)
    hessian = action.dense(point)[2].hessian / jnp.sqrt(jnp.outer(bend, bend))
    return -jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(hessian)))) - coordinates.order_one(point, action.factors)
