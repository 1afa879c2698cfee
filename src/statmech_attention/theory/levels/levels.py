r"""Levels: how a flat point becomes what an energy sees, and what the prior says of the point.

Whatever a network's order parameters are, in the good coordinates the free entries $F_i$ of all triangular
factors are independent under the prior: a diagonal entry is $\chi_{N_l - i} / \sqrt{N_l}$ with the number $i$ of its
column, one below it $\mathcal N(0, 1/N_l)$. A point $x$ has the logarithms of the diagonals. So the entropy of
(11) beyond its smallest value, its derivatives and $\psi$ of (C1) are the same functions of `logarithms`,
`stage` and `place`, for paths and for features of tokens.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int


class Piece(NamedTuple):
    r"""Coordinates of a stage of `Chain.stages` that lie together: logarithms first, then `others`.

    `places` has the $i$ of $\chi_{N - i}$ for every logarithm.
    """

    stage: int
    places: Int[np.ndarray, " logarithms"]
    others: int

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self.places) + self.others


class Levels(ABC):
    """A pytree that knows the coordinates of a point, and what an energy sees of it."""

    @property
    @abstractmethod
    def pieces(self) -> list[Piece]:
        """The coordinates of a point, in their order."""

    @abstractmethod
    def overlap(self, free: Float[Array, " coordinates"]) -> Any:
        """The part of the free entries $F$ that an energy sees."""

    def order_parameters(self, free: Float[Array, " coordinates"]) -> tuple[Float[Array, "..."], ...]:
        """$(U^{(1)}, .., U^{(L+1)})$ of the free entries along paths, none where there are no paths."""
        return ()

    def derivatives(self, energy: Any, free: Float[Array, " coordinates"]):
        """Value, gradient and Hessian of an energy in the free entries."""
        return differentiated(lambda free: energy.value(self.overlap(free)), free)

    @property
    def coordinates(self) -> int:
        """Number of coordinates of a point."""
        return sum(piece.size for piece in self.pieces)

    @property
    def logarithms(self) -> Bool[np.ndarray, " coordinates"]:
        """Mask of the coordinates that are logarithms."""
        return np.concatenate([np.arange(piece.size) < len(piece.places) for piece in self.pieces])

    @property
    def stage(self) -> Int[np.ndarray, " coordinates"]:
        """The number of every coordinate's stage in `Chain.stages`."""
        return np.concatenate([np.full(piece.size, piece.stage) for piece in self.pieces])

    @property
    def place(self) -> Int[np.ndarray, " coordinates"]:
        r"""The $i$ of $\chi_{N - i}$ for a logarithm, 0 for another coordinate."""
        return np.concatenate([np.pad(piece.places, (0, piece.others)) for piece in self.pieces])


def entries(point: Float[Array, " coordinates"], levels: Levels) -> Float[Array, " coordinates"]:
    """The free entries of the triangular factors: a point with the logarithms undone."""
    return jnp.where(levels.logarithms, jnp.exp(point), point)


def excess_entropy(
    point: Float[Array, " coordinates"], shares: Float[Array, " stages"], levels: Levels
) -> Float[Array, ""]:
    r"""$\sum_l \frac{N_l}{N_{max}} [|F_l|^2 - 2 \sum_i \ln F_{l,ii} - d_l]$: zero at the prior's peak."""
    terms = jnp.where(levels.logarithms, jnp.expm1(2 * point) - 2 * point, point**2)
    return shares[levels.stage] @ terms


def entropy_slope(point: Float[Array, " coordinates"], shares: Float[Array, " stages"], levels: Levels):
    """The gradient of the entropy, and its Hessian, which has nothing beside the diagonal."""
    logs, shares = levels.logarithms, shares[levels.stage]
    slope = jnp.where(logs, 2 * jnp.expm1(2 * point), 2 * point)
    return shares * slope, shares * jnp.where(logs, 4 * jnp.exp(2 * point), 2.0)


def prior_deviations(widths: Float[Array, " stages"], levels: Levels) -> Float[Array, " coordinates"]:
    """Standard deviations of the coordinates under the prior, at large widths; 1 at infinite ones."""
    widths = widths[levels.stage]
    return jnp.where(jnp.isfinite(widths), widths * jnp.where(levels.logarithms, 2.0, 1.0), 1.0) ** -0.5


def order_one(point: Float[Array, " coordinates"], levels: Levels) -> Float[Array, ""]:
    r"""$\psi = \sum_l \sum_i i \ln F_{l,ii}$, (C1): the O(1) part of $-\ln p$, beside $\frac N2 S$."""
    return jnp.asarray(levels.place, float) @ point


def differentiated(function, free: Float[Array, " coordinates"], at_once: int = 64):
    """Value, gradient and Hessian of any function, the Hessian some columns at a time to spare memory."""
    value, gradient = jax.value_and_grad(function)(free)
    _, product = jax.linearize(jax.grad(function), free)
    directions = jnp.eye(len(free))
    small = len(free) <= at_once
    hessian = jax.vmap(product)(directions) if small else jax.lax.map(product, directions, batch_size=at_once)
    return value, gradient, 0.5 * (hessian + hessian.T)
