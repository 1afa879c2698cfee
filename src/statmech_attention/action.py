r"""The action: entropy of the order parameters plus $\alpha$ times the energy of the labels.

Equations (11) and (12). In the good coordinates $U^{(l)} = A_l A_l^\top$,
$A_l = \sigma_l (I_{H_l} \otimes A_{l+1}) F_l$ with lower triangular $F_l$, the entropy falls apart into
independent layers and the prior is isotropic; only the energy couples them. A point is a flat vector:
for $l = 1..L+1$ the logarithms of the diagonal of $F_l$, then what lies below the diagonal.
"""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from statmech_attention import _checks
from statmech_attention._architecture import Architecture, architecture
from statmech_attention.kernels import kernel
from statmech_attention.paths import as_attentioned


def entropy(order_parameters, *, heads, width=1, variance=1.0) -> Float[Array, ""]:
    r"""$\mathcal L = \sum_{l=1}^{L+1} \frac{N_l}{N_{max}} [\mathrm{tr}(\Sigma_l^{-1} U^{(l)}) - \ln\det(\Sigma_l^{-1} U^{(l)})]$, (11).

    $\Sigma_l = \sigma_l^2\, I_{H_l} \otimes U^{(l+1)}$ and $\Sigma_{L+1} = \sigma_a^2$. It is smallest, with
    value $\sum_l d_l N_l / N_{max}$, at the Gaussian-process limit.

    Args:
        order_parameters: $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$; $U^{(l)}$ is `(paths, paths)` over partial
            paths $(h_l .. h_L)$, the last a scalar. All positive definite.
        heads: $(H_1, .., H_L)$.
        width: $N$ or $(N_1, .., N_{L+1})$; only ratios matter here.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.

    Returns:
        A scalar.

    Raises:
        ValueError: wrong shapes or lengths, float32, an order parameter that is not positive definite.

    Source: Tiberi et al. (2024), equations (32), (33).
    """
    layout = architecture(heads, width, variance)
    factors = _cholesky_factors(order_parameters, layout)
    total = jnp.zeros(())
    for layer, share in enumerate(layout.shares):
        factor = _relative_factor(factors, layer, layout)
        total = total + share * (jnp.sum(factor**2) - 2 * jnp.sum(jnp.log(jnp.diagonal(factor))))
    return total


def energy(order_parameter, attentioned, labels, *, temperature, variance=1.0, heads=None) -> Float[Array, ""]:
    r"""$E(U) = \frac1P [\ln\det(K + T I) + Y^\top (K + T I)^{-1} Y]$, equation (12).

    Up to a constant, $-2/P$ times the log density of the labels under $\mathcal N(0, K + T I)$.

    Args:
        order_parameter: $U$, `(paths, paths)`.
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `heads`.
        labels: $Y$, `(examples,)`.
        temperature: $T > 0$.
        variance: $\sigma^2$, or one number a layer with $\sigma_0^2$ first.
        heads: only for plain arrays.

    Returns:
        A scalar; NaN where $K + T I$ is not positive definite.

    Raises:
        ValueError: wrong shapes, NaN or infinity, $T \le 0$, float32.

    Source: Tiberi et al. (2024), equations (12) and (34).
    """
    attentioned = as_attentioned("attentioned", attentioned, heads)
    labels = _checks.labels(labels, attentioned.values.shape[0])
    temperature = _checks.positive("temperature", temperature)
    gram = kernel(attentioned, attentioned, order_parameter, variance=variance)
    chol = jnp.linalg.cholesky(gram + temperature * jnp.eye(gram.shape[0]))
    logdet = 2 * jnp.sum(jnp.log(jnp.diagonal(chol)))
    return (logdet + labels @ cho_solve((chol, True), labels)) / labels.shape[0]


def action(order_parameters, attentioned, labels, *, width, temperature, variance=1.0, heads=None) -> Float[Array, ""]:
    r"""$S = \mathcal L + \alpha E$ with $\alpha = P / N_{max}$, equation (11).

    Args:
        order_parameters: $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$ as for `entropy`.
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `heads`.
        labels: $Y$, `(examples,)`.
        width: $N$ or $(N_1, .., N_{L+1})$.
        temperature: $T > 0$.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        heads: only for plain arrays.

    Returns:
        A scalar.

    Raises:
        ValueError: as for `entropy` and `energy`.

    Source: Tiberi et al. (2024), equations (11) and (32).
    """
    attentioned = as_attentioned("attentioned", attentioned, heads)
    alpha = attentioned.values.shape[0] / architecture(attentioned.heads, width, variance).widest
    return entropy(order_parameters, heads=attentioned.heads, width=width, variance=variance) + alpha * energy(
        order_parameters[0], attentioned, labels, temperature=temperature, variance=variance
    )


def gp_order_parameters(heads, *, variance=1.0) -> tuple[Float[Array, "..."], ...]:
    r"""The order parameters of the Gaussian-process limit $\alpha \to 0$: $U^{(l)} = \sigma_a^2 \prod_{m \ge l} \sigma_m^2\, I$.

    Args:
        heads: $(H_1, .., H_L)$.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.

    Returns:
        $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$, the last a scalar.

    Raises:
        ValueError: numbers out of range or of the wrong count.
    """
    layout = architecture(heads, 1, variance)
    return order_parameters_at(jnp.zeros(coordinate_count(layout)), layout)


def coordinate_count(layout: Architecture) -> int:
    """Number of good coordinates, $\\sum_l d_l (d_l + 1) / 2$."""
    return sum(size * (size + 1) // 2 for size in layout.partial_paths)


def order_parameters_at(point: Float[Array, " coordinates"], layout: Architecture) -> tuple[Float[Array, "..."], ...]:
    """$(U^{(1)}, .., U^{(L+1)})$ at a point in the good coordinates."""
    factors = order_parameter_factors(point, layout)
    overlaps = [factor @ factor.T for factor in factors]
    return (*overlaps[:-1], overlaps[-1][0, 0])


def order_parameter_factors(point: Float[Array, " coordinates"], layout: Architecture) -> list:
    r"""The Cholesky factors $A_1, .., A_{L+1}$ of the order parameters, $A_l = \sigma_l (I_{H_l} \otimes A_{l+1}) F_l$."""
    relative = _unflatten(point, layout)
    factors = [math.sqrt(layout.variances[-1]) * relative[-1]]
    for layer in reversed(range(len(layout.heads))):
        blocks = relative[layer].reshape(layout.heads[layer], factors[0].shape[0], -1)
        scaled = math.sqrt(layout.variances[layer + 1]) * jnp.einsum("ab,hbc->hac", factors[0], blocks)
        factors.insert(0, scaled.reshape(relative[layer].shape))
    return factors


def coordinates_of(order_parameters, layout: Architecture) -> Float[Array, " coordinates"]:
    """The good coordinates of given order parameters; the inverse of `order_parameters_at`."""
    factors = _cholesky_factors(order_parameters, layout)
    pieces = []
    for layer, size in enumerate(layout.partial_paths):
        relative = _relative_factor(factors, layer, layout)
        pieces += [jnp.log(jnp.diagonal(relative)), relative[np.tril_indices(size, -1)]]
    return jnp.concatenate(pieces)


def coordinate_entropy(
    point: Float[Array, " coordinates"], layout: Architecture, shares: Float[Array, " layers"]
) -> Float[Array, ""]:
    r"""The entropy at a point: $\sum_l \frac{N_l}{N_{max}} [|F_l|^2 - 2 \sum_i \ln F_{l,ii}]$."""
    total, start = jnp.zeros(()), 0
    for share, size in zip(shares, layout.partial_paths, strict=True):
        logs = point[start : start + size]
        below = point[start + size : start + size * (size + 1) // 2]
        total = total + share * (jnp.sum(jnp.exp(2 * logs)) - 2 * jnp.sum(logs) + jnp.sum(below**2))
        start += size * (size + 1) // 2
    return total


def _unflatten(point, layout: Architecture) -> list:
    """The triangular factors $F_1, .., F_{L+1}$."""
    factors, start = [], 0
    for size in layout.partial_paths:
        below = size * (size - 1) // 2
        factor = jnp.diag(jnp.exp(point[start : start + size]))
        factors.append(factor.at[np.tril_indices(size, -1)].set(point[start + size : start + size + below]))
        start += size + below
    return factors


def _relative_factor(factors: list, layer: int, layout: Architecture):
    r"""$F_l = \sigma_l^{-1} (I_{H_l} \otimes A_{l+1})^{-1} A_l$."""
    scaled = factors[layer] / math.sqrt(layout.variances[layer + 1])
    if layer == len(layout.heads):
        return scaled
    above = factors[layer + 1]
    blocks = scaled.reshape(layout.heads[layer] * above.shape[0], -1)
    solved = [solve_triangular(above, block, lower=True) for block in jnp.split(blocks, layout.heads[layer], axis=0)]
    return jnp.concatenate(solved, axis=0)


def _cholesky_factors(order_parameters, layout: Architecture) -> list:
    sizes = layout.partial_paths
    if not isinstance(order_parameters, (tuple, list)):
        raise ValueError(
            f"order_parameters: wanted a tuple (U^(1), .., U^({len(sizes)})) with a scalar last, "
            f"got {type(order_parameters).__name__}."
        )
    if len(order_parameters) != len(sizes):
        raise ValueError(
            f"order_parameters: wanted {len(sizes)}, (U^(1), .., U^({len(sizes)})) with a scalar last, "
            f"got {len(order_parameters)}."
        )
    factors = []
    for layer, (value, size) in enumerate(zip(order_parameters, sizes, strict=True), start=1):
        name = f"order_parameters[{layer - 1}]"
        if layer == len(sizes):
            value = _checks.array(name, value, "", double=True)[None, None]
        else:
            value = _checks.array(name, value, "paths paths", double=True)
        if value.shape != (size, size):
            raise ValueError(f"{name}: wanted U^({layer}) of shape ({size}, {size}), got {value.shape}.")
        factor = jnp.linalg.cholesky(value)
        if _checks.concrete(factor) and not np.all(np.isfinite(np.asarray(factor))):
            raise ValueError(f"{name}: wanted a positive definite U^({layer}), got one that is not.")
        factors.append(factor)
    return factors
