r"""Energies: how unlikely the labels are for given order parameters, each way to compute it a class.

An energy is $P E(U)$ in nats, (12): minus twice the logarithm of the labels' density given $U$, up to
a constant. A class needs `value` alone; derivatives then come from automatic differentiation.
The two classes here know more about theirs, since the kernel is linear in $U$. For every pair
$a \le b$ of paths let $S_{ab} = c\,(Z_a Z_b^\top + Z_b Z_a^\top)$, or $c\,Z_a Z_a^\top$ for
$a = b$, with the examples $Z_a$ seen along path $a$ and $c = \sigma_0^2 / (N_0 \prod H)$. With
$R = (K + T)^{-1}$ and $v = R Y$:

    P dE/dU_i        = tr(R S_i) - v^T S_i v
    P d2E/dU_i dU_j  = 2 v^T S_i R S_j v - tr(R S_i R S_j)

`PairEnergy` stores the $S_i$, which pays with few examples; `FeatureEnergy` uses
$G = Z^\top R Z$ and $Z^\top v$ instead. With several outputs there is a row and a path for each,
see `kernel_inputs`. `ColumnEnergy` keeps $Z^\top Z$ where columns are fewer than rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.theory.kernels.regression import Regression, gaussian_nats, logdet_and_inverse

# A dense Hessian of larger matrices is in single precision.
_LARGEST_DOUBLE = 2**22  # entries
_PARTS, _MANY = 4, 256  # parts of so many rows, of which symmetric products need a half


class Slopes(NamedTuple):
    """Value, slope and curvature of an energy over the pairs $a \\le b$ of paths, as of independent numbers."""

    value: Float[Array, ""]
    slope: Float[Array, " pairs"]
    curvature: Float[Array, "pairs pairs"]


class Energy(ABC):
    """$P E(U)$ and its derivatives; a pytree, whose arrays can be differentiated and mapped over."""

    @property
    def rough(self) -> bool:
        """True if the curvature is in single precision, of which Newton's steps make nothing wrong."""
        return False

    @abstractmethod
    def value(self, overlap: Any) -> Float[Array, ""]:
        """The energy of $U$, differentiable in everything."""

    def held(self, overlap: Any) -> Float[Array, ""]:
        """The same, differentiable in $U$ alone, perhaps faster: for samplers."""
        return self.value(overlap)

    def derivatives(self, overlap: Any) -> Slopes:
        """Value, slope and curvature, for a dense Hessian."""
        first, second = np.triu_indices(len(overlap))

        def of_pairs(pairs):
            return self.value(jnp.zeros_like(overlap).at[first, second].set(pairs).at[second, first].set(pairs))

        pairs = overlap[first, second]
        return Slopes(*jax.value_and_grad(of_pairs)(pairs), jax.hessian(of_pairs)(pairs))


@dataclass(frozen=True)
class KernelEnergy(Energy):
    r"""An energy of labels with Gaussian noise.

    Rows are examples, one per output, or fewer rotations of them that carry the whole kernel.
    `count` is the number of labels; those without a row have neither inputs nor labels.
    """

    labels: Float[Array, " rows"]
    temperature: Float[Array, ""]
    count: Float[Array, ""]
    likelihood: Any  # what labels are given a kernel, see `descent.labels`; None for noise of one variance

    @abstractmethod
    def kernel(self, overlap: Any) -> Float[Array, "rows rows"]:
        """$K(U)$."""

    def regression(self, overlap: Any) -> Regression:
        """The Gaussian process of the labels given $U$."""
        return self.fitted(self.kernel(overlap))

    def fitted(self, kernel: Float[Array, "rows rows"]) -> Regression:
        """The Gaussian process of the labels given a kernel."""
        if self.likelihood is not None:
            return self.likelihood.fitted(kernel, self.temperature, self.labels)
        return Regression.of(kernel, self.temperature, self.labels)

    def of_kernel(self, kernel: Float[Array, "rows rows"]) -> Float[Array, ""]:
        """The energy of a kernel, of labels that have a row."""
        if self.likelihood is not None:
            return self.likelihood.nats(kernel, self.temperature, self.labels)
        return gaussian_nats(kernel + self.temperature * jnp.eye(len(kernel)), self.labels)

    def without_row(self, overlap: Any) -> Float[Array, ""]:
        """The contribution of labels without a row."""
        return (self.count - len(self.labels)) * jnp.log(self.temperature)

    def held(self, overlap):
        return _held_energy(overlap, self) if self.likelihood is None else self.value(overlap)

    @abstractmethod
    def along(self, weights: Float[Array, "rows rows"], change: Any) -> Float[Array, ""]:
        r"""$\mathrm{tr}(W\, dK)$ of a change of $U$, with symmetric $W$."""

    @property
    def quadratic(self) -> bool:
        """True if the energy is (12) of `regression`, whose derivatives are known."""
        return self.likelihood is None or self.likelihood.gaussian

    def value(self, overlap):
        return self.of_kernel(self.kernel(overlap)) + self.without_row(overlap)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FeatureEnergy(KernelEnergy):
    r"""The energy from the inputs $Z$; `scale` is $c$.

    Of features of tokens $K = c\, Z D Z^\top + c\, K_{rest} \otimes U_{out}$: the overlap is the pair
    $(D, U_{out})$, and `rest` what the features leave out, at its prior. Paths leave nothing out.
    """

    inputs: tuple[Float[Array, "_some features paths"], ...]  # see `in_parts`
    scale: Float[Array, ""]
    rest: Float[Array, "examples examples"] | None = None
    missing: tuple[Any, Any] | None = None  # examples without a row, and what is left out of each

    def without_row(self, overlap):
        nats = super().without_row(overlap)
        if self.missing is None:
            return nats
        examples, rest = self.missing
        noise = self.scale * rest * overlap[1] / self.temperature + jnp.eye(len(overlap[1]))
        return nats + examples * jnp.linalg.slogdet(noise)[1]

    @property
    def rough(self):
        _, features, paths = self.inputs[0].shape
        return (features * paths) ** 2 > _LARGEST_DOUBLE

    def kernel(self, overlap):
        gram, outputs = (overlap, None) if self.rest is None else overlap
        gram, others = 0.5 * (gram + gram.T), list(map(_flat, self.inputs))  # so that derivatives are symmetric too
        blocks = [[_flat(part @ gram) @ other.T for other in others[: 1 + row]] for row, part in enumerate(self.inputs)]
        seen = self.scale * _mirrored(blocks)
        return seen if self.rest is None else seen + self.scale * jnp.kron(self.rest, outputs)

    def along(self, weights, change):
        r"""By $\sum_i Z_i^\top W Z_i$, of which blocks on and below the diagonal of $W$ give a half."""
        gram, outputs = (change, None) if self.rest is None else change
        lower, half = jnp.tril(weights) - 0.5 * jnp.diag(jnp.diagonal(weights)), jnp.zeros_like(gram)
        places = list(pairwise(np.cumsum([0, *map(len, self.inputs)])))
        for row, (part, (start, end)) in enumerate(zip(self.inputs, places, strict=True)):
            others = zip(self.inputs[: 1 + row], places[: 1 + row], strict=True)
            pulled = sum(lower[start:end, first:last] @ _flat(other) for other, (first, last) in others)
            half = half + part.reshape(-1, len(gram)).T @ pulled.reshape(-1, len(gram))
        seen = self.scale * jnp.vdot(half + half.T, gram)
        return seen if self.rest is None else seen + self.scale * jnp.vdot(weights, jnp.kron(self.rest, outputs))

    def derivatives(self, overlap):
        r"""With $u = Z^\top v$ the curvature is $\sum_{ij} G_{bi,cj} (2 u_{ai} u_{dj} - G_{ai,dj})$, in all orders."""
        if not self.quadratic:
            return super().derivatives(overlap)
        regression = self.regression(overlap)
        _, features, paths = self.inputs[0].shape
        flat = _flat(jnp.concatenate(self.inputs))
        half = regression.whiten(flat)
        pulled = (regression.solve(self.labels) @ flat).reshape(features, paths)
        seen = half.reshape(-1, paths)  # over rows and features
        slope = seen.T @ seen - pulled.T @ pulled
        if self.rough:
            half, pulled = half.astype(jnp.float32), pulled.astype(jnp.float32)
        gram = (half.T @ half).reshape(features, paths, features, paths).transpose(1, 3, 0, 2)
        first, second = np.triu_indices(paths)
        orders = jnp.where(first < second, 1.0, 0.5)
        curvature = _curvature_of_pairs(gram, pulled.T).astype(flat.dtype)
        curvature = self.scale**2 * jnp.outer(orders, orders) * curvature
        nats = regression.nats + self.without_row(overlap)
        return Slopes(nats, self.scale * 2 * orders * slope[first, second], curvature)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PairEnergy(KernelEnergy):
    """The energy from the kernels $S_i$ of all pairs of paths, of which the lower triangles are stored."""

    products: Float[Array, "pairs entries"]

    def kernel(self, overlap):
        return (packed(overlap) @ self.products)[self._places]

    def along(self, weights, change):
        rows, columns = np.tril_indices(len(self.labels))
        both = weights[rows, columns] * np.where(rows == columns, 1.0, 2.0)
        return (self.products @ both) @ packed(change)

    def derivatives(self, overlap):
        if not self.quadratic:
            return super().derivatives(overlap)
        regression = self.regression(overlap)
        half = regression.whiten(jnp.eye(len(self.labels)))
        whitened_pairs = jnp.einsum("mn,knl,rl->kmr", half, self.products[:, self._places], half)
        turned = whitened_pairs @ (half @ self.labels)
        flat = whitened_pairs.reshape(len(whitened_pairs), -1)
        slope = jnp.einsum("kmm->k", whitened_pairs) - turned @ (half @ self.labels)
        nats = regression.nats + self.without_row(overlap)
        return Slopes(nats, slope, 2 * turned @ turned.T - flat @ flat.T)

    @property
    def _places(self) -> np.ndarray:
        """For every entry of a symmetric matrix its place in the lower triangle."""
        rows, columns = np.tril_indices(len(self.labels))
        places = np.zeros(2 * (len(self.labels),), dtype=np.int32)
        places[rows, columns] = places[columns, rows] = np.arange(len(rows))
        return places


def in_parts(inputs: Float[Array, "rows features paths"]) -> tuple[Float[Array, "_some features paths"], ...]:
    """Inputs of many rows in parts, so that symmetric products need not be whole."""
    return tuple(jnp.array_split(inputs, _PARTS)) if len(inputs) >= _MANY else (inputs,)


def _flat(inputs: Float[Array, "some features paths"]) -> Float[Array, "some columns"]:
    return inputs.reshape(len(inputs), -1)


def _mirrored(blocks: list[list[Array]]) -> Float[Array, "rows rows"]:
    """A symmetric matrix of its blocks on and below the diagonal."""
    rows = sum(row[0].shape[0] for row in blocks)
    wide = [jnp.concatenate(row, axis=1) for row in blocks]
    lower = jnp.concatenate([jnp.pad(row, ((0, 0), (0, rows - row.shape[1]))) for row in wide])
    return jnp.tril(lower) + jnp.tril(lower, -1).T


def pair_products(left, right) -> Iterator[Float[np.ndarray, "rows columns"]]:
    """The kernel's coefficients of every entry of $U$ on and above the diagonal, both orders of a pair together."""
    for p, q in combinations_with_replacement(range(left.shape[1]), 2):
        product = left[:, p] @ right[:, q].T
        yield product if p == q else product + left[:, q] @ right[:, p].T


def packed(overlap: Any) -> Float[Array, " pairs"]:
    """The entries of $U$ that `pair_products` are the coefficients of."""
    return overlap[np.triu_indices(overlap.shape[0])]


@jax.custom_jvp
def _held_energy(overlap: Any, energy: KernelEnergy) -> Float[Array, ""]:
    r"""The energy, differentiable in $U$ alone: $d(P E) = \mathrm{tr}(R\, dK) - v^\top dK\, v$, $dR = -R\, dK R$."""
    return energy.value(overlap)


@_held_energy.defjvp
def _held_change(primals, tangents):
    """By automatic differentiation the products with inputs, or with lower triangles, would be slower."""
    (overlap, energy), (change, _) = primals, tangents
    kernel = energy.kernel(overlap)
    logdet, inverse = logdet_and_inverse(kernel + energy.temperature * jnp.eye(len(kernel)))
    solved = inverse @ energy.labels
    beside, moved = jax.jvp(energy.without_row, (overlap,), (change,))
    slope = energy.along(inverse - jnp.outer(solved, solved), change) + moved
    return logdet + energy.labels @ solved + beside, slope


def _curvature_of_pairs(
    gram: Float[Array, "paths paths features features"], pulled: Float[Array, "paths features"]
) -> Float[Array, "pairs pairs"]:
    """The curvature over pairs of paths, summed over both orders of either pair."""
    paths, features = pulled.shape
    inner = 2 * pulled[:, None, :, None] * pulled[None, :, None, :] - gram
    first, second = np.triu_indices(paths)
    # The only contraction that grows with the fourth power of the paths: [b <= c, (i j)] times [(i j), (a d)].
    left = gram[first, second].reshape(len(first), features**2)
    sums = left @ inner.reshape(paths**2, features**2).T

    def contracted(b, c, a, d):
        """Sum over features; the blocks of both matrices are each other's transposes."""
        low, high = np.minimum(b, c), np.maximum(b, c)
        row = low * paths - low * (low - 1) // 2 + high - low
        return sums[row, np.where(b > c, d * paths + a, a * paths + d)]

    a, b, c, d = first[:, None], second[:, None], first[None], second[None]
    return contracted(b, c, a, d) + contracted(a, c, b, d) + contracted(b, d, a, c) + contracted(a, d, b, c)
