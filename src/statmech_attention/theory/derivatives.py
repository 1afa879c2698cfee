r"""First and second derivatives of the action in the good coordinates.

The energy depends on the point only through $U$: its derivatives are taken in $U$ by hand and
carried to the coordinates by automatic differentiation of the small map point -> $U$. For every
pair $a \le b$ of paths let $S_{ab} = c\,(Z_a Z_b^\top + Z_b Z_a^\top)$, or $c\,Z_a Z_a^\top$ for
$a = b$, with the examples $Z_a$ seen along path $a$ and $c = \sigma_0^2 / (N_0 \prod H)$. With
$R = (K + T)^{-1}$ and $v = R Y$:

    P dE/dU_i        = tr(R S_i) - v^T S_i v
    P d2E/dU_i dU_j  = 2 v^T S_i R S_j v - tr(R S_i R S_j)

With few examples the $S_i$ are stored; with many `_feature_derivatives` uses $G = Z^\top R Z$ and
$Z^\top v$ instead. With several outputs there is a row and a path for each, see `kernel_inputs`.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory import coordinates
from statmech_attention.theory.coordinates import Factors, entries, entropy, layer_shares, logarithms, order_parameter
from statmech_attention.theory.kernels import kernel_inputs, kernel_scale
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.regression import Regression
from statmech_attention.theory.rows import Reduced, reduced

_PRODUCTS_PER_STEP = 20  # 12 to 19 were counted on one-shot images seen along 64 paths
_LARGEST_HESSIAN = 2**27  # entries of the matrices that the dense Hessian is made from
_LARGEST_PAIRS = 2**22  # entries of the pairs' kernels
# Entries of the matrices of a dense Hessian; of larger ones its products are in single precision.
_LARGEST_DOUBLE = 2**22


class ActionProblem(NamedTuple):
    """Arrays that the action depends on besides the point; all can be vmapped.

    Rows are examples, one per output, or fewer rotations of them that carry the whole kernel.
    `pairs` are $S_{ab} / c$ where `kept_pairs` stores them; `scale` is $c$, `alpha` $P / N_{max}$,
    `shares` $N_l / N_{max}$; `finite` is 0 for a stage of infinite width, which the energy sees at
    the prior's peak; `outside` is $|Y|^2$ of the labels rotated away. $P$ counts one label per
    output.
    """

    inputs: Float[Array, "rows features paths"]
    pairs: Float[Array, "pairs rows rows"] | None
    labels: Float[Array, " rows"]
    temperature: Float[Array, ""]
    scale: Float[Array, ""]
    alpha: Float[Array, ""]
    shares: Float[Array, " stages"]
    finite: Float[Array, " stages"]
    examples: Float[Array, ""]
    outside: Float[Array, ""]


class Dense(NamedTuple):
    """The curvature at a point, and the energy there."""

    hessian: Float[Array, "coordinates coordinates"]
    energy: Float[Array, ""]


class Factored(NamedTuple):
    """Ingredients of a Hessian-vector product at a point, and the energy there."""

    point: Float[Array, " coordinates"]
    inverse: Float[Array, "rows rows"]
    gradient: Float[Array, "paths paths"]
    energy: Float[Array, ""]


def action_problem(problem: Problem, method: str) -> tuple[ActionProblem, bool]:
    """The numbers that the action depends on, and whether its Hessian is formed."""
    problem = problem.padded()
    data = Reduced(kernel_inputs(problem.attentioned), problem.labels.reshape(-1))
    dense = is_dense(method, data.inputs)
    pairs = kept_pairs(data.inputs, dense)
    if pairs is None:  # otherwise rows are so few that the number of features does not matter
        data = reduced(problem.attentioned, problem.labels)
        dense = is_dense(method, data.inputs)
    return action_on(data, pairs, problem), dense


def action_on(data: Reduced, pairs, problem: Problem) -> ActionProblem:
    """The action of a problem whose examples are `data`, with `pairs` from `kept_pairs`."""
    inputs, architecture = problem.attentioned, problem.architecture
    count = problem.examples * inputs.chain.outputs
    numbers = (problem.temperature, kernel_scale(inputs, architecture.variances), count, data.outside)
    temperature, scale, examples, outside = (jnp.asarray(number, float) for number in numbers)
    alpha, shares, finite = width_numbers(count, architecture)
    seen = jnp.swapaxes(data.inputs, 1, 2)
    return ActionProblem(seen, pairs, data.labels, temperature, scale, alpha, shares, finite, examples, outside)


def width_numbers(examples, architecture: Architecture):
    """The fields of `ActionProblem` that depend on the widths: `alpha`, `shares`, `finite`."""
    widths, shares = (jnp.array(one, float) for one in (architecture.stage_widths, architecture.shares))
    return jnp.asarray(examples / architecture.unit, float), shares, jnp.isfinite(widths).astype(float)


def kept_pairs(inputs: Float[Array, "rows paths features"], dense: bool) -> Float[Array, "pairs rows rows"] | None:
    r"""$S_{ab} / c$ for every pair $a \le b$, if that makes the dense Hessian cheaper."""
    rows, paths, features = inputs.shape
    first, second = np.triu_indices(paths)
    if not dense or len(first) * rows**2 > min(_LARGEST_PAIRS, (paths * features) ** 2 // 2):
        return None
    return _pair_kernels(inputs)


@quick_jit()
def _pair_kernels(inputs):
    first, second = np.triu_indices(inputs.shape[1])
    kernels = jnp.einsum("mki,nki->kmn", inputs[:, first], inputs[:, second])
    return jnp.where((first < second)[:, None, None], kernels + kernels.transpose(0, 2, 1), kernels)


def is_dense(method: str, values) -> bool:
    """True if forming the Hessian costs less than the products that would replace it."""
    if method != "auto":
        return method == "dense"
    rows, paths, features = values.shape
    size, pairs = paths * features, paths * (paths + 1) // 2
    # The energy's share, its way to the coordinates, and the eigenvectors.
    hessian = paths**4 * (features**2 + pairs) + size**2 * rows + 8 * pairs**3
    product = 2 * rows**2 * (size + rows)
    return hessian < _PRODUCTS_PER_STEP * product and size**2 + paths**4 < _LARGEST_HESSIAN


def rough_hessian(problem: ActionProblem) -> bool:
    """True if parts of the dense Hessian are in single precision."""
    _, features, paths = problem.inputs.shape
    return problem.pairs is None and (features * paths) ** 2 > _LARGEST_DOUBLE


def entropy_curvature(point: Float[Array, " coordinates"], problem: ActionProblem, factors: Factors):
    """The diagonal of the entropy's Hessian, which has nothing beside it."""
    return layer_shares(problem.shares, factors) * jnp.where(logarithms(factors), 4 * jnp.exp(2 * point), 2.0)


def action_of(point: Float[Array, " coordinates"], problem: ActionProblem, factors: Factors) -> Float[Array, ""]:
    """The action at a point, of which the others are derivatives."""
    return entropy(point, problem.shares, factors) + problem.alpha * energy_at(point, problem, factors)


def energy_at(point: Float[Array, " coordinates"], problem: ActionProblem, factors: Factors) -> Float[Array, ""]:
    """The energy at a point."""
    chol = jnp.linalg.cholesky(covariance_at(point, problem, factors))
    return energy_of(Regression(chol, problem.labels), problem)


def dense_hessian(point: Float[Array, " coordinates"], problem: ActionProblem, factors: Factors):
    """Value, gradient and Hessian of the action."""
    regression = Regression(jnp.linalg.cholesky(covariance_at(point, problem, factors)), problem.labels)
    energy = energy_of(regression, problem)
    derivatives = _feature_derivatives if problem.pairs is None else _pair_derivatives
    slope, curvature = (problem.alpha / problem.examples * one for one in derivatives(regression, problem))
    # In the free entries, where U is a polynomial, and from there to their logarithms.
    free, logs, shares = entries(point, factors), logarithms(factors), layer_shares(problem.shares, factors)
    finite = layer_shares(problem.finite, factors)
    jacobian, through_map = coordinates.overlap_derivatives(entries(finite * point, factors), slope, factors)
    steepness, chain = finite * (jacobian.T @ slope), jnp.where(logs, free, 1.0)
    chained = finite * chain
    hessian = jnp.outer(chained, chained) * (through_map + jacobian.T @ (curvature @ jacobian))
    diagonal = jnp.where(logs, free * steepness + 4 * shares * free**2, 2 * shares)
    value = jnp.sum(shares * (free**2 - 2 * logs * point)) + problem.alpha * energy
    gradient = chain * steepness + 2 * shares * (chain * free - logs)
    return value, gradient, Dense(0.5 * (hessian + hessian.T) + jnp.diag(diagonal), energy)


def factored_derivatives(point: Float[Array, " coordinates"], problem: ActionProblem, factors: Factors):
    """Value and gradient of the action, and what its Hessian-vector products need."""
    regression = Regression(jnp.linalg.cholesky(covariance_at(point, problem, factors)), problem.labels)
    energy = energy_of(regression, problem)
    inverse = regression.solve(jnp.eye(len(problem.labels)))
    seen = jnp.tensordot(inverse, problem.inputs, 1)
    projected = jnp.tensordot(regression.solve(problem.labels), problem.inputs, 1)
    slope = _between_paths(problem.inputs, seen) - projected.T @ projected
    slope = problem.alpha * problem.scale / problem.examples * slope
    value = entropy(point, problem.shares, factors) + problem.alpha * energy
    return value, jax.grad(_linearised(slope, problem, factors))(point), Factored(point, inverse, slope, energy)


def hessian_product(
    vector: Float[Array, " coordinates"], curvature: Factored, problem: ActionProblem, factors: Factors
) -> Float[Array, " coordinates"]:
    """The Hessian of the action times a vector, for about two gradients, in the inputs' precision."""
    inputs = problem.inputs
    rows, precision = len(inputs), inputs.dtype
    finite = layer_shares(problem.finite, factors)
    overlap, at = partial(order_parameter, factors=factors), finite * curvature.point
    (_, change), (_, pull) = jax.jvp(overlap, (at,), (finite * vector,)), jax.vjp(overlap, at)
    moved = inputs @ change.astype(precision)
    kernel_change = problem.scale.astype(precision) * (moved.reshape(rows, -1) @ inputs.reshape(rows, -1).T)
    inverse = curvature.inverse.astype(precision)
    solved = (curvature.inverse @ problem.labels).astype(precision)
    inverse_change = inverse @ kernel_change @ inverse
    projected = jnp.tensordot(solved, inputs, 1)
    drift = jnp.tensordot(inverse @ (kernel_change @ solved), inputs, 1)
    slope_change = drift.T @ projected + projected.T @ drift
    slope_change -= _between_paths(inputs, jnp.tensordot(inverse_change, inputs, 1))
    (through_kernel,) = pull(problem.alpha * problem.scale / problem.examples * slope_change.astype(vector.dtype))
    surrogate = _linearised(curvature.gradient, problem, factors)
    return finite * through_kernel + jax.jvp(jax.grad(surrogate), (curvature.point,), (vector,))[1]


def covariance_at(point, problem: ActionProblem, factors: Factors) -> Float[Array, "rows rows"]:
    """The covariance $K + T I$ of the labels at a point."""
    factor = coordinates.order_parameter_factors(layer_shares(problem.finite, factors) * point, factors)[0]
    rows = len(problem.labels)
    if problem.pairs is not None:
        gram = jnp.tensordot((factor @ factor.T)[np.triu_indices(len(factor))], problem.pairs, 1)
    else:
        seen = (problem.inputs @ factor).reshape(rows, -1)
        gram = seen @ seen.T
    return problem.scale * gram + problem.temperature * jnp.eye(rows)


def energy_of(regression: Regression, problem: ActionProblem) -> Float[Array, ""]:
    """The energy, with what rows that were rotated away or padded contribute."""
    without = (problem.examples - len(problem.labels)) * jnp.log(problem.temperature)
    return (regression.nats + without + problem.outside / problem.temperature) / problem.examples


def _pair_derivatives(regression: Regression, problem: ActionProblem):
    """$P$ times the slope and the curvature of the energy over pairs of paths, from the pairs' kernels."""
    half = regression.whiten(jnp.eye(len(problem.labels)))
    whitened_pairs = problem.scale * jnp.einsum("mn,knl,rl->kmr", half, problem.pairs, half)
    whitened = half @ problem.labels
    turned = whitened_pairs @ whitened
    flat = whitened_pairs.reshape(len(whitened_pairs), -1)
    slope = jnp.einsum("kmm->k", whitened_pairs) - turned @ whitened
    return slope, 2 * turned @ turned.T - flat @ flat.T


def _feature_derivatives(regression: Regression, problem: ActionProblem):
    r"""The same from $G = Z^\top R Z$ and $u = Z^\top v$, which no pair's kernel is needed for.

    The curvature is a sum over both orders of either pair of
    $\sum_{ij} G_{bi,cj} (2 u_{ai} u_{dj} - G_{ai,dj})$.
    """
    rows, features, paths = problem.inputs.shape
    flat = problem.inputs.reshape(rows, -1)
    half = regression.whiten(flat)
    projected = (regression.solve(problem.labels) @ flat).reshape(features, paths)
    slope = _between_paths(*2 * [half.reshape(rows, features, paths)]) - projected.T @ projected
    # Newton's steps are inexact anyway; value and gradient, which say where the minimum is, stay in double precision.
    if rough_hessian(problem):
        half, projected = half.astype(jnp.float32), projected.astype(jnp.float32)
    gram = (half.T @ half).reshape(features, paths, features, paths).transpose(1, 3, 0, 2)
    projected = projected.T
    inner = 2 * projected[:, None, :, None] * projected[None, :, None, :] - gram
    first, second = np.triu_indices(paths)
    # The only contraction that grows with the fourth power of the paths: [b <= c, (i j)] times [(i j), (a d)].
    left = gram[first, second].reshape(len(first), features**2)
    sums = (left @ inner.reshape(paths**2, features**2).T).astype(problem.inputs.dtype)

    def contracted(b, c, a, d):
        """Sum for all orders of the pairs; the blocks of both matrices are each other's transposes."""
        swapped = b > c
        low, high = np.minimum(b, c), np.maximum(b, c)
        row = low * paths - low * (low - 1) // 2 + high - low
        return sums[row, np.where(swapped, d * paths + a, a * paths + d)]

    a, b, c, d = first[:, None], second[:, None], first[None], second[None]
    curvature = contracted(b, c, a, d) + contracted(a, c, b, d) + contracted(b, d, a, c) + contracted(a, d, b, c)
    orders = jnp.where(first < second, 1.0, 0.5)
    slope = 2 * orders * slope[first, second]
    return problem.scale * slope, problem.scale**2 * jnp.outer(orders, orders) * curvature


def _between_paths(one, other) -> Float[Array, "paths paths"]:
    """The product over rows and features."""
    return one.reshape(-1, one.shape[2]).T @ other.reshape(-1, other.shape[2])


def _linearised(slope, problem: ActionProblem, factors: Factors):
    """The entropy plus the energy linearised in U, for the gradient and the map's Hessian."""
    finite = layer_shares(problem.finite, factors)
    return lambda p: entropy(p, problem.shares, factors) + jnp.sum(slope * order_parameter(finite * p, factors))
