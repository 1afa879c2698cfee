r"""The action as a function of the good coordinates: the entropy of any levels and any energy, joined.

    S(x) - S_0 = L(x) - L_0 + P E / N,        -ln p(x | D) = N/2 (S - S_0) + psi(x) + const, (C1),

with $N$ the unit of width. The energy depends on the point only through what the levels make of it: $U$
along paths, the overlaps of features without.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.descent.energies import Energy
from statmech_attention.theory.kernels.regression import Regression
from statmech_attention.theory.levels.levels import Levels, entries, entropy_slope, excess_entropy, order_one


class Curvature(NamedTuple):
    """The Hessian at a point, and the energy there."""

    hessian: Float[Array, "coordinates coordinates"]
    energy: Float[Array, ""]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Action:
    r"""$S - S_0 = \mathcal L - \mathcal L_0 + P E / N$; a pytree, all of whose numbers can be mapped over.

    Of any `Energy` and any `Levels`. `weight` is $1/N$, `shares` are $N_l / N$, `widths` $N_l$. A stage of
    infinite width has a width and `finite` of 0: the energy sees it at the prior's peak.
    """

    energy: Any
    levels: Any
    weight: Float[Array, ""]
    shares: Float[Array, " stages"]
    widths: Float[Array, " stages"]
    finite: Float[Array, " stages"]

    @classmethod
    def of(cls, energy: Energy, architecture: Architecture, levels: Levels) -> "Action":
        """Join an energy to the entropy of a network."""
        widths, shares = (jnp.array(numbers, float) for numbers in (architecture.stage_widths, architecture.shares))
        finite = jnp.isfinite(widths)
        weight = jnp.asarray(1 / jnp.asarray(architecture.unit, float), float)
        return cls(energy, levels, weight, shares, jnp.where(finite, widths, 0.0), finite.astype(float))

    def at_temperature(self, temperature) -> "Action":
        """The same at another temperature."""
        return replace(self, energy=replace(self.energy, temperature=temperature))  # type: ignore[type-var]

    def seen(self, point: Float[Array, " coordinates"]) -> Float[Array, " coordinates"]:
        """The free entries that the energy sees."""
        return entries(self.finite[self.levels.stage] * point, self.levels)

    def overlap(self, point: Float[Array, " coordinates"]) -> Any:
        """What the energy sees of a point, $U$ along paths."""
        return self.levels.overlap(self.seen(point))

    def nats(self, point: Float[Array, " coordinates"]) -> Float[Array, ""]:
        """$P E$ at a point."""
        return self.energy.value(self.overlap(point))

    def regression(self, point: Float[Array, " coordinates"]) -> Regression:
        """The Gaussian process of the labels at a point."""
        return _regression(self, point)

    def value(self, point: Float[Array, " coordinates"]) -> Float[Array, ""]:
        """$S - S_0$ at a point, of which the others are derivatives."""
        return excess_entropy(point, self.shares, self.levels) + self.weight * self.nats(point)

    def held(self, point: Float[Array, " coordinates"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """The same and $P E$, quick to differentiate in the point alone."""
        nats = self.energy.held(self.overlap(point))
        return excess_entropy(point, self.shares, self.levels) + self.weight * nats, nats

    def dense(self, point: Float[Array, " coordinates"]):
        """Value, gradient and Hessian."""
        at, logs = self.seen(point), self.levels.logarithms
        nats, slope, hessian = self.levels.derivatives(self.energy, at)
        # From the free entries F to their logarithms x.
        change = self.finite[self.levels.stage] * jnp.where(logs, at, 1.0)  # dF/dx
        gradient = self.weight * change * slope
        pull, bend = entropy_slope(point, self.shares, self.levels)
        hessian = self.weight * jnp.outer(change, change) * hessian + jnp.diag(jnp.where(logs, gradient, 0.0) + bend)
        value = excess_entropy(point, self.shares, self.levels) + self.weight * nats
        return value, gradient + pull, Curvature(0.5 * (hessian + hessian.T), nats)

    def bend(self, point: Float[Array, " coordinates"]) -> Float[Array, " coordinates"]:
        """The diagonal of the entropy's Hessian, which has nothing beside it."""
        return entropy_slope(point, self.shares, self.levels)[1]

    @property
    def units(self) -> Float[np.ndarray, " coordinates"]:
        """The prior's units, in which this Hessian is one at the prior's peak."""
        return (np.asarray(self.shares)[self.levels.stage] * np.where(self.levels.logarithms, 4.0, 2.0)) ** -0.5

    def product(self, point: Float[Array, " coordinates"]):
        """The Hessian as a function of vectors; what does not depend on them is computed once."""
        return jax.linearize(jax.grad(self.value), point)[1]

    def potential(self, point: Float[Array, " coordinates"], weight=1.0) -> Float[Array, ""]:
        r"""$-\ln p$ of a point up to a constant, (C1), with labels of this weight; quick to differentiate."""
        nats = self.energy.held(self.overlap(point))
        return self._half(point, weight * nats) + order_one(point, self.levels)

    def half(self, point: Float[Array, " coordinates"]) -> Float[Array, ""]:
        r"""$\frac N2 (S - S_0)$, whose entropy vanishes in stages of infinite width."""
        return self._half(point, self.nats(point))

    def _half(self, point, nats):
        return 0.5 * (excess_entropy(point, self.widths, self.levels) + nats)


@quick_jit(level=0)
def _regression(action: Action, point) -> Regression:
    return action.energy.regression(action.overlap(point))
