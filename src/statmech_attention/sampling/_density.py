"""The posterior density of the order parameters, and the Gaussian at its mode.

The kernel is linear in $U$. If the pairs' kernels fit into memory, $K(U)$ and the gradient cost one
matrix product each, shared by all chains, besides a Cholesky factor and an inverse per chain. With
$R = (K + T)^{-1}$ and $v = R Y$:

    d(P E) = tr(R dK) - v^T dK v,       dR = -R dK R
"""

from functools import partial
from itertools import combinations_with_replacement
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.sampling._bartlett import chain_potential
from statmech_attention.theory.coordinates import (
    Factors,
    layer_shares,
    logarithms,
    order_one,
    order_parameter,
)
from statmech_attention.theory.derivatives import ActionProblem, action_on, dense_hessian, is_dense, kept_pairs
from statmech_attention.theory.kernels import kernel_inputs, kernel_scale
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.regression import Regression
from statmech_attention.theory.rows import reduced
from statmech_attention.theory.trust_region import exact_step, minimise

LARGEST_PRODUCTS = 2**26  # entries of the pairs' kernels: half a gigabyte
_MAX_STEPS = 100  # to the mode
_AT_ONCE = 16  # columns of a Hessian that are computed together


class Posterior(NamedTuple):
    """Arrays that the density depends on besides the point; one of `products` and `inputs` is None.

    With several outputs, every pair (example, output) is an example here, and every pair (path,
    output) a path. `products` are the scaled kernels of all pairs of paths; `inputs` are scaled so
    that the kernel is their product. `action` is the theory's problem, if its dense Hessian is the
    cheaper one; `beyond` is the number of examples that a reduced problem has rotated away.
    """

    products: Float[Array, "pairs entries"] | None
    inputs: Float[Array, "examples paths features"] | None
    labels: Float[Array, " examples"]
    temperature: Float[Array, ""]
    widths: Float[Array, " stages"]
    action: ActionProblem | None
    beyond: Float[Array, ""] | None


class Laplace(NamedTuple):
    r"""A Gaussian approximation of the posterior: point = mode + $W y$ with nearly standard normal $y$, $W$ the `root`.

    `potential` is minus the logarithm of the unnormalised density at the mode, `logdet` is
    $\ln |\det W|$.
    """

    mode: Float[Array, " coordinates"]
    root: Float[Array, "coordinates coordinates"]
    potential: Float[Array, ""]
    logdet: Float[Array, ""]


def posterior_density(problem: Problem) -> Posterior:
    """The density's data, with the pairs' kernels where they fit."""
    inputs = problem.attentioned
    data = reduced(inputs, problem.labels)
    dense = is_dense("auto", data.inputs)
    action = action_on(data, kept_pairs(data.inputs, dense), problem) if dense else None
    scaled = np.sqrt(kernel_scale(inputs, problem.variance)) * np.asarray(kernel_inputs(inputs))
    widths = jnp.array(problem.architecture.stage_widths, float)
    beyond = None if problem.count is None else jnp.asarray(problem.dropped, float)
    rest = (problem.labels.reshape(-1), jnp.asarray(problem.temperature, float), widths, action, beyond)
    examples, paths, _ = scaled.shape
    if paths * (paths + 1) // 2 * examples**2 > LARGEST_PRODUCTS:
        return Posterior(None, jnp.asarray(scaled), *rest)
    return Posterior(jnp.asarray(pair_products(scaled, scaled)), None, *rest)


def pair_products(left, right) -> Float[np.ndarray, "pairs entries"]:
    """The kernel's coefficients of all entries of $U$ on and above the diagonal, both orders of a pair together."""
    rows = []
    for p, q in combinations_with_replacement(range(left.shape[1]), 2):
        product = left[:, p] @ right[:, q].T
        rows.append((product if p == q else product + left[:, q] @ right[:, p].T).ravel())
    return np.stack(rows)


def packed(overlap: Float[Array, "paths paths"]) -> Float[Array, " pairs"]:
    """The entries of $U$ that `pair_products` are the coefficients of."""
    return overlap[np.triu_indices(overlap.shape[0])]


def potential(point: Float[Array, " coordinates"], data: Posterior, factors: Factors) -> Float[Array, ""]:
    r"""$-\ln p(\text{point} | D)$ up to a constant: half of $N$ times the action, and a term of order one."""
    return half_action(point, data, factors) + order_one(point, factors)


def half_action(point: Float[Array, " coordinates"], data: Posterior, factors: Factors) -> Float[Array, ""]:
    r"""$\frac{N}{2} S$ with $N$ the largest width, minus its smallest value without labels: (11)."""
    return chain_potential(point, data.widths, factors) + 0.5 * label_energy(order_parameter(point, factors), data)


@jax.jit
def laplace(data: Posterior, start: Float[Array, " coordinates"], factors: Factors) -> Laplace:
    """Newton steps to the mode, and the Hessian there."""
    derivatives = _own_derivatives if data.action is None else _derivatives_of_action
    # Of the order of the posterior's own width, which is the inverse root of N, this is nothing.
    tolerance = 1e-6 * jnp.sqrt(jnp.max(data.widths[factors.outer]))
    local = partial(derivatives, data=data, factors=factors)
    found = minimise(local, exact_step, start, tolerance, jnp.int32(_MAX_STEPS))
    values, vectors = jnp.linalg.eigh(found.curvature)
    values = jnp.maximum(values, 1e-8 * values[-1])
    return Laplace(found.point, vectors / jnp.sqrt(values)[None, :], found.value, -0.5 * jnp.sum(jnp.log(values)))


def _own_derivatives(point, data: Posterior, factors: Factors):
    """Value, gradient and Hessian of the potential, the Hessian column by column."""
    value, gradient = jax.value_and_grad(potential)(point, data, factors)
    return value, gradient, hessian(lambda p: potential(p, data, factors), point)


def _derivatives_of_action(point, data: Posterior, factors: Factors):
    """The same from the action's, whose Hessian is made from matrix products."""
    assert data.action is not None  # or the potential's own derivatives are taken
    problem = data.action._replace(temperature=data.temperature)
    value, gradient, curvature = dense_hessian(point, problem, factors)
    half = 0.5 * jnp.max(data.widths[factors.outer])
    least = jnp.sum(layer_shares(problem.shares, factors) * logarithms(factors))
    beside, slope = jax.value_and_grad(order_one)(point, factors)
    return half * (value - least) + beside, half * gradient + slope, half * curvature.hessian


def hessian(function, point: Float[Array, " coordinates"]) -> Float[Array, "coordinates coordinates"]:
    """Second derivatives, a few columns at a time to spare memory."""
    _, product = jax.linearize(jax.grad(function), point)
    directions = jnp.eye(point.shape[0])
    small = point.shape[0] <= _AT_ONCE
    matrix = jax.vmap(product)(directions) if small else jax.lax.map(product, directions, batch_size=_AT_ONCE)
    return 0.5 * (matrix + matrix.T)


def label_energy(overlap: Float[Array, "paths paths"], data: Posterior) -> Float[Array, ""]:
    r"""$P E(U) = \ln\det(K + T) + Y^\top (K + T)^{-1} Y$, (12)."""
    nats, _ = _nats_and_inverse(kernel(overlap, data), data)
    # Where the kernel of a reduced problem vanishes, K + T is T.
    return nats if data.beyond is None else nats + data.beyond * jnp.log(data.temperature)


def kernel(overlap: Float[Array, "paths paths"], data: Posterior) -> Float[Array, "examples examples"]:
    """$K(U)$; $U$ symmetric."""
    examples = data.labels.shape[0]
    if data.products is not None:
        return (packed(overlap) @ data.products).reshape(examples, examples)
    assert data.inputs is not None  # one of the two is there
    weighted = jnp.einsum("eai,ab->ebi", data.inputs, overlap)
    return weighted.reshape(examples, -1) @ data.inputs.reshape(examples, -1).T


@jax.custom_jvp
def _nats_and_inverse(kernel: Float[Array, "examples examples"], data: Posterior):
    """$P E$ of a kernel matrix, and $R$; differentiable in the kernel alone."""
    fit = Regression.of(kernel, data.temperature, data.labels)
    return fit.nats, fit.solve(jnp.eye(len(data.labels)))


@_nats_and_inverse.defjvp
def _change(primals, tangents):
    nats, inverse = _nats_and_inverse(*primals)
    change, solved = tangents[0], inverse @ primals[1].labels
    slope = inverse - jnp.outer(solved, solved)
    return (nats, inverse), (jnp.sum(slope * change), -inverse @ change @ inverse)
