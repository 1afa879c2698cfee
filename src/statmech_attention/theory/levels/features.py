r"""Levels of features: the order parameters of tokens, for any number of paths.

With the features of `levels.ranking`, $D_l = d d^\top / N$ above a layer and $U = \sigma_a^2 F F^\top$ of
the outputs, the layer's values bring

    C = sigma_l^2 (sum_s A_s D A_s^T + rest (x) U),      Psi = C c chol(c^T C c)^{-T},

where `rest` is what the features above leave out, at its prior. Beside a skip with $A_0$, let
$\Phi = \mathrm{chol}(D)$, the features above in orthonormal coordinates $\phi$; what has passed values has
the coordinates $M \phi + f \epsilon$ with fresh noise $\epsilon$. Then, as in (K5),

    D_{l-1} = A_0 D A_0^T + rest_0 (x) U + A_0 Phi M^T Psi^T + (..)^T + C + Psi (M M^T + f f^T - 1) Psi^T,
    S - S_0 = sum_l (N_l / N_max) (|M|^2 + |f|^2 - 2 ln det f - r) + alpha E,
    K = sigma_0^2 (sum_i X_i D_0 X_i^T + rest (x) U).

With all features this is (11) exactly, for any number of paths. The signals of a head of value dimension
$k$ pass through $k$ columns of its own first. They bring a level more, with $D_s$ in place of $D$ above,

    D_s = Phi f_s f_s^T Phi^T,          (k / N_max) (|f_s|^2 - 2 ln det f_s - r).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.levels.levels import Levels, Piece
from statmech_attention.theory.levels.ranking import LevelMaps, grown


class Seen(NamedTuple):
    """One level at a point, for new inputs: `whitened` is $c\\, \\mathrm{chol}(c^\\top C c)^{-\\top}$."""

    whitened: Float[Array, "rows rows"]
    psi: Float[Array, "rows rows"]
    moment: Float[Array, "rows rows"]
    lifted: Float[Array, "rows rows"] | None  # chol(D)^-T M^T
    gram: Float[Array, "rows rows"]  # above
    bend: Float[Array, "seeds rows rows"] | None  # Phi^-T (f_s f_s^T - 1) Phi^-1


class Factors(NamedTuple):
    """The free entries as matrices: $F$ of outputs, $f$ of every layer, $M$ beside skips, $f_s$ of narrow heads."""

    outputs: Float[Array, "outputs outputs"]
    values: Float[Array, "layers rows rows"]
    shift: Float[Array, "layers rows rows"] | None
    inner: Float[Array, "layers seeds rows rows"] | None


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["maps", "variances", "readout"],
    meta_fields=["outputs", "stages", "inner"],
)
@dataclass(frozen=True)
class FeatureLevels(Levels):
    r"""Features of every level, from the readout down; what they leave out stays at its prior, (K5).

    A point has the entries of $F$ of the outputs, then $f$ of every layer, then $M$ beside skips, then $f_s$ of
    narrow heads. `variances` are $(\sigma_L^2, .., \sigma_1^2)$, `readout` is $\sigma_a^2$; `stages` and
    `inner` are the numbers of the layers' stages in the chain, the latter None without narrow heads.
    """

    maps: LevelMaps
    variances: Float[Array, " layers"]
    readout: Float[Array, ""]
    outputs: int
    stages: tuple[int, ...]
    inner: tuple[int | None, ...]

    @classmethod
    def of(cls, maps: LevelMaps, architecture: Architecture) -> "FeatureLevels":
        """The levels of a network with these maps between its features."""
        chain = architecture.chain
        places = {(stage.place, stage.inner): number for number, stage in enumerate(chain.stages)}
        down = range(len(chain.layers) - 1, -1, -1)
        _, *values, readout = architecture.variances
        return cls(
            jax.tree.map(jnp.asarray, maps),
            jnp.asarray(values[::-1], float),
            jnp.asarray(readout, float),
            chain.outputs,
            tuple(places[layer, False] for layer in down),
            tuple(places.get((layer, True)) for layer in down),
        )

    @property
    def rows(self) -> int:
        """Number of rows of a level's matrices, (feature, output)."""
        return self.maps.values.shape[-1] * self.outputs

    @property
    def pieces(self) -> list[Piece]:
        rows, outputs, keeps = self.rows, self.outputs, self.maps.kept is not None
        below, seeds = rows * (rows - 1) // 2, self.maps.values.shape[1]
        top = max(stage for stage in (*self.stages, *self.inner) if stage is not None) + 1
        pieces = [Piece(top, np.arange(outputs), outputs * (outputs - 1) // 2)]
        # Beside a skip the columns come after those that it has taken.
        pieces += [Piece(stage, rows * keeps + np.arange(rows), below) for stage in self.stages]
        pieces += [Piece(stage, np.arange(0), rows * rows) for stage in self.stages if keeps]
        narrow = [stage for stage in self.inner if stage is not None]
        return pieces + [Piece(stage, np.arange(rows), below) for stage in narrow for _ in range(seeds)]

    def overlap(
        self, free: Float[Array, " coordinates"]
    ) -> tuple[Float[Array, "rows rows"], Float[Array, "outputs outputs"]]:
        """The Gram matrix $D_0$ of the lowest features, and $U$ of the outputs."""
        gram, top, _ = self.descended(free)
        return gram, top

    def descended(self, free: Float[Array, " coordinates"]):
        """The Gram matrix $D_0$, $U$ of the outputs, and `Seen` of every level, from the readout down."""
        factors = self.factors(free)
        top = self.readout * factors.outputs @ factors.outputs.T
        start = jnp.kron(jnp.eye(self.rows // self.outputs), top)
        levels = self.maps, self.variances, factors.values, factors.shift, factors.inner
        gram, seen = jax.lax.scan(partial(_step, top=top), start, levels)
        return gram, top, seen

    def factors(self, free: Float[Array | np.ndarray, " coordinates"]) -> Factors:
        """The free entries as matrices, in NumPy or JAX; heads without a value dimension have the identity."""
        ends = np.cumsum([piece.size for piece in self.pieces])
        layers, rows = len(self.stages), self.rows
        triangles = _triangles(free[ends[0] : ends[layers]].reshape(layers, -1), rows)
        shift: Any = None
        inner: Any = None
        end = ends[layers]
        if self.maps.kept is not None:
            shift, end = free[end : ends[2 * layers]].reshape(layers, rows, rows), ends[2 * layers]
        if any(stage is not None for stage in self.inner):
            seeds = self.maps.values.shape[1]
            narrow = iter(
                _triangles(free[end:].reshape(-1, rows * (rows + 1) // 2), rows).reshape(-1, seeds, rows, rows)
            )
            xp = free.__array_namespace__()
            same = xp.broadcast_to(xp.eye(rows), (seeds, rows, rows))
            inner = xp.stack([same if stage is None else next(narrow) for stage in self.inner])
        return Factors(_triangles(free[None, : ends[0]], self.outputs)[0], triangles, shift, inner)

    def point_of(self, factors: Factors) -> Float[np.ndarray, " coordinates"]:
        """The point with these matrices; the inverse of `factors`."""
        entries = self._entries(factors)
        return np.log(entries, out=entries, where=self.logarithms)

    def padded(self, free: Float[np.ndarray, " coordinates"], others: "FeatureLevels") -> Float[np.ndarray, " others"]:
        """Entries of `others`: the first corners of these matrices, with zeros beyond."""
        size, (outputs, *squares) = others.rows, self.factors(free)
        values, shift, inner = (
            None if square is None else grown(np.asarray(square[..., :size, :size]), *square.shape[:-2], size, size)
            for square in squares
        )
        parts: Any = outputs, values, shift, inner
        return others._entries(Factors(*parts))

    def _entries(self, factors: Factors) -> Float[np.ndarray, " coordinates"]:
        """The entries that are free, of all matrices."""
        parts = [_flat(factors.outputs), *map(_flat, factors.values)]
        if factors.shift is not None:
            parts += [np.asarray(square).reshape(-1) for square in factors.shift]
        if factors.inner is not None:
            narrow = [squares for squares, stage in zip(factors.inner, self.inner, strict=True) if stage is not None]
            parts += [_flat(square) for squares in narrow for square in squares]
        return np.concatenate(parts)


@quick_jit(level=0)
def descended(action, point):
    """Gram matrices and `Seen` of all levels at an action's point, see `FeatureLevels.descended`."""
    return action.levels.descended(action.seen(point))


def _triangles(entries: Any, size: int) -> Any:
    """Lower triangles of their diagonals and what is below, row by row, in NumPy or JAX."""
    xp = entries.__array_namespace__()
    places = np.full((size, size), size * (size + 1) // 2)  # that of a zero
    places[np.diag_indices(size)] = np.arange(size)
    places[np.tril_indices(size, -1)] = np.arange(size, size * (size + 1) // 2)
    return xp.concat([entries, xp.zeros((len(entries), 1))], axis=1)[:, places]


def _flat(triangle) -> Float[np.ndarray, " entries"]:
    """A triangle's diagonal, and what is below."""
    triangle = np.asarray(triangle)
    return np.concatenate([np.diagonal(triangle), triangle[np.tril_indices(len(triangle), -1)]])


def _step(gram, level, top):
    """(K5): the Gram matrix of the features below a layer, and `Seen` for new inputs."""
    maps, variance, factor, shift, inner = level
    ones = jnp.eye(len(top))
    basis = jnp.kron(maps.basis, ones)
    through, bend = (gram, None) if inner is None else _narrowed(gram, inner)
    fresh = variance * (_mapped(maps.values, through, len(top)) + jnp.kron(maps.values_rest, top))
    image = fresh @ basis
    half = jnp.linalg.cholesky(basis.T @ image + jnp.diag(jnp.repeat(maps.spare, len(top))))
    psi = solve_triangular(half, image.T, lower=True).T
    moment = factor @ factor.T - jnp.eye(len(half))
    below, lifted = fresh, None
    if shift is not None:
        root, along = jnp.linalg.cholesky(gram), jnp.kron(maps.kept, ones)
        moment = moment + shift @ shift.T
        cross = (along @ root @ shift.T) @ psi.T
        below = below + along @ gram @ along.T + jnp.kron(maps.kept_rest, top) + cross + cross.T
        lifted = solve_triangular(root, shift.T, lower=True, trans=1)
    whitened = solve_triangular(half, basis.T, lower=True).T
    return below + psi @ moment @ psi.T, Seen(whitened, psi, moment, lifted, gram, bend)


def _narrowed(gram, factors: Float[Array, "seeds rows rows"]):
    """$D_s$ of all heads, and `bend`; heads without a value dimension have $D$ itself."""
    root, ones = jnp.linalg.cholesky(gram), jnp.eye(len(gram))
    lifted = solve_triangular(root, ones, lower=True).T
    halves = root @ factors
    bend = jax.vmap(lambda factor: lifted @ (factor @ factor.T - ones) @ lifted.T)(factors)
    return halves @ halves.mT, bend


def _mapped(maps: Float[Array, "seeds below above"], gram: Float[Array, "*seeds rows rows"], outputs: int):
    r"""$\sum_s A_s D_s A_s^\top$, every $A_s$ the same for all outputs; with one $D$, or with one of each seed."""
    seeds, below, above = maps.shape
    if gram.ndim == 2:
        half = maps.reshape(-1, above) @ gram.reshape(above, -1)
    else:
        half = maps @ gram.reshape(seeds, above, -1)
    half = half.reshape(seeds, below * outputs, above, outputs)
    gram_below = jnp.tensordot(half, maps, ((0, 2), (0, 2)))
    return jnp.swapaxes(gram_below, 1, 2).reshape(below * outputs, below * outputs)


def carried(
    point, levels: FeatureLevels, others: FeatureLevels, passed: Sequence[Float[np.ndarray, "_features _features"]]
) -> Float[np.ndarray, " coordinates"]:
    r"""A point in other features, of which the first are the same: what is new, or lost, is at its prior.

    `passed` are the Gram matrices of every level for as many features as it has.
    """
    point = np.asarray(point)
    known = levels.factors(np.exp(point, out=point.copy(), where=levels.logarithms))
    size, rows = others.rows, min(levels.rows, others.rows)
    factors, shifts = [], []
    inner: Any = None
    for level, gram in enumerate(passed):
        old, new = _frame(levels, level, gram), _frame(others, level, gram)
        shared = gram[: len(old), : len(new)]
        overlap = np.kron(old[: len(shared)].T @ shared @ new[: shared.shape[1]], np.eye(levels.outputs))
        factor = known.values[level]
        moment = overlap.T @ (factor @ factor.T - np.eye(len(factor))) @ overlap + np.eye(size)
        factors.append(np.linalg.cholesky(moment))
        if known.shift is not None:
            shift = overlap.T @ known.shift[level]
            shifts.append(np.pad(shift, ((0, 0), (0, max(0, size - shift.shape[1]))))[:, :size])
    if known.inner is not None:
        inner = np.broadcast_to(np.eye(size), (*known.inner.shape[:2], size, size)).copy()
        inner[..., :rows, :rows] = known.inner[..., :rows, :rows]
    parts: Any = known.outputs, np.stack(factors), np.stack(shifts) if shifts else None, inner
    return others.point_of(Factors(*parts))


def _frame(levels: FeatureLevels, level: int, gram) -> Float[np.ndarray, "features columns"]:
    """Directions of a level that are orthonormal at infinite width; missing ones are zero."""
    basis, spare = np.asarray(levels.maps.basis)[level], np.asarray(levels.maps.spare)[level]
    size = min(len(gram), len(basis))
    half = np.linalg.cholesky(basis[:size].T @ gram[:size, :size] @ basis[:size] + np.diag(spare))
    return np.linalg.solve(half, basis.T).T
