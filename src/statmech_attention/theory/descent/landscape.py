r"""The action as a function of the good coordinates: the entropy of a chain and an energy, joined.

    S(x) = L(x) + P E(U(x)) / N,        -ln p(x | D) = N/2 (S - S_0) + psi(x) + const, (C1),

with $N$ the unit of width. The energy depends on the point only through $U$: its derivatives are
taken in $U$ by the energy, and carried to the coordinates by the small map point -> $U$.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.descent.energies import Energy
from statmech_attention.theory.levels import paths as coordinates
from statmech_attention.theory.levels.paths import (
    FactorShapes,
    entries,
    entropy,
    layer_shares,
    logarithms,
    order_parameter,
)


class Dense(NamedTuple):
    """The curvature at a point, and the energy there."""

    hessian: Float[Array, "coordinates coordinates"]
    energy: Float[Array, ""]


class Factored(NamedTuple):
    """What a Hessian-vector product at a point needs, and the energy there."""

    point: Float[Array, " coordinates"]
    slope: Float[Array, "paths paths"]
    known: Any
    energy: Float[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Action:
    r"""$S = \mathcal L + P E / N$ of a chain of these factors; a pytree, all of whose numbers can be mapped over.

    `weight` is $1/N$, `shares` are $N_l / N$, `widths` $N_l$. A stage of infinite width has a width
    and `finite` of 0: the energy sees it at the prior's peak.
    """

    energy: Energy
    factors: FactorShapes
    weight: Float[Array, ""]
    shares: Float[Array, " stages"]
    widths: Float[Array, " stages"]
    finite: Float[Array, " stages"]

    @classmethod
    def of(cls, energy: Energy, architecture: Architecture, factors: FactorShapes) -> "Action":
        """Join an energy to the entropy of a network."""
        widths, shares = (jnp.array(numbers, float) for numbers in (architecture.stage_widths, architecture.shares))
        finite = jnp.isfinite(widths)
        weight = jnp.asarray(1 / jnp.asarray(architecture.unit, float), float)
        return cls(energy, factors, weight, shares, jnp.where(finite, widths, 0.0), finite.astype(float))

    def at_temperature(self, temperature) -> "Action":
        """The same at another temperature."""
        return replace(self, energy=replace(self.energy, temperature=temperature))  # type: ignore[type-var]

    def seen(self, point: Float[Array, " coordinates"]) -> Float[Array, " coordinates"]:
        """The point that the energy sees."""
        return layer_shares(self.finite, self.factors) * point

    def overlap(self, point: Float[Array, " coordinates"]) -> Float[Array, "paths paths"]:
        """$U$ at a point."""
        return order_parameter(self.seen(point), self.factors)

    def nats(self, point: Float[Array, " coordinates"]) -> Float[Array, ""]:
        """$P E$ at a point."""
        return self.energy.value(self.overlap(point))

    def value(self, point: Float[Array, " coordinates"]) -> Float[Array, ""]:
        """$S$ at a point, of which the others are derivatives."""
        return entropy(point, self.shares, self.factors) + self.weight * self.nats(point)

    def dense(self, point: Float[Array, " coordinates"]):
        """Value, gradient and Hessian."""
        nats, slope, curvature = self.energy.derivatives(self.overlap(point))
        bulk, pull, bend = coordinates.entropy_derivatives(point, self.shares, self.factors)
        # From U to the free entries F, in which U is a polynomial, and from there to their logarithms x.
        slope, curvature = self.weight * slope, self.weight * curvature
        at = entries(self.seen(point), self.factors)
        jacobian, through_map = coordinates.overlap_derivatives(at, slope, self.factors)
        gradient, hessian = jacobian.T @ slope, through_map + jacobian.T @ (curvature @ jacobian)
        logs = logarithms(self.factors)
        change = layer_shares(self.finite, self.factors) * jnp.where(logs, entries(point, self.factors), 1.0)  # dF/dx
        gradient = change * gradient
        hessian = jnp.outer(change, change) * hessian + jnp.diag(jnp.where(logs, gradient, 0.0) + bend)
        value = bulk + self.weight * nats
        return value, gradient + pull, Dense(0.5 * (hessian + hessian.T), nats)

    def factored(self, point: Float[Array, " coordinates"]):
        """Value, gradient, and what products with the Hessian need."""
        nats, slope, known = self.energy.linearised(self.overlap(point))
        slope = self.weight * slope
        value = entropy(point, self.shares, self.factors) + self.weight * nats
        return value, jax.grad(self._linear(slope))(point), Factored(point, slope, known, nats)

    def product(self, vector: Float[Array, " coordinates"], curvature: Factored) -> Float[Array, " coordinates"]:
        """The Hessian times a vector, for about two gradients."""
        at, along = (curvature.point,), (vector,)
        _, change = jax.jvp(self.overlap, at, along)
        _, pull = jax.vjp(self.overlap, *at)
        (through_energy,) = pull(self.weight * self.energy.slope_change(curvature.known, change))
        _, through_map = jax.jvp(jax.grad(self._linear(curvature.slope)), at, along)
        return through_energy + through_map

    def potential(self, point: Float[Array, " coordinates"], weight=1.0) -> Float[Array, ""]:
        r"""$-\ln p$ of a point up to a constant, (C1), with labels of this weight; quick where a sampler needs it."""
        return self.half(point, weight) + coordinates.order_one(point, self.factors)

    def half(self, point: Float[Array, " coordinates"], weight=1.0) -> Float[Array, ""]:
        r"""$\frac N2 (S - S_0)$, $S_0$ the smallest entropy, which stages of infinite width have."""
        prior = coordinates.half_entropy(point, self.widths, self.factors)
        return prior + 0.5 * weight * self.energy.held(self.overlap(point))

    def _linear(self, slope):
        """The entropy and the energy linearised in U, for the gradient and the map's Hessian."""
        return lambda point: entropy(point, self.shares, self.factors) + jnp.sum(slope * self.overlap(point))
