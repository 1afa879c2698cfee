r"""Gram matrices of rows (example, token) at a point, and derivatives of the log evidence in the attention.

With the coordinates $f, M$ and directions $\gamma$ of every level held, the entropy stays as it is, and
the kernel changes with the attention. On rows it follows from the readout down by (K5),

    Phi = G d chol(d^T G d)^{-T},       d = gamma_l,        C = sigma_l^2 sum_s B_s G_s B_s^T,
    Psi = C c chol(c^T C c)^{-T},       c = gamma_{l-1} in a basis of what values can move,
    G' = B_0 G B_0^T + B_0 Phi M^T Psi^T + (..)^T + C + Psi (M M^T + f f^T - 1) Psi^T,

with $G_s = G$, or $G + \Phi (f_s f_s^\top - 1) \Phi^\top$ for heads of a finite value dimension. All of it
is differentiated automatically.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from statmech_attention.model.tokens import TokenInputs, seed_factors
from statmech_attention.theory.kernels.in_blocks import whole_block
from statmech_attention.theory.levels.ranking import Ranked


class Rows(NamedTuple):
    """Examples padded to the longest, from the readout down: directions on their rows, and the maps $B_s$."""

    tokens: Float[Array | np.ndarray, "rows columns"]
    weights: Float[Array | np.ndarray, " rows"]
    directions: Float[Array | np.ndarray, "levels rows features"]
    maps: tuple[Float[Array | np.ndarray, "_seeds examples tokens tokens"], ...]


def grams(inputs: TokenInputs, ranked: Ranked, action, point) -> list[Float[np.ndarray, "rows rows"]]:
    r"""$G_{L+1}, .., G_1$ of all pairs of rows (example, token, output), examples padded to the longest."""
    levels, free = action.levels, action.seen(point)
    rows, keeps = _padded(inputs, ranked, levels), _keeps(inputs)
    return [np.asarray(gram) for gram in _grams(rows, levels, free, keeps)]


def attention_slopes(
    inputs: TokenInputs, ranked: Ranked, action, point
) -> list[Float[np.ndarray, "examples _heads keys queries"]]:
    """Derivatives of $\\ln p(Y)$ in the attention of every layer, the first layer's first."""
    rows, keeps = _padded(inputs, ranked, action.levels), _keeps(inputs)
    slopes = _slopes_of_maps(rows, action, point, keeps)
    each = zip(inputs.chain.layers, reversed(slopes), strict=True)
    return [_of_heads(layer, np.asarray(of_maps)) for layer, of_maps in each]


def _keeps(inputs: TokenInputs) -> tuple[int, ...]:
    return tuple(int(layer.keeps) for layer in inputs.chain.layers[::-1])


def _of_heads(layer, slopes: Float[np.ndarray, "seeds examples tokens tokens"]):
    """Derivatives in the attention of heads from those in the maps in which it stands."""
    branches = np.einsum("bs,setu->betu", seed_factors(layer), slopes)
    which = np.array(layer.branch_heads)[:, None] == np.arange(layer.heads)
    return np.einsum("bh,betu->ehtu", which.astype(float), branches)


def _padded(inputs: TokenInputs, ranked: Ranked, levels) -> Rows:
    """The examples in the order in which they were given, with zeros beyond their tokens."""
    count, columns = levels.maps.values.shape[-1], inputs.tokens.shape[1]
    maps, tokens, weights = whole_block(ranked.beside(inputs, count), inputs.longest)
    tokens, directions = np.split(tokens.reshape(weights.size, -1), [columns], axis=1)
    directions = directions.reshape(weights.size, -1, count).swapaxes(0, 1)
    return Rows(tokens, weights.reshape(-1), directions, tuple(own.swapaxes(0, 1) for own in reversed(maps)))


@partial(jax.jit, static_argnames="keeps")
def _slopes_of_maps(rows: Rows, action, point, keeps: tuple[int, ...]):
    free = action.seen(point)

    def nats(maps):
        *_, gram = _grams(rows._replace(maps=maps), action.levels, free, keeps)
        return -0.5 * action.energy.of_kernel(action.energy.scale * _kernel(rows, gram, action.levels.outputs))

    return jax.grad(nats)(rows.maps)


@partial(jax.jit, static_argnames="keeps")
def _grams(rows: Rows, levels, free, keeps: tuple[int, ...]):
    factors = levels.factors(free)
    top, read = levels.readout * factors.outputs @ factors.outputs.T, jnp.asarray(rows.weights)
    found = [jnp.kron(jnp.outer(read, read), top)]
    for place, keep in enumerate(keeps):
        above, below = (jnp.kron(rows.directions[level], jnp.eye(len(top))) for level in (place, place + 1))
        parts = factors.values, factors.shift, factors.inner, levels.maps.basis, levels.variances
        level = jax.tree.map(lambda part, place=place: part[place], parts)
        found.append(_below(found[-1], rows.maps[place], keep, above, below, *level))
    return found


def _kernel(rows: Rows, gram, outputs: int):
    """(K2): $K$ of all pairs (example, output) at a unit variance of the projection."""
    count, columns = rows.tokens.shape
    examples = rows.maps[0].shape[1]
    products = jnp.kron(rows.tokens @ rows.tokens.T / columns, jnp.ones((outputs, outputs))) * gram
    kernel = products.reshape(2 * (examples, count // examples, outputs)).sum(axis=(1, 4))
    return kernel.reshape(examples * outputs, -1)


def _below(gram, maps, keep: int, above, below, factor, shift, inner, basis, variance):
    """(K5), from a layer's output to its input."""
    phi, outputs = _frame(gram, above), below.shape[1] // len(basis)
    bends = None if inner is None else inner @ inner.mT - jnp.eye(len(factor))[None]
    fresh = variance * passed(gram, maps[keep:], phi, bends)
    psi = _frame(fresh, below @ jnp.kron(basis, jnp.eye(outputs)))
    moment, beneath = factor @ factor.T - jnp.eye(len(factor)), fresh
    if keep:
        cross = mapped(maps[0], phi @ shift.T) @ psi.T
        moment = moment + shift @ shift.T
        beneath = beneath + congruent(maps[0], gram) + cross + cross.T
    return beneath + psi @ moment @ psi.T


def _frame(gram, directions):
    """$G d\\, \\mathrm{chol}(d^\\top G d)^{-\\top}$; directions that are zero stay so."""
    image = gram @ directions
    missing = jnp.where(jnp.any(directions != 0, axis=0), 0.0, 1.0)
    half = jnp.linalg.cholesky(directions.T @ image + jnp.diag(missing))
    return solve_triangular(half, image.T, lower=True).T


def passed(gram, maps, phi=None, bends=None):
    """$\\sum_s B_s (G + \\Phi b_s \\Phi^\\top) B_s^\\top$, one seed after another, which keeps one matrix at a time."""

    @jax.checkpoint
    def add(total, seed):
        own, bend = seed
        through = gram if bend is None else gram + phi @ bend @ phi.T
        return total + congruent(own, through), None

    rows = len(gram) // maps.shape[3] * maps.shape[2]
    return jax.lax.scan(add, jnp.zeros((rows, rows)), (maps, None if bends is None else bends[: len(maps)]))[0]


def mapped(own: Float[Array, "examples below above"], columns: Float[Array, "rows columns"]):
    """$B$ times columns of rows of examples in turn, the same for all outputs."""
    return (own @ columns.reshape(len(own), own.shape[2], -1)).reshape(-1, columns.shape[1])


def congruent(own: Float[Array, "examples below above"], gram: Float[Array, "rows rows"]):
    """$B G B^\\top$ of a symmetric $G$."""
    return mapped(own, mapped(own, gram).T)
