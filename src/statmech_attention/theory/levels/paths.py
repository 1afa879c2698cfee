r"""The good coordinates of a chain's order parameters: triangular factors with the prior's isotropy.

$U^{(l)} = A_l A_l^\top$, $A_l = (M_l \otimes A_{l+1}) F_l$ with the mixing $M_l$ of the layer's
kind and a lower triangular $F_l$, the kept rows of which are $[I\ 0]$; see
`statmech_attention.layers.kind`. For layers of heads $M_l = \sigma_l I$. The entropy falls apart
into independent layers, $|F_l|^2 - 2 \sum_i \ln F_{l,ii}$ over the rows that are free. A point is a
flat vector: for $l = 1..L+1$ the logarithms of the diagonal of $F_l$, then what lies below it row
by row, both without the kept rows. A layer of narrow heads has a second stage above, the inner one,
with a factor $F_h$ for every head: after the coordinates of $F_l$ come those of all $F_h$.

The way back is $F_l F_l^\top = B^+ U^{(l)} B^{+\top}$, from above, with $B = M_l \otimes A_{l+1}$.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.layers.chains import Chain
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.kernels.of_paths import check_semi_definite
from statmech_attention.theory.levels.levels import Levels, Piece, entries

_LARGEST_MISFIT = 1e-6  # of order parameters to their chain, relative


class Triangles(NamedTuple):
    """The shape of a stage's factors: how many side by side, one or that of an inner stage's value matrices; of each
    its rows, columns, and kept rows.
    """

    blocks: int
    size: int
    rank: int
    kept: int

    @property
    def diagonal(self) -> int:
        """Number of free entries on the diagonals of all of them."""
        return self.blocks * (self.rank - self.kept)

    @property
    def below(self) -> int:
        """Number of free entries below the diagonals."""
        size, rank, kept = self.size, self.rank, self.kept
        return self.blocks * (size * rank - rank * (rank + 1) // 2 - kept * (kept - 1) // 2)

    @property
    def free(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Free places of each, in a point's order: those on the diagonal; rows and columns of those below it."""
        rows, columns = np.tril_indices(self.size, -1, self.rank)
        free = rows >= self.kept
        return np.arange(self.kept, self.rank), rows[free], columns[free]


@partial(jax.tree_util.register_dataclass, data_fields=["variances"], meta_fields=["chain", "shapes"])
@dataclass(frozen=True)
class PathLevels(Levels):
    """Shapes of the factors of every stage, and the prior variances.

    Shapes decide what is compiled; the variances, of the projection and then of every stage, are
    arguments like any other.
    """

    chain: Chain
    variances: tuple
    shapes: tuple[Triangles, ...]

    @property
    def pieces(self) -> list[Piece]:
        return [
            Piece(stage, np.tile(np.arange(one.kept, one.rank), one.blocks), one.below)
            for stage, one in enumerate(self.shapes)
        ]

    def overlap(self, free: Float[Array, " coordinates"]) -> Float[Array, "paths paths"]:
        """$U = U^{(1)}$ of the free entries."""
        factor, *_ = factors_of_entries(free, self)
        return factor @ factor.T

    def order_parameters(self, free: Float[Array, " coordinates"]) -> tuple[Float[Array, "..."], ...]:
        """$(U^{(1)}, .., U^{(L+1)})$ of the free entries, as in `Solution.order_parameters`."""
        return overlaps_of(factors_of_entries(free, self), self)

    def derivatives(self, energy, free: Float[Array, " coordinates"]):
        """Value, gradient and Hessian of an energy in the free entries, in which $U$ is a polynomial."""
        nats, slope, curvature = energy.derivatives(self.overlap(free))
        jacobian, through_map = overlap_derivatives(free, slope, self)
        return nats, jacobian.T @ slope, through_map + jacobian.T @ (curvature @ jacobian)

    def scaled(self, stage: int, seeds: Float[Array, "seeds rows columns"]):
        r"""The seeds of a stage times $\sigma_l$, but for a kept one."""
        _, kind, inner = self.chain.stages[stage]
        scaled = jnp.sqrt(self.variances[1 + stage]) * seeds
        return jnp.concatenate([seeds[:1], scaled[1:]]) if kind.keeps and not inner else scaled


def full_rank(architecture: Architecture) -> PathLevels:
    """Shapes of the factors where no width is short of columns, as in the action."""
    return factor_shapes(architecture, (math.inf,) * len(architecture.chain.stages))


def least_entropy(architecture: Architecture) -> Float[Array, "*batch"]:
    r"""$\mathcal L_0 = \sum_l d_l N_l / N_{max}$, the smallest entropy (11), for any number of paths."""
    diagonals = np.array([one.diagonal for one in full_rank(architecture).shapes], float)
    return jnp.tensordot(diagonals, jnp.stack(jnp.broadcast_arrays(*map(jnp.asarray, architecture.shares))), axes=1)


def factor_shapes(architecture: Architecture, most) -> PathLevels:
    """Shapes of the factors with `most` columns at most, a number per stage."""
    chain = architecture.chain.skeleton
    shapes = list[Triangles]()
    above = seeds = 1  # columns of the factor above, and of what becomes of it in an inner stage
    for (_, kind, inner), columns in zip(reversed(chain.stages), reversed(most), strict=True):
        kept = above if kind.keeps and not inner else 0
        size = above if inner else kept + kind.value_matrices * seeds
        seeds = min(columns, size)
        above = above if inner else seeds
        shapes.insert(0, Triangles(kind.value_matrices if inner else 1, size, seeds, kept))
    return PathLevels(chain, architecture.stage_variances, tuple(shapes))


def factors_of_entries(free: Float[Array, " coordinates"], factors: PathLevels) -> list:
    r"""The factors $A_1, .., A_{L+1}$, multilinear in the free entries of the stages."""
    chain = [jnp.ones((1, 1))]
    for stage, triangle in reversed(list(enumerate(triangles(free, factors)))):
        chain.insert(0, branch_rows(stage, chain, factors) @ triangle)
    return chain[:-1]


def triangles(free: Float[Array, " coordinates"], factors: PathLevels) -> list[Float[Array, "*blocks rows columns"]]:
    """The triangular factors $F_1, .., F_{L+1}$ of the free entries; an inner stage has one for each block."""
    triangular, start = [], 0
    for stage, shape in zip(factors.chain.stages, factors.shapes, strict=True):
        diagonal, rows, columns = shape.free
        places = np.zeros((shape.blocks, shape.size, shape.rank), int)
        places[:, diagonal, diagonal] = start + np.arange(shape.diagonal).reshape(shape.blocks, -1)
        places[:, rows, columns] = start + shape.diagonal + np.arange(shape.below).reshape(shape.blocks, -1)
        start += shape.diagonal + shape.below
        is_free = np.tri(shape.size, shape.rank, dtype=bool) & (np.arange(shape.size) >= shape.kept)[:, None]
        # Kept rows are [I 0], and nothing stands above the diagonal: both as in the identity.
        blockwise = jnp.where(is_free, free[places], np.eye(shape.size, shape.rank))
        triangular.append(blockwise if stage.inner else blockwise[0])
    return triangular


def branch_rows(stage: int, above: list, factors: PathLevels) -> Float[Array, "*one branches seeds"]:
    r"""Left factor of $F$: $M_l \otimes A_{l+1}$ with the deviations of the values, if there is no inner stage."""
    _, kind, inner = factors.chain.stages[stage]
    if inner:
        return factors.scaled(stage, above[0][None])
    deviations = factors.scaled(stage, jnp.ones((kind.seeds, 1, 1))).reshape(-1)
    mixing = kind.mixing(1.0) * deviations[None, :]
    if kind.inner is None:
        return jnp.kron(mixing, above[0])
    blocks, whole = above[:2]
    seeds = jnp.einsum("bs,spr->bpsr", mixing[:, kind.keeps :], blocks).reshape(len(mixing) * len(whole), -1)
    return jnp.concatenate([jnp.kron(mixing[:, : kind.keeps], whole), seeds], axis=1) if kind.keeps else seeds


def overlap_derivatives(free: Float[Array, " coordinates"], slope: Float[Array, " pairs"], factors: PathLevels):
    r"""The Jacobian of $U$, of its pairs $a \le b$, in the free entries, and the Hessian of `slope` times $U$.

    $U = B F_1 F_1^\top B^\top$ with $B$ from `branch_rows`, which depends on the few entries of the
    layers above alone. A free entry $(i, j)$ of $F_1$ changes $A = B F_1$ by column $i$ of $B$ in
    column $j$, so all its derivatives are products:

        dU_ab = B_ai A_bj + A_aj B_bi,      d2 tr(W U) = 2 (B^T W B)_{ii'} delta_{jj'}.

    Automatic differentiation is left with $B$ alone.
    """
    diagonal, below_rows, below_columns = factors.shapes[0].free
    rows, columns = np.concatenate([diagonal, below_rows]), np.concatenate([diagonal, below_columns])
    lowest, others = jnp.split(free, [len(rows)])  # entries of F_1, and of all layers above
    triangle, *_ = triangles(free, factors)  # F_1: seeds, columns

    def branches(others):
        _, *above = factors_of_entries(jnp.concatenate([lowest, others]), factors)
        return branch_rows(0, above, factors)

    base = branches(others)  # B: paths, seeds
    base_change = jax.jacfwd(branches)(others)  # paths, seeds, others
    factor = base @ triangle  # A: paths, columns
    factor_change = jnp.einsum("asn,sr->arn", base_change, triangle)  # paths, columns, others

    a, b = np.triu_indices(len(factor))
    left, right = base[:, rows], factor[:, columns]  # B_ai and A_aj: paths, lowest
    from_lowest = left[a] * right[b] + right[a] * left[b]  # pairs, lowest
    moved = jnp.einsum("arn,br->abn", factor_change, factor)  # paths, paths, others
    from_others = moved[a, b] + moved[b, a]  # pairs, others
    jacobian = jnp.concatenate([from_lowest, from_others], axis=1)

    # W has half of a pair's slope for either order of the pair.
    upper = jnp.zeros((len(factor), len(factor))).at[a, b].set(0.5 * slope)
    weights = 2 * (upper + upper.T)  # 2 W: paths, paths
    pulled = weights @ base  # paths, seeds
    same_column = columns[:, None] == columns[None, :]
    among_lowest = jnp.where(same_column, (base.T @ pulled)[rows[:, None], rows[None, :]], 0.0)
    across = jnp.einsum("as,arn->srn", pulled, factor_change)  # seeds, columns, others
    across += jnp.einsum("asn,ar->srn", base_change, weights @ factor)
    across = across[rows, columns]  # lowest, others
    # d2 tr(W A A^T) has two derivatives of A, one each, and both of B with A left as it is.
    weighted_change = jnp.einsum("ab,brm->arm", weights, factor_change)
    among_others = jnp.einsum("arn,arm->nm", factor_change, weighted_change)
    pull = weights @ factor @ triangle.T  # on B: paths, seeds
    among_others += jax.jacfwd(jax.grad(lambda others: jnp.sum(pull * branches(others))))(others)
    return jacobian, jnp.block([[among_lowest, across], [across.T, among_others]])


@jax.jit
def order_parameters(point: Float[Array, " coordinates"], factors: PathLevels) -> tuple[Float[Array, "..."], ...]:
    """$(U^{(1)}, .., U^{(L+1)})$ at a point, as in `Solution.order_parameters`."""
    return factors.order_parameters(entries(point, factors))


def overlaps_of(chain: list, factors: PathLevels) -> tuple[Float[Array, "..."], ...]:
    r"""The order parameters $A_l A_l^\top$ of their factors, the last a scalar for one output."""
    overlaps = [factor @ factor.mT for factor in chain]
    return (*overlaps[:-1], overlaps[-1].reshape(2 * factors.chain.readout.axes))


def point_of(order_parameters, factors: PathLevels, name: str = "order_parameters") -> Float[Array, " coordinates"]:
    """The good coordinates of given order parameters, called `name`; the inverse of `order_parameters`."""
    overlaps = _checked(order_parameters, factors, name)
    point, misfits = _point_and_misfits(overlaps, factors)
    if checks.concrete(misfits):
        # From above: a fault there spoils all below.
        for number, misfit in reversed(list(enumerate(np.asarray(misfits)))):
            if not misfit < _LARGEST_MISFIT:
                wanted = "one of a network of these layers" if np.isfinite(misfit) else "a positive definite matrix"
                raise ValueError(f"{name}[{number}]: wanted {wanted}, got another {factors.chain.stages[number].name}.")
    return point


@quick_jit()
def _point_and_misfits(overlaps: list, factors: PathLevels):
    """The point of order parameters, and how far those at the point are from each of them, relative to its size."""
    above, parts, misfits = [jnp.ones((1, 1))], list[Array](), list[Array]()
    for stage, overlap in reversed(list(enumerate(overlaps))):
        branches = branch_rows(stage, above, factors)
        orthogonal, triangle = jnp.linalg.qr(jnp.broadcast_to(branches, overlap.shape[:-2] + branches.shape[-2:]))
        half = solve_triangular(triangle, orthogonal.mT @ overlap)
        factor = jnp.linalg.cholesky(solve_triangular(triangle, orthogonal.mT @ half.mT))
        above.insert(0, orthogonal @ (triangle @ factor))
        misfits.insert(0, jnp.max(jnp.abs(above[0] @ above[0].mT - overlap)) / jnp.max(jnp.abs(overlap)))
        diagonal, rows, columns = factors.shapes[stage].free
        logs, below = jnp.log(factor[..., diagonal, diagonal]), factor[..., rows, columns]
        parts = [logs.reshape(-1), below.reshape(-1), *parts]
    return jnp.concatenate(parts), jnp.stack(misfits)


def _checked(order_parameters, factors: PathLevels, given: str) -> list:
    """Validate types, sizes and symmetry; return the order parameters as matrices."""
    partial, outputs = factors.chain.partial_paths, factors.chain.readout.axes
    names = ", ".join(stage.name for stage in factors.chain.stages)
    if not isinstance(order_parameters, (tuple, list)) or len(order_parameters) != len(factors.chain.stages):
        raise ValueError(f"{given}: wanted a tuple of {len(factors.chain.stages)}, {names}, got another object.")
    overlaps = []
    for number, (value, stage) in enumerate(zip(order_parameters, factors.chain.stages, strict=True)):
        name, size = f"{given}[{number}]", partial[stage.place + stage.inner]
        if stage.place == len(partial) - 1 and not outputs:
            value = checks.array(name, value, "", double=True)[None, None]
        elif stage.inner:
            value = checks.array(name, value, "heads paths paths", double=True)
        else:
            value = checks.array(name, value, "paths paths", double=True)
        shape = (stage.kind.value_matrices, size, size) if stage.inner else (size, size)
        if value.shape != shape:
            raise ValueError(f"{name}: wanted {stage.name} of shape {shape}, got {value.shape}.")
        check_semi_definite(name, value)
        overlaps.append(value)
    return overlaps
