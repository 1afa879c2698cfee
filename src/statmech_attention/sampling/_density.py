"""The posterior density of the order parameters, and Gaussians at its modes."""

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.theory.coordinates import FactorShapes, entropy, order_one
from statmech_attention.theory.corrections import hessian
from statmech_attention.theory.energies import PairEnergy
from statmech_attention.theory.landscape import Action
from statmech_attention.theory.prepared import all_pairs, prepared
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.trust_region import Outcome, exact_step, minimise

_MAX_STEPS = 100  # to a mode


class Posterior(NamedTuple):
    """The action of which the density is made, and the solver's, if its dense Hessian is the cheaper one.

    The first has the kernels of all pairs of paths, of the problem's own rows.
    """

    action: Action
    search: Action | None

    @property
    def energy(self) -> PairEnergy:
        """The labels' energy in the action."""
        assert isinstance(self.action.energy, PairEnergy)
        return self.action.energy


class Laplace(NamedTuple):
    r"""A Gaussian approximation at a mode: point = mode + $W y$ with nearly standard normal $y$, $W$ the `root`.

    `potential` is minus the logarithm of the unnormalised density at the mode, `logdet` is
    $\ln |\det W|$. Of several modes every array has a leading axis.
    """

    mode: Float[Array, "*modes coordinates"]
    root: Float[Array, "*modes coordinates coordinates"]
    potential: Float[Array, "*modes"]
    logdet: Float[Array, "*modes"]


def posterior_density(problem: Problem, factors: FactorShapes) -> Posterior:
    """The density of a problem over points of these factors."""
    search, dense = prepared(problem, "auto")
    action = Action.of(all_pairs(problem), problem.architecture, factors)
    return Posterior(action, replace(search, factors=factors) if dense else None)


@quick_jit()
def laplace(data: Posterior, start: Float[Array, " coordinates"], weight, precision) -> tuple[Laplace, Array]:
    """Newton steps to a mode at this weight of the labels, the Hessian there, and whether it was reached."""
    derivatives = _own_derivatives if data.search is None else _derivatives_of_search
    # Of the gradient: the posterior's width is about the inverse root of N, its curvature N.
    tolerance = precision * jnp.sqrt(jnp.max(data.action.widths[data.action.factors.outer]))
    minimum = minimise(
        partial(derivatives, data=data, weight=weight), exact_step, start, tolerance, jnp.int32(_MAX_STEPS)
    )
    values, vectors = jnp.linalg.eigh(minimum.curvature)
    values = jnp.maximum(values, 1e-8 * values[-1])
    root, logdet = vectors / jnp.sqrt(values)[None, :], -0.5 * jnp.sum(jnp.log(values))
    return Laplace(minimum.point, root, minimum.value, logdet), minimum.outcome == Outcome.CONVERGED


def _own_derivatives(point, data: Posterior, weight):
    """Value, gradient and Hessian of the potential, the Hessian column by column."""
    local = partial(data.action.potential, weight=weight)
    return *jax.value_and_grad(local)(point), hessian(local, point)


def _derivatives_of_search(point, data: Posterior, weight):
    """The same from the solver's action, whose Hessian is made from matrix products."""
    assert data.search is not None  # or the potential's own derivatives are taken
    search = replace(data.search, weight=weight * data.search.weight)
    value, gradient, curvature = search.dense(point)
    least = entropy(jnp.zeros_like(point), search.shares, search.factors)
    beside, slope = jax.value_and_grad(order_one)(point, search.factors)
    half = 0.5 / data.search.weight
    return half * (value - least) + beside, half * gradient + slope, half * curvature.hessian
