r"""The energy of a projected network from products of columns, where rows are more than columns.

With the Gram matrix $D = F F^\top$ of all components, those that are free and those that stay at their prior, the
noise $\tau = T + c\, U_{out} \rho$ with what is left out of every example, $\rho$, and $z = Z^\top Y$,

    B = tau + F^T Z^T Z F,        q = F^T z,
    P E = (P - m) ln tau + ln det B + (|Y|^2 - q^T B^{-1} q) / tau,                                     (Z4)

for $m$ columns, $F$ the same for all features. $Z^\top Z$ is found once. Since $F^\top Z^\top Z = (B - \tau) F^{-1}$
no other product of this size is needed. With $w = B^{-1} q$, and sums over the blocks of the features,

    P dE/dD = F^{-T} (N_0 - sum_i [tau B^{-1} + w w^T]_ii) F^{-1},
    P dE/dtau = (P - m) / tau + tr B^{-1} - (|Y|^2 - q^T w) / tau^2 + w^T w / tau.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax.linalg import triangular_solve
from jax.scipy.linalg import block_diag, solve_triangular
from jaxtyping import Array, Float

from statmech_attention.theory.descent.energies import Energy, FeatureEnergy

_ROWS = 512  # of a triangular matrix that is inverted at once


class Products(NamedTuple):
    """$Z^\\top Z$, $Z^\\top Y$ and $|Y|^2$; columns are pairs (feature, component)."""

    columns: Float[Array, "features components features components"]
    labels: Float[Array, "features components"]
    squares: Float[Array, ""]

    @classmethod
    def of(cls, values: Float[Array, "rows features components"], labels: Float[Array, " rows"]) -> "Products":
        """The products of all rows."""
        flat, shape = values.reshape(len(values), -1), values.shape[1:]
        return cls((flat.T @ flat).reshape(*shape, *shape), (labels @ flat).reshape(shape), labels @ labels)

    def turned(self, basis: Float[Array, "components components"]) -> "Products":
        """The same for other components."""
        half = (self.columns @ basis).swapaxes(0, 2).swapaxes(1, 3) @ basis
        return Products(half, self.labels @ basis, self.squares)


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["products", "temperature", "count", "scale", "left_out"],
    meta_fields=["free"],
)
@dataclass(frozen=True)
class ColumnEnergy(Energy):
    """(Z4) of one output; the overlap is that of a `FeatureEnergy`, and the first components are `free`."""

    products: Products
    temperature: Float[Array, ""]
    count: Float[Array, ""]
    scale: Float[Array, ""]
    left_out: Float[Array, ""]
    free: int

    @classmethod
    def of(
        cls, energy: FeatureEnergy, products: Products, columns: Float[np.ndarray, "components free"]
    ) -> "ColumnEnergy":
        """The same energy, whose features are orthonormal `columns` of components."""
        free, (_, left_out) = columns.shape[1], energy.missing or (0.0, 0.0)
        beside = np.linalg.qr(columns, mode="complete")[0][:, free:]
        turned = products.turned(jnp.asarray(np.concatenate([columns, beside], axis=1)))
        return cls(turned, energy.temperature, energy.count, energy.scale, jnp.asarray(left_out, float), free)

    def value(self, overlap):
        return _nats(overlap, self)


@jax.custom_jvp
def _nats(overlap: Any, energy: ColumnEnergy) -> Float[Array, ""]:
    """The energy, differentiable in the overlap alone."""
    return _nats_and_slopes(overlap, energy)[0]


@_nats.defjvp
def _change(primals, tangents):
    nats, slopes = _nats_and_slopes(*primals)
    return nats, sum(map(jnp.vdot, slopes, tangents[0]))


def _nats_and_slopes(overlap, energy: ColumnEnergy):
    """(Z4), and its derivatives in $D_0$ of the free components and in $U$ of the output."""
    gram, top = overlap
    (features, components, *_), free = energy.products.columns.shape, energy.free
    columns, unfelt = features * components, len(gram) - free
    moved = block_diag(gram[:free, :free], top[0, 0] * jnp.eye(components - free))
    root = jnp.linalg.cholesky(energy.scale * moved)
    noise = energy.temperature + energy.scale * energy.left_out * top[0, 0]
    half = energy.products.columns @ root  # symmetric under an exchange of both columns
    seen = (half.reshape(features, components, -1).swapaxes(1, 2) @ root).swapaxes(1, 2)
    matrix = noise * jnp.eye(columns) + seen.reshape(columns, columns)
    pulled = (energy.products.labels @ root).reshape(-1)
    factor = jax.lax.linalg.cholesky(matrix, symmetrize_input=False)
    inverse = _inverse(factor)
    solved = (inverse @ pulled) @ inverse
    blocks = inverse.reshape(-1, components).T @ inverse.reshape(-1, components)
    beside, own = energy.count - columns, solved.reshape(features, components)
    residue = energy.products.squares - pulled @ solved
    nats = beside * jnp.log(noise) + 2 * jnp.sum(jnp.log(jnp.diagonal(factor))) + residue / noise
    inner = features * jnp.eye(components) - noise * blocks - own.T @ own
    whole = solve_triangular(root, solve_triangular(root, inner, lower=True, trans=1).T, lower=True, trans=1)
    of_noise = beside / noise + jnp.trace(blocks) - residue / noise**2 + solved @ solved / noise
    of_top = jnp.trace(whole[free:, free:]) + energy.left_out * of_noise
    of_gram = jnp.pad(whole[:free, :free], (0, unfelt))
    return nats, (energy.scale * of_gram, energy.scale * of_top.reshape(1, 1))


def _inverse(lower: Float[Array, "rows rows"]) -> Float[Array, "rows rows"]:
    """The inverse of a triangular matrix by halves, without products with its zeros."""
    rows = len(lower)
    if rows <= _ROWS:
        return solve_triangular(lower, jnp.eye(rows), lower=True)
    half = rows // 2
    first, beside, last = lower[:half, :half], lower[half:, :half], lower[half:, half:]
    below = triangular_solve(last, triangular_solve(first, beside, lower=True), left_side=True, lower=True)
    return jnp.block([[_inverse(first), jnp.zeros((half, rows - half))], [-below, _inverse(last)]])
