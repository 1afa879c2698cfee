r"""The action (11) of given order parameters: their entropy plus $\alpha$ times the energy (12) of the labels."""

from collections.abc import Sequence

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.layers.chains import Layers
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.descent.energies import FeatureEnergy
from statmech_attention.theory.kernels.of_paths import check_order_parameter
from statmech_attention.theory.levels.levels import excess_entropy
from statmech_attention.theory.levels.paths import full_rank, least_entropy, point_of
from statmech_attention.theory.levels.paths import order_parameters as order_parameters_at
from statmech_attention.theory.prepared import feature_energy
from statmech_attention.theory.problem import Problem, need_problem

_nats = quick_jit()(FeatureEnergy.value)


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
    factors = full_rank(architecture)
    shares = jnp.array(architecture.shares, float)
    return least_entropy(architecture) + excess_entropy(point_of(order_parameters, factors), shares, factors)


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
    rows = need_problem(problem, "temperature").reduce().padded()
    overlap = check_order_parameter(order_parameter, rows.attentioned.chain.partial_paths[0])
    return _nats(feature_energy(rows, rows), overlap) / problem.examples


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
    factors = full_rank(Architecture.of(layers, 1, variance))
    return order_parameters_at(jnp.zeros(factors.coordinates), factors)
