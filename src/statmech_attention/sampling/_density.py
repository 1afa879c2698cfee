"""The posterior density of the order parameters, and Gaussians at its modes.

The kernel is linear in $U$, so that $K(U)$ and the gradient cost one product each with the kernels
of all pairs of paths, besides a Cholesky factor and an inverse. With $R = (K + T)^{-1}$ and $v = R Y$:

    d(P E) = tr(R dK) - v^T dK v,       dR = -R dK R
"""

from collections.abc import Iterator
from functools import partial
from itertools import combinations_with_replacement
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.sampling._bartlett import chain_potential
from statmech_attention.theory.coordinates import Factors, layer_shares, logarithms, order_one, order_parameter
from statmech_attention.theory.derivatives import ActionProblem, action_on, dense_hessian, is_dense, kept_pairs
from statmech_attention.theory.kernels import kernel_inputs, kernel_scale
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.regression import Regression
from statmech_attention.theory.rows import reduced
from statmech_attention.theory.trust_region import Outcome, exact_step, minimise

_MAX_STEPS = 100  # to a mode
_AT_ONCE = 16  # columns of a Hessian that are computed together


class Posterior(NamedTuple):
    """Arrays that the density depends on besides the point.

    With several outputs, every pair (example, output) is an example here, and every pair (path,
    output) a path. `products` are the scaled kernels of all pairs of paths, their lower triangles.
    `action` is the theory's problem, if its dense Hessian is the cheaper one; `dropped` is the
    number of examples that a reduced problem has rotated away.
    """

    products: Float[Array, "pairs entries"]
    labels: Float[Array, " examples"]
    temperature: Float[Array, ""]
    widths: Float[Array, " stages"]
    action: ActionProblem | None
    dropped: Float[Array, ""]


class Laplace(NamedTuple):
    r"""A Gaussian approximation at a mode: point = mode + $W y$ with nearly standard normal $y$, $W$ the `root`.

    `potential` is minus the logarithm of the unnormalised density at the mode, `logdet` is
    $\ln |\det W|$. Of several modes every array has a leading axis.
    """

    mode: Float[Array, "*modes coordinates"]
    root: Float[Array, "*modes coordinates coordinates"]
    potential: Float[Array, "*modes"]
    logdet: Float[Array, "*modes"]


def posterior_density(problem: Problem) -> Posterior:
    """The arrays of a problem's density."""
    inputs = problem.attentioned
    data = reduced(inputs, problem.labels)
    dense = is_dense("auto", data.inputs)
    scaled = np.sqrt(kernel_scale(inputs, problem.variance)) * np.asarray(kernel_inputs(inputs))
    lower = np.tril_indices(len(scaled))
    return Posterior(
        products=jnp.asarray(np.stack([product[lower] for product in pair_products(scaled, scaled)])),
        labels=problem.labels.reshape(-1),
        temperature=jnp.asarray(problem.temperature, float),
        widths=jnp.array(problem.architecture.stage_widths, float),
        action=action_on(data, kept_pairs(data.inputs, dense), problem) if dense else None,
        dropped=jnp.asarray(problem.dropped, float),
    )


def pair_products(left, right) -> Iterator[Float[np.ndarray, "rows columns"]]:
    """The kernel's coefficients of every entry of $U$ on and above the diagonal, both orders of a pair together."""
    for p, q in combinations_with_replacement(range(left.shape[1]), 2):
        product = left[:, p] @ right[:, q].T
        yield product if p == q else product + left[:, q] @ right[:, p].T


def packed(overlap: Float[Array, "paths paths"]) -> Float[Array, " pairs"]:
    """The entries of $U$ that `pair_products` are the coefficients of."""
    return overlap[np.triu_indices(overlap.shape[0])]


def potential(point: Float[Array, " coordinates"], data: Posterior, factors: Factors, weight=1.0) -> Float[Array, ""]:
    r"""$-\ln p(\text{point} | D)$ up to a constant: half of $N$ times the action, and a term of order one."""
    return half_action(point, data, factors, weight) + order_one(point, factors)


def half_action(point: Float[Array, " coordinates"], data: Posterior, factors: Factors, weight=1.0) -> Float[Array, ""]:
    r"""$\frac{N}{2} S$ with $N$ the largest width, minus its smallest value without labels, of this weight: (11)."""
    energy = label_energy(order_parameter(point, factors), data)
    return chain_potential(point, data.widths, factors) + 0.5 * weight * energy


@quick_jit
def laplace(
    data: Posterior, start: Float[Array, " coordinates"], factors: Factors, weight, precision
) -> tuple[Laplace, Array]:
    """Newton steps to a mode at this weight of the labels, the Hessian there, and whether it was reached."""
    derivatives = _own_derivatives if data.action is None else _derivatives_of_action
    # Of the gradient: the posterior's width is about the inverse root of N, its curvature N.
    tolerance = precision * jnp.sqrt(jnp.max(data.widths[factors.outer]))
    local = partial(derivatives, data=data, factors=factors, weight=weight)
    found = minimise(local, exact_step, start, tolerance, jnp.int32(_MAX_STEPS))
    values, vectors = jnp.linalg.eigh(found.curvature)
    values = jnp.maximum(values, 1e-8 * values[-1])
    root, logdet = vectors / jnp.sqrt(values)[None, :], -0.5 * jnp.sum(jnp.log(values))
    return Laplace(found.point, root, found.value, logdet), found.outcome == Outcome.CONVERGED


def _own_derivatives(point, data: Posterior, factors: Factors, weight):
    """Value, gradient and Hessian of the potential, the Hessian column by column."""
    local = partial(potential, data=data, factors=factors, weight=weight)
    return *jax.value_and_grad(local)(point), hessian(local, point)


def _derivatives_of_action(point, data: Posterior, factors: Factors, weight):
    """The same from the action's, whose Hessian is made from matrix products."""
    assert data.action is not None  # or the potential's own derivatives are taken
    problem = data.action._replace(temperature=data.temperature, alpha=weight * data.action.alpha)
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


@jax.custom_jvp
def label_energy(overlap: Float[Array, "paths paths"], data: Posterior) -> Float[Array, ""]:
    r"""$P E(U) = \ln\det(K + T) + Y^\top (K + T)^{-1} Y$, (12); differentiable in $U$ alone."""
    nats = Regression.of(kernel(overlap, data), data.temperature, data.labels).nats
    return nats + data.dropped * jnp.log(data.temperature)


@label_energy.defjvp
def _energy_change(primals, tangents):
    """By automatic differentiation the products with lower triangles would be slower."""
    (overlap, data), (change, _) = primals, tangents
    logdet, inverse = _inverse(kernel(overlap, data), data.temperature)
    solved = inverse @ data.labels
    rows, columns = np.tril_indices(len(solved))
    slope = (inverse - jnp.outer(solved, solved))[rows, columns] * np.where(rows == columns, 1.0, 2.0)
    nats = logdet + data.labels @ solved + data.dropped * jnp.log(data.temperature)
    return nats, (data.products @ slope) @ packed(change)


def kernel(overlap: Float[Array, "paths paths"], data: Posterior) -> Float[Array, "examples examples"]:
    """$K(U)$; $U$ symmetric."""
    examples = len(data.labels)
    rows, columns = np.tril_indices(examples)
    places = np.zeros((examples, examples), dtype=np.int32)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    return (packed(overlap) @ data.products)[places]


@jax.custom_jvp
def _inverse(kernel: Float[Array, "examples examples"], temperature):
    r"""$\ln\det(K + T)$ and $R$; differentiable in the kernel alone."""
    eye = jnp.eye(len(kernel))
    fit = Regression(jax.lax.linalg.cholesky(kernel + temperature * eye, symmetrize_input=False), jnp.zeros(len(eye)))
    return fit.logdet, fit.solve(eye)


@_inverse.defjvp
def _inverse_change(primals, tangents):
    logdet, inverse = _inverse(*primals)
    change, _ = tangents
    return (logdet, inverse), (jnp.sum(inverse * change), -inverse @ change @ inverse)
