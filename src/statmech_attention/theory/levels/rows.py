r"""Derivatives of the log evidence without paths, at the minimum, where the coordinates need none.

In the attention: with the coordinates $f, M$ and directions $\gamma$ of every level held, the entropy
stays as it is, and the kernel changes. On rows (example, token) it follows from the readout down by (K5),

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
from statmech_attention.theory.kernels.regression import Regression
from statmech_attention.theory.levels.features import Numbers, Point, excess_action, triangle
from statmech_attention.theory.levels.ranking import Features, Ranked, grown


@jax.jit
def number_slopes(numbers: Numbers, point: Point, features: Features) -> tuple[Numbers, Float[Array, "layers seeds"]]:
    """Derivatives of $-\\frac12 (S - S_0)$ in all numbers, and in the gates of heads, from the readout down."""

    def nats(numbers, gates):
        values = features.layers.values * jnp.sqrt(gates)[:, :, None, None]
        gated = features._replace(layers=features.layers._replace(values=values))
        return -0.5 * excess_action(point, numbers, gated)[0]

    return jax.grad(nats, (0, 1))(numbers, jnp.ones(features.layers.values.shape[:2]))


class Rows(NamedTuple):
    """Examples padded to the longest, from the readout down: directions on their rows, and the maps $B_s$."""

    tokens: Float[Array | np.ndarray, "rows columns"]
    weights: Float[Array | np.ndarray, " rows"]
    directions: Float[Array | np.ndarray, "levels rows features"]
    maps: tuple[Float[Array | np.ndarray, "_seeds examples tokens tokens"], ...]


def attention_slopes(
    inputs: TokenInputs, ranked: Ranked, features: Features, point: Point, numbers: Numbers
) -> list[Float[np.ndarray, "examples _heads keys queries"]]:
    """Derivatives of $\\ln p(Y)$ in the attention of every layer, the first layer's first."""
    rows, keeps = _padded(inputs, ranked, features.size), tuple(int(layer.keeps) for layer in inputs.chain.layers[::-1])
    slopes = _slopes_of_maps(rows, point, numbers, features, keeps)
    each = zip(inputs.chain.layers, reversed(slopes), strict=True)
    return [_of_heads(layer, np.asarray(of_maps)) for layer, of_maps in each]


def _of_heads(layer, slopes: Float[np.ndarray, "seeds examples tokens tokens"]):
    """Derivatives in the attention of heads from those in the maps in which it stands."""
    branches = np.einsum("bs,setu->betu", seed_factors(layer), slopes)
    which = np.array(layer.branch_heads)[:, None] == np.arange(layer.heads)
    return np.einsum("bh,betu->ehtu", which.astype(float), branches)


def _padded(inputs: TokenInputs, ranked: Ranked, count: int) -> Rows:
    """The examples in the order in which they were given, with zeros beyond their tokens."""
    longest, lengths = inputs.groups[-1].length, np.diff(inputs.starts, append=len(inputs.weights))
    places = np.repeat(inputs.order * longest - inputs.starts, lengths) + np.arange(len(inputs.weights))

    def spread(rows):
        wide = np.zeros((len(inputs) * longest, *rows.shape[1:]))
        wide[places] = rows
        return wide

    def spread_maps(layer):
        maps, first = np.zeros((inputs.groups[0].maps[layer].shape[1], len(inputs), longest, longest)), 0
        for group in inputs.groups:
            examples = inputs.order[first : first + len(group.maps[layer])]
            maps[:, examples, : group.length, : group.length] = group.maps[layer].swapaxes(0, 1)
            first += len(examples)
        return maps

    directions = np.stack([spread(grown(level[:, :count], len(level), count)) for level in ranked.columns])
    maps = tuple(map(spread_maps, reversed(range(len(inputs.chain.layers)))))
    return Rows(spread(inputs.tokens), spread(inputs.weights), directions, maps)


@partial(jax.jit, static_argnames="keeps")
def _slopes_of_maps(rows: Rows, point: Point, numbers: Numbers, features: Features, keeps: tuple[int, ...]):
    def nats(maps):
        kernel = _kernel(rows._replace(maps=maps), point, numbers, features, keeps)
        return -0.5 * Regression.of(kernel, numbers.temperature, numbers.labels.reshape(-1)).nats

    return jax.grad(nats)(rows.maps)


def _kernel(rows: Rows, point: Point, numbers: Numbers, features: Features, keeps: tuple[int, ...]):
    """$K$ of all pairs (example, output) by (K5) and (K2), with the coordinates of a point."""
    outputs = triangle(point.outputs)
    top = numbers.readout * outputs @ outputs.T
    read = jnp.asarray(rows.weights)
    gram = jnp.kron(jnp.outer(read, read), top)
    parts = point.factor, point.shift, point.inner, features.layers.basis, numbers.variances, numbers.inner
    for place, keep in enumerate(keeps):
        above, below = (jnp.kron(rows.directions[level], jnp.eye(len(top))) for level in (place, place + 1))
        level = jax.tree.map(lambda part, place=place: part[place], parts)
        gram = _below(gram, rows.maps[place], keep, above, below, *level)
    examples, columns = len(numbers.labels), rows.tokens.shape[1]
    products = jnp.kron(rows.tokens @ rows.tokens.T / columns, jnp.ones_like(top)) * gram
    kernel = products.reshape(2 * (examples, len(rows.tokens) // examples, len(top))).sum(axis=(1, 4))
    return numbers.projection * kernel.reshape(examples * len(top), -1)


def _below(gram, maps, keep: int, above, below, free, shift, inner, basis, variance, share):
    """(K5), from a layer's output to its input."""
    factors = None if inner is None else jnp.where(share > 0, jax.vmap(triangle)(inner), jnp.eye(above.shape[1]))
    phi, outputs = _frame(gram, above), below.shape[1] // len(basis)
    fresh = variance * _passed(gram, maps[keep:], phi, factors)
    psi, factor = _frame(fresh, below @ jnp.kron(basis, jnp.eye(outputs))), triangle(free)
    moment, beneath = factor @ factor.T - jnp.eye(len(factor)), fresh
    if keep:
        cross = _mapped(maps[0], phi @ shift.T) @ psi.T
        moment = moment + shift @ shift.T
        beneath = beneath + _mapped(maps[0], _mapped(maps[0], gram).T) + cross + cross.T
    return beneath + psi @ moment @ psi.T


def _frame(gram, directions):
    """$G d\\, \\mathrm{chol}(d^\\top G d)^{-\\top}$; directions that are zero stay so."""
    image = gram @ directions
    missing = jnp.where(jnp.any(directions != 0, axis=0), 0.0, 1.0)
    half = jnp.linalg.cholesky(directions.T @ image + jnp.diag(missing))
    return solve_triangular(half, image.T, lower=True).T


def _passed(gram, maps, phi, factors):
    """$\\sum_s B_s G_s B_s^\\top$, one seed after another, which keeps one matrix at a time."""

    @jax.checkpoint
    def add(total, seed):
        own, factor = seed
        through = gram if factor is None else gram + phi @ (factor @ factor.T - jnp.eye(len(factor))) @ phi.T
        return total + _mapped(own, _mapped(own, through).T), None

    return jax.lax.scan(add, jnp.zeros_like(gram), (maps, factors))[0]


def _mapped(own: Float[Array, "examples tokens tokens"], gram: Float[Array, "rows columns"]):
    """$B G$, the same map for all outputs."""
    return (own @ gram.reshape(*own.shape[:2], -1)).reshape(gram.shape)
