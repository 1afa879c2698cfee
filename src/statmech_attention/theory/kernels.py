"""Kernels: similarity of two examples, summed over pairs of attention paths, equation (10)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.model.architecture import variances
from statmech_attention.model.paths import AttentionedInputs, as_attentioned

_LEAST_BLOCK = 2048  # rows that are triangulated together
_ROUNDING = 1e-6  # of the largest entry of an order parameter, whatever its precision


def kernel(
    attentioned: AttentionedInputs | ArrayLike,
    others: AttentionedInputs | ArrayLike,
    order_parameter: ArrayLike,
    *,
    variance: ArrayLike | Sequence[ArrayLike] = 1.0,
    layers: Layers | None = None,
) -> Float[Array, "examples *others"]:
    r"""$\kappa(x, x') = \frac{\sigma_0^2}{\prod_l H_l} \sum_{\pi\pi'} U^{\pi\pi'} C_{\pi\pi'}(x, x')$, equation (10).

    The path-path kernels $C_{\pi\pi'}$ are never formed: a single matrix product over (path,
    feature) suffices. In general the sum is $\sum c_\pi c_{\pi'} U^{\pi\pi'} C_{\pi\pi'}$ with the
    coefficients of the paths, $(\prod_l H_l)^{-1/2}$ for heads alone; with several outputs
    $K_{(c\mu),(c'\nu)}$ has $U^{(\pi c)(\pi' c')}$ in it.

    Args:
        attentioned: `AttentionedInputs`, or an array `(examples, paths, features)` with `layers`.
        others: the same for the second argument of the kernel.
        order_parameter: $U$, `(paths, paths)`, symmetric; each output a path of its own.
        variance: $\sigma^2$, or one number per layer with $\sigma_0^2$ first.
        layers: only for plain arrays, $(H_1, .., H_L)$.

    Returns:
        `(examples, others)`, or `(examples, outputs, others, outputs)`.

    Source: Tiberi et al. (2024), equations (10) and (31).
    """
    left, right = as_attentioned("attentioned", attentioned, layers), as_attentioned("others", others, layers)
    check_pair(left, right, "others")
    axes = left.chain.readout.axes
    flat = flat_kernel(left, right, check_order_parameter(order_parameter, left), variance)
    return flat.reshape(left.values.shape[0], *axes, right.values.shape[0], *axes)


def kernel_scale(attentioned: AttentionedInputs, variance):
    r"""$\sigma_0^2 / (N_0 \prod_l H_l)$, what stands before the sum of (10) once $C$ is written out."""
    chain = attentioned.chain
    return variances(variance, len(chain.layers))[0] / (attentioned.values.shape[-1] * chain.divisor)


def kernel_inputs(attentioned: AttentionedInputs) -> Float[Array, "rows paths features"]:
    """Factors of the kernel: inputs times the gains of their paths, one row and one path per output.

    With several outputs row (example, output) is zero on the paths of other outputs.
    """
    chain, values = attentioned.chain, attentioned.values
    if np.any(chain.path_gains != 1):
        values = values * jnp.asarray(chain.path_gains, values.dtype)[None, :, None]
    if chain.outputs == 1:
        return values
    examples, paths, features = values.shape
    spread = jnp.einsum("epi,cd->ecpdi", values, jnp.eye(chain.outputs, dtype=values.dtype))
    return spread.reshape(examples * chain.outputs, paths * chain.outputs, features)


class Reduced(NamedTuple):
    """Inputs of a kernel, one row per output, their labels, and $|Y|^2$ of the labels rotated away."""

    inputs: Float[Array, "rows paths features"]
    labels: Float[Array, " rows"]
    outside: Float[Array, ""] | float = 0.0


def reduced(attentioned: AttentionedInputs, labels) -> Reduced:
    """The same kernel and energy from fewer features and, with many examples, fewer rows.

    A rotation of the examples leaves the energy (12) unchanged. Rows beyond the number of (path,
    feature) are rotated to where the kernel vanishes: there $K + T$ is $T$, and only their number
    and $|Y|^2$ matter.
    """
    values, outside = compressed(attentioned.values), 0.0
    rows, paths, features = values.shape
    size = paths * features
    if rows > size and checks.concrete(values, labels):
        triangle = triangulated([(values, labels)])
        values = jnp.asarray(triangle[:size, :size].reshape(size, paths, features))
        labels, outside = jnp.asarray(triangle[:size, size:]), float(np.sum(triangle[size:, size:] ** 2))
    return Reduced(kernel_inputs(replace(attentioned, values=values)), labels.reshape(-1), outside)


def triangulated(parts: Iterable) -> Float[np.ndarray, "rows columns"]:
    """The triangular factor of inputs beside labels, of all `parts` together, block by block.

    Inputs and labels keep their products with themselves and with each other. The last rows, one per
    output, have no inputs: their labels are what no inputs can explain.
    """
    from scipy.linalg import qr  # imported where it is needed: it takes longer than the kernels do

    triangle = np.zeros((0, 0))
    for part in parts:
        inputs, labels = (np.asarray(one).reshape(len(one), -1) for one in part)
        columns = inputs.shape[1] + labels.shape[1]
        block = max(_LEAST_BLOCK, 2 * columns)
        for rows in (slice(start, start + block) for start in range(0, len(inputs), block)):
            beside = np.concatenate([inputs[rows], labels[rows]], axis=1)
            whole = np.concatenate([triangle.reshape(-1, columns), beside])
            (triangle,) = qr(whole, mode="r", overwrite_a=True, check_finite=False)
            triangle = triangle[:columns].copy()  # or the rows below would stay in memory
    return triangle


def compressed(values):
    """The same Gram matrices from fewer features: directions that no example has are rotated away."""
    if not checks.concrete(values):
        return values
    flat = np.asarray(values).reshape(-1, values.shape[-1])
    if not np.all(np.isfinite(products := flat.T @ flat)):  # too large for a solve, too
        return values
    eigenvalues, directions = np.linalg.eigh(products)
    rank = max(1, np.sum(eigenvalues > flat.shape[1] * np.finfo(float).eps * eigenvalues[-1]))
    # Where little is missing, as in data with a dead feature, it stays: another shape is compiled again.
    generic = min(flat.shape)
    rank = generic if rank > 7 / 8 * generic else rank
    return values if rank == flat.shape[1] else jnp.asarray(np.asarray(values) @ directions[:, -rank:])


def flat_kernel(
    left: AttentionedInputs, right: AttentionedInputs, order_parameter, variance
) -> Float[Array, "rows columns"]:
    """The kernel over pairs (example, output)."""
    return _combined(left.form, right.form, order_parameter, kernel_scale(left, variance))


def check_order_parameter(order_parameter, attentioned: AttentionedInputs) -> Float[Array, "paths paths"]:
    """$U$ as a float64 array whose size fits the paths, and that some weights have."""
    return order_parameter_of(order_parameter, attentioned.chain.partial_paths[0])


def order_parameter_of(order_parameter, paths: int, *, double: bool = True) -> Float[Array, "paths paths"]:
    """The same for a number of paths, each output one of its own."""
    order_parameter = checks.array("order_parameter", order_parameter, "paths paths", double=double)
    if order_parameter.shape != (paths, paths):
        raise ValueError(f"order_parameter: wanted shape ({paths}, {paths}), got {order_parameter.shape}.")
    check_semi_definite("order_parameter", order_parameter)
    return order_parameter


def check_semi_definite(name: str, matrix) -> None:
    """Refuse a matrix that is the $U$ of no weights, but for rounding; let one that is traced through."""
    check_symmetric(name, matrix)
    if checks.concrete(matrix):
        known = np.asarray(matrix)
        try:
            shift = _rounding(known) + np.finfo(float).tiny
            np.linalg.cholesky(known.astype(float) + shift * np.eye(known.shape[-1]))
        except np.linalg.LinAlgError:
            raise ValueError(
                f"{name}: wanted a positive semi-definite matrix, got one with negative eigenvalues."
            ) from None


def check_symmetric(name: str, matrix) -> None:
    """Refuse a matrix, or several, that is not symmetric, but for rounding; let one that is traced through."""
    if checks.concrete(matrix):
        known = np.asarray(matrix)
        if np.max(np.abs(known - np.swapaxes(known, -1, -2))) > _rounding(known):
            raise ValueError(f"{name}: wanted a symmetric matrix, got one that is not. Take 0.5 * (U + U.T).")


def _rounding(matrix: np.ndarray) -> float:
    """Return the largest error of rounding in an entry, of single precision if the entries once were."""
    with np.errstate(over="ignore"):
        single = np.all(matrix == matrix.astype(np.float32))
    precision = max(float(jnp.finfo(matrix.dtype).eps), single * float(np.finfo(np.float32).eps))
    return max(_ROUNDING, 4 * matrix.shape[-1] ** 0.5 * precision) * float(np.max(np.abs(matrix)))


@jax.jit
def _combined(left: AttentionedInputs, right: AttentionedInputs, order_parameter: Float[Array, "paths paths"], scale):
    rows, columns = kernel_inputs(left), kernel_inputs(right)
    weighted = jnp.einsum("eai,ab->ebi", rows, order_parameter)
    return scale * (weighted.reshape(rows.shape[0], -1) @ columns.reshape(columns.shape[0], -1).T)


def check_pair(left: AttentionedInputs, right: AttentionedInputs, name: str) -> None:
    """Refuse inputs with other paths or features than `left`."""
    if (left.layers, left.values.shape[1:]) != (right.layers, right.values.shape[1:]):
        raise ValueError(
            f"{name}: wanted (paths, features) = {left.values.shape[1:]} and heads {left.layers}, "
            f"got {right.values.shape[1:]} and {right.layers}."
        )


def inputs_like(name: str, value, train: AttentionedInputs) -> AttentionedInputs:
    """`value` checked as inputs of the same layers, paths and features as the training inputs."""
    value = as_attentioned(name, value, None if isinstance(value, AttentionedInputs) else train.layers)
    check_pair(train, value, name)
    return value
