r"""One step of the mean-field map, for many networks at once: the batch is the last axis of every array.

The last axis is the one that a processor's vector units work along. Windows are rings indexed by slot: the token born
at time $t$ is at $t \bmod L$, so that a step writes one entry and moves none.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

QUERY, KEY, VALUE, OUTPUT = range(4)


class Laws(NamedTuple):
    r"""What a step depends on beside the state.

    Attributes:
        signs: `(terms, features)`, $\sigma_j$.
        weights: `(4, features, terms)`, $\rho^\alpha_{a,j}$.
        codes: `(4, slots, features)`, $\pi^\alpha_a(c)$.
        beta: `(batch,)`.
        sharpness: `(batch,)`, $\gamma / \sqrt M$.
        epsilon: `(batch,)`.
    """

    signs: Float[Array, "terms features"]
    weights: Float[Array, "4 features terms"]
    codes: Float[Array, "4 slots features"]
    beta: Float[Array, " batch"]
    sharpness: Float[Array, " batch"]
    epsilon: Float[Array, " batch"]


class Rings(NamedTuple):
    r"""The last $L$ tokens, by slot.

    Attributes:
        keys: `(slots, features, batch)`, $m^k$.
        values: `(slots, features, batch)`, $m^v$.
        attention: `(slots, features, batch)`, $\\hat A_t$ at the slot of $t$.
        slot: of the newest token.
        filled: tokens that there are, at most $L$.
    """

    keys: Float[Array, "slots features batch"]
    values: Float[Array, "slots features batch"]
    attention: Float[Array, "slots features batch"]
    slot: Int[Array, ""]
    filled: Int[Array, ""]


class Token(NamedTuple):
    r"""One token.

    Attributes:
        slot: $c$.
        means: `(terms, batch)`, $\tanh(\beta\, \sigma_j \cdot \hat A)$.
        words: `(4, features, batch)`, $\langle W^\alpha \tanh \rangle$.
        overlaps: `(4, features, batch)`, $m^\alpha$ of (B7).
    """

    slot: Int[Array, ""]
    means: Float[Array, "terms batch"]
    words: Float[Array, "4 features batch"]
    overlaps: Float[Array, "4 features batch"]


def generate(laws: Laws, attention, slot) -> Token:
    r"""The token that $\hat A$ generates, (B7)."""
    fields = laws.beta[None] * jnp.sum(laws.signs[:, :, None] * attention[None], axis=1)
    means = jnp.tanh(fields)
    words = jnp.sum(laws.weights[..., None] * means[None, None], axis=2)
    return Token(slot, means, words, mixed(laws, words, slot))


def generated(laws: Laws, attention) -> Token:
    """The tokens that a ring of attention generates, each in the slot after its own."""
    slots = jnp.arange(attention.shape[0])
    return jax.vmap(lambda past, slot: generate(laws, past, slot))(jnp.roll(attention, 1, axis=0), slots)


def mixed(laws: Laws, words, slot):
    r"""$m^\alpha = (1 - \epsilon)$ times the semantic part $+\ \epsilon\, \pi^\alpha(c)$, (B1)."""
    epsilon = laws.epsilon[None, None]
    return (1 - epsilon) * words + epsilon * laws.codes[:, slot, :, None]


def attend(laws: Laws, query, keys, values, filled, slot):
    r"""Weights and $\hat A$ of (B8), over the tokens that there are."""
    logits = laws.sharpness[None] * jnp.sum(keys * query[None], axis=1)
    age = (slot - jnp.arange(keys.shape[0])) % keys.shape[0]
    logits = jnp.where((age < filled)[:, None], logits, -jnp.inf)
    shares = jnp.exp(logits - jnp.max(logits, axis=0, keepdims=True))
    total = jnp.sum(shares, axis=0)
    return shares / total[None], jnp.sum(shares[:, None] * values, axis=0) / total[None]


def append(laws: Laws, rings: Rings, overlaps, slot) -> tuple[Rings, Float[Array, "slots batch"]]:
    """The window with one more token, and the attention weights of that token, by slot."""
    keys, values = (
        jax.lax.dynamic_update_index_in_dim(ring, overlaps[which], slot, 0)
        for ring, which in ((rings.keys, KEY), (rings.values, VALUE))
    )
    filled = jnp.minimum(rings.filled + 1, keys.shape[0])
    shares, attention = attend(laws, overlaps[QUERY], keys, values, filled, slot)
    ring = jax.lax.dynamic_update_index_in_dim(rings.attention, attention, slot, 0)
    return Rings(keys, values, ring, slot, filled), shares


def step(laws: Laws, rings: Rings) -> tuple[Rings, Token, Float[Array, "slots batch"]]:
    """One step of the map, (B7) and (B8): the window, the new token and its attention weights."""
    slot = (rings.slot + 1) % rings.keys.shape[0]
    token = generate(laws, rings.attention[rings.slot], slot)
    rings, shares = append(laws, rings, token.overlaps, slot)
    return rings, token, shares
