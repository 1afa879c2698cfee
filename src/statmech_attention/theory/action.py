r"""The action, entropy of the order parameters plus $\alpha$ times the energy of the labels, and the evidence.

The action (11) and the energy (12) are those of given order parameters; the evidence, how likely
the labels are before they are seen, follows from the minimum of the action.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention.layers.chains import Layers
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory import coordinates
from statmech_attention.theory.coordinates import point_of
from statmech_attention.theory.derivatives import action_problem, dense_hessian, entropy_curvature
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.regression import kernel_regression
from statmech_attention.theory.solution import Solution


def entropy(
    order_parameters: Sequence[ArrayLike],
    *,
    width: ArrayLike | Sequence[ArrayLike] = 1,
    variance: ArrayLike | Sequence[ArrayLike] = 1.0,
    layers: Layers,
) -> Float[Array, ""]:
    r"""The entropy of (11),
    $\mathcal L = \sum_l \frac{N_l}{N_{max}} [\mathrm{tr}(\Sigma_l^{-1} U^{(l)}) - \ln\det(\Sigma_l^{-1} U^{(l)})]$.

    $l = 1 .. L+1$, $\Sigma_l = \sigma_l^2\, I_{H_l} \otimes U^{(l+1)}$, $\Sigma_{L+1} = \sigma_a^2$.
    The smallest value, $\sum_l d_l N_l / N_{max}$, is that of the Gaussian-process limit. For other
    kinds see `statmech_attention.layers.kind`. Heads with a value dimension $d$ have
    $\Sigma_l = \sigma_l\, \mathrm{blockdiag}(G_1 .. G_H)$, and each adds
    $\frac{d}{N_{max}} [\mathrm{tr}(\Sigma^{-1} G_h) - \ln\det(\Sigma^{-1} G_h)]$ with
    $\Sigma = \sigma_l U^{(l+1)}$.

    Args:
        order_parameters: as in `Solution.order_parameters`, all positive definite.
        width: $N$ or $(N_1, .., N_{L+1})$; only ratios matter here.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        layers: $(H_1, .., H_L)$, or layers of other kinds among them.

    Source: Tiberi et al. (2024), equations (32), (33).
    """
    architecture = Architecture.of(layers, width, variance)
    factors = coordinates.full_rank(architecture)
    return coordinates.entropy(point_of(order_parameters, factors), jnp.array(architecture.shares, float), factors)


def energy(problem: Problem, order_parameter: ArrayLike) -> Float[Array, ""]:
    r"""$E(U) = \frac1P [\ln\det(K + T I) + Y^\top (K + T I)^{-1} Y]$, equation (12).

    Up to a constant, $-2/P$ times the log density of the labels under $\mathcal N(0, K + T I)$.
    With several outputs $Y$ and $K$ run over pairs (example, output); $P$ remains the number of
    examples.

    Args:
        problem: a `Problem` with a temperature; its width does not matter.
        order_parameter: $U$, `(paths, paths)`, with a row per path and output.

    Returns:
        A scalar; NaN if $K + T I$ is not positive definite.

    Source: Tiberi et al. (2024), equations (12) and (34).
    """
    found = kernel_regression(problem, order_parameter)
    return (found.regression.nats + found.problem.dropped * jnp.log(problem.temperature)) / problem.examples


def action(problem: Problem, order_parameters: Sequence[ArrayLike]) -> Float[Array, ""]:
    r"""$S = \mathcal L + \alpha E$ with $\alpha = P / N_{max}$, (11); $P / d_{max}$ for narrow
    heads in infinitely wide networks.

    Args:
        problem: a `Problem` with width and temperature.
        order_parameters: as in `Solution.order_parameters`.

    Source: Tiberi et al. (2024), equations (11) and (32).
    """
    problem = need_problem(problem, "width", "temperature")
    alpha = problem.examples / problem.architecture.unit
    bulk = entropy(order_parameters, layers=problem.layers, width=problem.width, variance=problem.variance)
    return bulk + alpha * energy(problem, order_parameters[0])


def gp_order_parameters(
    *, layers: Layers, variance: ArrayLike | Sequence[ArrayLike] = 1.0
) -> tuple[Float[Array, "..."], ...]:
    r"""The Gaussian-process limit $\alpha \to 0$ of the order parameters:
    $U^{(l)} = \sigma_a^2 \prod_{m \ge l} \sigma_m^2\, I$.

    In general $U^{(l)} = M_l M_l^\top \otimes U^{(l+1)}$ with the mixing $M_l$ of the layer's kind.

    Args:
        layers, variance: as in `entropy`.

    Returns:
        $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$ as in `Solution.order_parameters`.
    """
    factors = coordinates.full_rank(Architecture.of(layers, 1, variance))
    return coordinates.order_parameters(jnp.zeros(factors.coordinates), factors)


def log_evidence(solution: Solution, *, corrected: bool = False) -> Float[Array, "*batch"]:
    r"""$\ln p(Y) \approx -\frac{N}{2} (S^* - S_0) - \frac{P C}{2} \ln 2\pi$, of $C$ outputs, to leading order in $N$.

    Corrected it has in addition $-\frac12 \ln \det (S''_0)^{-1} S''(x^*) - \psi(x^*)$, (V4): with
    $\psi$ of (C1) and the Hessian of $S$ in the good coordinates, with labels and without. An error of
    order $1/N$ is left.

    $S_0 = \sum_l d_l N_l / N_{max}$, the smallest entropy, normalises the prior of the order
    parameters, and differs between networks of different numbers of paths. Terms left out do not
    grow with $N$, but with the number of paths. Where the action has two minima, this is the
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
    widths = jnp.stack(jnp.broadcast_arrays(*(jnp.asarray(one, float) for one in architecture.stage_widths)))
    finite, widest = jnp.isfinite(widths), jnp.asarray(problem.width[0], float)
    for width in problem.width[1:]:
        widest = jnp.maximum(widest, width)
    # As `Architecture.unit`; 0 where nothing is finite, and the entropy the smallest.
    unit = jnp.where(jnp.isfinite(widest), widest, jnp.max(jnp.where(finite, widths, 0.0), axis=0))
    diagonals = np.array([diagonal for diagonal, _ in coordinates.full_rank(architecture).counts], float)
    # Entropy and energy apart, since N S has no value at infinite width.
    excess = unit * solution.entropy - jnp.tensordot(diagonals, jnp.where(finite, widths, unit), axes=1)
    labels = problem.examples * problem.attentioned.chain.outputs
    leading = -0.5 * (excess + problem.examples * solution.energy + labels * np.log(2 * np.pi))
    if not corrected:
        return leading
    if solution.action.ndim:
        raise ValueError("corrected: wanted a single solution, got a batch. Take one of them, as in solution[0].")
    factors = coordinates.full_rank(architecture)
    data, _ = action_problem(problem, "dense")
    return leading + _order_one(point_of(solution.order_parameters, factors), data, factors)


@jax.jit
def _order_one(point, data, factors):
    """The terms of order one, (V4)."""
    root = jnp.sqrt(entropy_curvature(jnp.zeros_like(point), data, factors))
    hessian = dense_hessian(point, data, factors)[2].hessian / jnp.outer(root, root)
    return -jnp.sum(jnp.log(jnp.diagonal(jnp.linalg.cholesky(hessian)))) - coordinates.order_one(point, factors)
