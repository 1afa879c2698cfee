r"""The mean-field map and its derivative for many networks; the batch is the last axis of all arrays.

Vector units work along the last axis. Windows are rings indexed by slot: the token of time $t$ is
at $t \bmod L$, so that a step writes one entry and moves none. The state of the derivative is
$X_t = (\hat A_t, .., \hat A_{t-L+1})$, of which a step replaces one block of rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

QUERY, KEY, VALUE, OUTPUT = range(4)


class Laws(NamedTuple):
    """Parameters of a step."""

    signs: Float[Array, "terms features"]  # sigma_j
    weights: Float[Array, "4 features terms"]  # rho^alpha_{a,j}
    codes: Float[Array, "4 slots features"]  # pi^alpha_a(c)
    beta: Float[Array, " batch"]
    sharpness: Float[Array, " batch"]  # gamma / sqrt(M)
    epsilon: Float[Array, " batch"]


class Rings(NamedTuple):
    """The last L tokens, by slot."""

    keys: Float[Array, "slots features batch"]
    values: Float[Array, "slots features batch"]
    attention: Float[Array, "slots features batch"]
    slot: Int[Array, ""]  # of the newest token
    filled: Int[Array, ""]  # number of tokens, at most L


class Token(NamedTuple):
    """One token with the averages over sites that it was computed from."""

    slot: Int[Array, ""]
    means: Float[Array, "terms batch"]  # tanh(beta sigma_j . A)
    words: Float[Array, "4 features batch"]  # <W^alpha tanh>
    overlaps: Float[Array, "4 features batch"]  # m^alpha of (B7)


class Slopes(NamedTuple):
    """Derivatives of the tokens' overlaps by the attention that generated them, (B12), by slot."""

    keys: Float[Array, "slots features features batch"]
    values: Float[Array, "slots features features batch"]


class Tangent(NamedTuple):
    """A window, the derivatives of its tokens, and directions of the state."""

    rings: Rings
    slopes: Slopes
    directions: Float[Array, "directions slots features batch"]


def generate(laws: Laws, attention, slot) -> Token:
    r"""Generate the token that follows $\hat A$, (B7)."""
    fields = laws.beta[None] * jnp.sum(laws.signs[:, :, None] * attention[None], axis=1)
    means = jnp.tanh(fields)
    words = jnp.sum(laws.weights[..., None] * means[None, None], axis=2)
    return Token(slot, means, words, mixed(laws, words, slot))


def generated(laws: Laws, attention) -> Token:
    """Generate the token that follows each entry of a ring of attention, each at the next slot."""
    slots = jnp.arange(attention.shape[0])
    return jax.vmap(lambda past, slot: generate(laws, past, slot))(jnp.roll(attention, 1, axis=0), slots)


def mixed(laws: Laws, words, slot):
    r"""Return $m^\alpha = (1 - \epsilon)$ times the semantic part $+\ \epsilon\, \pi^\alpha(c)$, (B1)."""
    epsilon = laws.epsilon[None, None]
    return (1 - epsilon) * words + epsilon * laws.codes[:, slot, :, None]


def attend(laws: Laws, query, keys, values, filled, slot):
    r"""Return the attention weights and $\hat A$ of (B8), over the tokens present."""
    logits = laws.sharpness[None] * jnp.sum(keys * query[None], axis=1)
    age = (slot - jnp.arange(keys.shape[0])) % keys.shape[0]
    logits = jnp.where((age < filled)[:, None], logits, -jnp.inf)
    shares = jnp.exp(logits - jnp.max(logits, axis=0, keepdims=True))
    total = jnp.sum(shares, axis=0)
    return shares / total[None], jnp.sum(shares[:, None] * values, axis=0) / total[None]


def append(laws: Laws, rings: Rings, overlaps, slot) -> tuple[Rings, Float[Array, "slots batch"]]:
    """Add a token to the window; return it with the token's attention weights, by slot."""
    keys, values = put(rings.keys, overlaps[KEY], slot), put(rings.values, overlaps[VALUE], slot)
    filled = jnp.minimum(rings.filled + 1, keys.shape[0])
    shares, attention = attend(laws, overlaps[QUERY], keys, values, filled, slot)
    return Rings(keys, values, put(rings.attention, attention, slot), slot, filled), shares


def step(laws: Laws, rings: Rings) -> tuple[Rings, Token, Float[Array, "slots batch"]]:
    """Take one step of (B7) and (B8); return the window, the new token and its attention weights."""
    slot = (rings.slot + 1) % rings.keys.shape[0]
    token = generate(laws, rings.attention[rings.slot], slot)
    rings, shares = append(laws, rings, token.overlaps, slot)
    return rings, token, shares


def put(ring, entry, slot, axis: int = 0):
    """Write an entry into a ring, at a slot."""
    return jax.lax.dynamic_update_index_in_dim(ring, entry, slot, axis)


def newest_first(ring, slot, axis: int = -2):
    """Reorder an axis from slots to ages, or back: the function is its own inverse."""
    size = ring.shape[axis]
    return jnp.take(ring, (slot - jnp.arange(size)) % size, axis=axis)


def token_slopes(laws: Laws, means) -> Float[Array, "3 features features batch"]:
    r"""Return $(1-\epsilon) \beta \langle W^\alpha_b W^o_c (1 - \tanh^2) \rangle$ of query, key and value."""
    gains = ((1 - laws.epsilon) * laws.beta)[None] * (1 - means) * (1 + means)
    products = laws.weights[:3, :, None, :] * laws.signs.T[None, None]
    return jnp.sum(products[..., None] * gains[None, None, None], axis=3)


def blocks(laws: Laws, query, query_slope, rings: Rings, slopes: Slopes, shares):
    r"""Return $\partial \hat A_a / \partial \hat A_{d,c}$ of (B12), by the slot of the token from $\hat A_d$."""
    attention = rings.attention[rings.slot]
    centred = shares[:, None] * (rings.values - attention[None])
    pulls = laws.sharpness[None, None] * jnp.sum(query[None, :, None] * slopes.keys, axis=1)
    derivatives = shares[:, None, None] * slopes.values + centred[:, :, None] * pulls[:, None]
    spread = laws.sharpness[None, None] * jnp.sum(centred[:, :, None] * rings.keys[:, None], axis=0)
    through_query = jnp.sum(spread[:, :, None] * query_slope[None], axis=1)
    return derivatives.at[rings.slot].add(through_query)


def begin_tangent(laws: Laws, rings: Rings, directions) -> Tangent:
    """Attach directions to a window whose attention is known."""
    slopes = jax.vmap(lambda means: token_slopes(laws, means))(generated(laws, rings.attention).means)
    return Tangent(rings, Slopes(slopes[:, KEY], slopes[:, VALUE]), directions)


def step_tangent(laws: Laws, tangent: Tangent) -> Tangent:
    """Take one step of the map and apply its derivative to the directions."""
    rings, slopes, directions = tangent
    rings, token, shares = step(laws, rings)
    slot, mine = token.slot, token_slopes(laws, token.means)
    slopes = Slopes(put(slopes.keys, mine[KEY], slot), put(slopes.values, mine[VALUE], slot))
    rows = blocks(laws, token.overlaps[QUERY], mine[QUERY], rings, slopes, shares)
    # The block for the token at a slot acts on the attention one slot before.
    rows = jnp.roll(rows, -1, axis=0)
    new = jnp.sum(jnp.moveaxis(rows, 1, 0)[None] * directions[:, None], axis=(2, 3))
    directions = put(directions, new, slot, axis=1)
    return Tangent(rings, slopes, directions)


def orthonormal(directions: Float[Array, "directions slots features batch"]):
    """Orthonormalise by Gram-Schmidt, twice per direction; return directions, lengths left,
    rounding errors relative to these.

    A direction of which nothing is left becomes zero.
    """
    cleared: list = []
    for vector in directions:
        basis = jnp.stack([direction for direction, _, _ in cleared]) if cleared else jnp.zeros_like(directions[:1])
        cleared.append(_cleared(vector, basis))
    return tuple(jnp.stack(parts) for parts in zip(*cleared, strict=True))


def _cleared(vector, basis):
    """Project a basis out of a vector; return its unit vector, length and relative rounding error."""
    before = jnp.sum(vector**2, axis=(0, 1))
    for _ in range(2):
        shadow = jnp.sum(basis * vector[None], axis=(1, 2))
        vector = vector - jnp.sum(shadow[:, None, None] * basis, axis=0)
    square = jnp.sum(vector**2, axis=(0, 1))
    something = square > 0
    length, size = jnp.sqrt(square), jnp.where(something, square, 1.0)
    doubt = jnp.where(something, jnp.finfo(float).eps * jnp.sqrt(before / size), 0.0)
    return vector / jnp.sqrt(size)[None, None], length, doubt
