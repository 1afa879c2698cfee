r"""First and second derivatives of the action in the good coordinates.

The energy depends on the point only through $U$, so its derivatives are taken in $U$ by hand, where
they are cheap, and carried to the coordinates by automatic differentiation of the small map
point -> $U$. With $R = (K + T)^{-1}$, $c = \sigma_0^2 / (N_0 \prod H)$, $Z_a$ the examples seen along
path $a$, $G = Z^\top R Z$ and $v = Z^\top R Y$, and `kernel_inputs` for $Z$, where several outputs are rows and paths of
their own, so that nothing here knows of them:

    dE/dU_ab         = c/P sum_i (G_{ai,bi} - v_ai v_bi)
    d2E/dU_ab dU_cd  = c^2/P sum_ij G_{bi,cj} (2 v_ai v_dj - G_{ai,dj})
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.coordinates import Factors, entropy, order_parameter, order_parameter_factors
from statmech_attention.theory.kernels import kernel_scale

_PRODUCTS_PER_STEP = 20  # 12 to 19 were counted on one-shot images seen along 64 paths
_LARGEST_HESSIAN = 2**27  # entries of the matrices that the dense Hessian is made from


class ActionProblem(NamedTuple):
    """Everything the action depends on besides the point; only arrays, so that it can be vmapped.

    Examples are rows of `kernel_inputs`: `alpha` counts a label for every output.
    """

    inputs: Float[Array, "examples paths features"]
    labels: Float[Array, " examples"]
    temperature: Float[Array, ""]
    scale: Float[Array, ""]
    alpha: Float[Array, ""]
    shares: Float[Array, " layers"]


class Factored(NamedTuple):
    """The curvature at a point without a dense Hessian: what a Hessian-vector product needs."""

    point: Float[Array, " coordinates"]
    inverse: Float[Array, "examples examples"]
    gradient: Float[Array, "paths paths"]


def problem_of(seen, inputs: AttentionedInputs, labels, temperature, architecture: Architecture) -> ActionProblem:
    """The problem with the inputs `seen` as its kernel sees them, `kernel_inputs` or fewer features of the same kernel."""
    return ActionProblem(
        seen,
        labels.reshape(-1),
        jnp.asarray(temperature, float),
        jnp.asarray(kernel_scale(inputs, architecture.variances)),
        jnp.asarray(labels.size / architecture.widest, float),
        jnp.stack([jnp.asarray(share, float) for share in architecture.shares]),
    )


def is_dense(method: str, values) -> bool:
    """Whether forming the Hessian costs less than the products that would replace it."""
    if method != "auto":
        return method == "dense"
    examples, paths, features = values.shape
    size, coordinates = paths * features, paths * (paths + 1) // 2
    # The energy's share, its way to the coordinates, and the eigenvectors.
    hessian = paths**4 * (features**2 + coordinates) + size**2 * examples + 8 * coordinates**3
    product = 2 * examples**2 * (size + examples)
    return hessian < _PRODUCTS_PER_STEP * product and size**2 + paths**4 < _LARGEST_HESSIAN


def energy_and_entropy(point: Float[Array, " coordinates"], problem: ActionProblem, factors: Factors):
    """Energy, for each example, and entropy at a point, for the record."""
    energy, *_ = _energy(point, problem, factors)
    return factors.chain.outputs * energy, entropy(point, problem.shares, factors)


def entropy_curvature(point: Float[Array, " coordinates"], problem: ActionProblem, factors: Factors):
    """The diagonal of the entropy's Hessian, which has nothing beside it."""
    slope = jax.grad(lambda p: entropy(p, problem.shares, factors))
    return jax.jvp(slope, (point,), (jnp.ones_like(point),))[1]


def dense_hessian(point: Float[Array, " coordinates"], problem: ActionProblem, factors: Factors):
    """Value, gradient and Hessian of the action."""
    examples, paths, features = problem.inputs.shape
    energy, chol, solved = _energy(point, problem, factors)
    flat = problem.inputs.reshape(examples, -1)
    half = solve_triangular(chol, flat, lower=True)
    gram = (half.T @ half).reshape(paths, features, paths, features)
    projected = (flat.T @ solved).reshape(paths, features)
    slope = jnp.einsum("aibi->ab", gram) - projected @ projected.T
    slope = problem.alpha * problem.scale / examples * slope
    inner = 2 * projected[:, :, None, None] * projected[None, None] - gram
    # [(b c), (i j)] times [(i j), (a d)]: the only contraction that grows with the fourth power of the paths.
    left = gram.transpose(0, 2, 1, 3).reshape(paths**2, features**2)
    right = inner.transpose(1, 3, 0, 2).reshape(features**2, paths**2)
    curvature = (left @ right).reshape(paths, paths, paths, paths).transpose(2, 0, 1, 3)
    curvature = problem.alpha * problem.scale**2 / examples * curvature.reshape(paths**2, paths**2)

    surrogate = _linearised(slope, problem, factors)
    jacobian = jax.jacfwd(lambda p: order_parameter(p, factors).reshape(-1))(point)
    hessian = jax.hessian(surrogate)(point) + jacobian.T @ (curvature @ jacobian)
    value = entropy(point, problem.shares, factors) + problem.alpha * energy
    return value, jax.grad(surrogate)(point), 0.5 * (hessian + hessian.T)


def factored_derivatives(point: Float[Array, " coordinates"], problem: ActionProblem, factors: Factors):
    """Value and gradient of the action, and what its Hessian-vector products need."""
    examples = problem.labels.shape[0]
    energy, chol, solved = _energy(point, problem, factors)
    inverse = cho_solve((chol, True), jnp.eye(examples))
    seen = jnp.einsum("mn,nai->mai", inverse, problem.inputs)
    projected = jnp.einsum("m,mai->ai", solved, problem.inputs)
    slope = jnp.einsum("mai,mbi->ab", problem.inputs, seen) - projected @ projected.T
    slope = problem.alpha * problem.scale / examples * slope
    value = entropy(point, problem.shares, factors) + problem.alpha * energy
    return value, jax.grad(_linearised(slope, problem, factors))(point), Factored(point, inverse, slope)


def hessian_product(
    vector: Float[Array, " coordinates"], curvature: Factored, problem: ActionProblem, factors: Factors
) -> Float[Array, " coordinates"]:
    """The Hessian of the action times a vector, at the cost of about two gradients, in the precision of the inputs."""
    examples, inputs = problem.labels.shape[0], problem.inputs
    own, double = inputs.dtype, vector.dtype
    change, pull = _order_parameter_change(curvature.point, vector, factors)
    moved = jnp.einsum("mai,ab->mbi", inputs, change.astype(own)).reshape(examples, -1)
    kernel_change = problem.scale * (moved @ inputs.reshape(examples, -1).T).astype(double)
    solved = curvature.inverse @ problem.labels
    bent = curvature.inverse @ kernel_change @ curvature.inverse
    projected = jnp.einsum("m,mai->ai", solved.astype(own), inputs)
    drift = jnp.einsum("m,mai->ai", (bent @ problem.labels).astype(own), inputs)
    slope_change = (
        drift @ projected.T
        + projected @ drift.T
        - jnp.einsum("mai,mbi->ab", inputs, jnp.einsum("mn,nai->mai", bent.astype(own), inputs))
    ).astype(double)
    (through_kernel,) = pull(problem.alpha * problem.scale / examples * slope_change)
    surrogate = _linearised(curvature.gradient, problem, factors)
    return through_kernel + jax.jvp(jax.grad(surrogate), (curvature.point,), (vector,))[1]


def _energy(point, problem: ActionProblem, factors: Factors):
    """Energy, Cholesky factor of K + T, and (K + T)^{-1} Y."""
    examples = problem.labels.shape[0]
    factor = order_parameter_factors(point, factors)[0]
    seen = jnp.einsum("mai,ab->mbi", problem.inputs, factor).reshape(examples, -1)
    chol = jnp.linalg.cholesky(problem.scale * seen @ seen.T + problem.temperature * jnp.eye(examples))
    solved = cho_solve((chol, True), problem.labels)
    logdet = 2 * jnp.sum(jnp.log(jnp.diagonal(chol)))
    return (logdet + problem.labels @ solved) / examples, chol, solved


def _order_parameter_change(point, vector, factors: Factors):
    """The change of U along a vector, and the pull-back of a slope in U to the coordinates."""
    change = jax.jvp(lambda p: order_parameter(p, factors), (point,), (vector,))[1]
    return change, jax.vjp(lambda p: order_parameter(p, factors), point)[1]


def _linearised(slope, problem: ActionProblem, factors: Factors):
    """The entropy plus the energy linearised in U: the action's gradient, and the map's share of its Hessian."""
    return lambda p: entropy(p, problem.shares, factors) + jnp.sum(slope * order_parameter(p, factors))
