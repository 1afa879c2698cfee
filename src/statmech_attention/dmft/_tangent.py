r"""The map's derivative, in closed form, (B12), and directions that are carried along with it; the batch is the last axis.

The state is $X_t = (\hat A_t, .., \hat A_{t-L+1})$. A new $\hat A$ depends on all $L$ of them, the others only move on: in
a ring by slot a step replaces one block of rows of every direction.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention.dmft import _map
from statmech_attention.dmft._map import KEY, QUERY, VALUE, Laws, Rings

_UNROLLED = 16  # directions; for more, a loop compiles in a fraction of the time and takes up to twice as long


class Slopes(NamedTuple):
    r"""Derivatives of the overlaps of every token by the $\hat A$ it was generated from, $X^{(d)}_{bc}$ of (B12), by slot.

    Attributes:
        keys: `(slots, features, features, batch)`.
        values: the same.
    """

    keys: Float[Array, "slots features features batch"]
    values: Float[Array, "slots features features batch"]


class Tangent(NamedTuple):
    """A window, the derivatives of its tokens, and directions of the state.

    Attributes:
        rings: `Rings`.
        slopes: `Slopes`.
        directions: `(directions, slots, features, batch)`.
    """

    rings: Rings
    slopes: Slopes
    directions: Float[Array, "directions slots features batch"]


def token_slopes(laws: Laws, means) -> Float[Array, "3 features features batch"]:
    r"""$(1-\epsilon) \beta \langle W^\alpha_b W^o_c (1 - \tanh^2) \rangle$ for query, key and value."""
    gains = ((1 - laws.epsilon) * laws.beta)[None] * (1 - means) * (1 + means)
    products = laws.weights[:3, :, None, :] * laws.signs.T[None, None]
    return jnp.sum(products[..., None] * gains[None, None, None], axis=3)


def past_slopes(laws: Laws, attention) -> tuple[_map.Token, Float[Array, "slots 3 features features batch"]]:
    """The tokens that a ring of attention generates, each in the slot after its own, and their derivatives."""
    tokens = _map.generated(laws, attention)
    return tokens, jax.vmap(lambda means: token_slopes(laws, means))(tokens.means)


def blocks(laws: Laws, query, query_slope, rings: Rings, slopes: Slopes, shares):
    r"""$\partial \hat A_a / \partial \hat A_{d,c}$ of (B12) for the newest token, by the slot of the token that $\hat A_d$ generated."""
    attention = rings.attention[rings.slot]
    centred = shares[:, None] * (rings.values - attention[None])
    pulls = laws.sharpness[None, None] * jnp.sum(query[None, :, None] * slopes.keys, axis=1)
    found = shares[:, None, None] * slopes.values + centred[:, :, None] * pulls[:, None]
    spread = laws.sharpness[None, None] * jnp.sum(centred[:, :, None] * rings.keys[:, None], axis=0)
    through_query = jnp.sum(spread[:, :, None] * query_slope[None], axis=1)
    return found.at[rings.slot].add(through_query)


def begin(laws: Laws, rings: Rings, directions) -> Tangent:
    """Directions at a window whose attention is known."""
    _, slopes = past_slopes(laws, rings.attention)
    return Tangent(rings, Slopes(slopes[:, KEY], slopes[:, VALUE]), directions)


def step(laws: Laws, tangent: Tangent) -> Tangent:
    """One step of the map, and of the directions with its derivative."""
    rings, slopes, directions = tangent
    rings, token, shares = _map.step(laws, rings)
    slot, mine = token.slot, token_slopes(laws, token.means)
    slopes = Slopes(
        *(
            jax.lax.dynamic_update_index_in_dim(ring, mine[which], slot, 0)
            for ring, which in ((slopes.keys, KEY), (slopes.values, VALUE))
        )
    )
    rows = blocks(laws, token.overlaps[QUERY], mine[QUERY], rings, slopes, shares)
    # The block for the token at a slot acts on the attention one slot before.
    rows = jnp.roll(rows, -1, axis=0)
    new = jnp.sum(jnp.moveaxis(rows, 1, 0)[None] * directions[:, None], axis=(2, 3))
    directions = jax.lax.dynamic_update_index_in_dim(directions, new, slot, 1)
    return Tangent(rings, slopes, directions)


def orthonormal(directions: Float[Array, "directions slots features batch"]):
    """Gram-Schmidt, every direction cleared of the earlier ones twice; the lengths that are left, and how far to trust them.

    Twice makes the directions orthogonal to rounding, however close to one another they were. What is left of a direction
    carries the rounding errors of what it was before: third comes the size of these, relative to the length that is left. A
    direction of which nothing is left is put to zero.
    """
    count = len(directions)
    if count <= _UNROLLED:
        found: list = []
        for vector in directions:
            basis = jnp.stack([direction for direction, _, _ in found]) if found else jnp.zeros_like(directions[:1])
            found.append(_cleared(vector, basis))
        return tuple(jnp.stack(parts) for parts in zip(*found, strict=True))

    def one(number, state):
        done = state[0] * (jnp.arange(count) < number)[:, None, None, None]
        return tuple(
            part.at[number].set(new) for part, new in zip(state, _cleared(state[0][number], done), strict=True)
        )

    nothing = jnp.zeros((count, directions.shape[-1]))
    return jax.lax.fori_loop(0, count, one, (directions, nothing, nothing))


def _cleared(vector, basis):
    """Unit vector, length and doubt of what the basis leaves of a vector."""
    before = jnp.sum(vector**2, axis=(0, 1))
    for _ in range(2):
        shadow = jnp.sum(basis * vector[None], axis=(1, 2))
        vector = vector - jnp.sum(shadow[:, None, None] * basis, axis=0)
    square = jnp.sum(vector**2, axis=(0, 1))
    something = square > 0
    length, size = jnp.sqrt(square), jnp.where(something, square, 1.0)
    doubt = jnp.where(something, jnp.finfo(float).eps * jnp.sqrt(before / size), 0.0)
    return vector / jnp.sqrt(size)[None, None], length, doubt
