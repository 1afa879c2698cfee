"""Statistics of replicas of a network: damage, likelihood ratios, covariances of their noise."""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention.dmft import _map
from statmech_attention.dmft.model import copies_of, laws_of, need_one
from statmech_attention.dmft.network import bits_below, draw, fields_of, groups_of, sites_of, write
from statmech_attention.dmft.windows import rings_of


def damage(model, *, first, second, key, steps: int, pairs: int = 1) -> Float[Array, "pairs steps"]:
    r"""Share of bits in which two replicas differ, $D_t = \frac1N \sum_i [s_{i,t} \ne s'_{i,t}]$."""
    _check(model, first, second)
    copies = copies_of(model, pairs)
    begin = jax.tree.map(
        lambda one, other: jnp.concatenate([one, other], axis=-1) if one.ndim else one,
        rings_of(first, copies),
        rings_of(second, copies),
    )
    return _damage(laws_of(copies_of(model, 2 * pairs)), begin, *sites_of(model), key, steps=steps)


def log_likelihood_ratios(
    model, *, first, second, key, steps: int, replicas: int = 1, copies: int = 1
) -> Float[Array, "replicas steps"]:
    r"""$r_t = \ln \frac{P'(s_{1:t})}{P(s_{1:t})}$ of words from $P$; $P$ starts in `first`, $P'$ in `second`."""
    _check(model, first, second)
    many = copies_of(model, replicas)
    tables, counts = groups_of(model)
    begin = (rings_of(first, many), rings_of(second, many))
    return _ratios(laws_of(many), begin, tables, counts * copies, key, steps=steps)


def fluctuations(model, window, *, steps: int) -> Float[Array, "steps features features"]:
    r"""$N\, \mathrm{Cov}(m^o_t)$ of the output overlaps $m^o = N^{-1} W^o s$ to leading order in $1/N$, (G12)."""
    need_one(model)
    tables, counts = groups_of(model)
    single = copies_of(model, 1)
    return _covariances(laws_of(single), rings_of(window, single), tables, counts / jnp.sum(counts), steps=steps)


def _check(model, first, second) -> None:
    """Refuse a batch, and windows of different slots or numbers of tokens."""
    need_one(model)
    for name in ("slot", "filled"):
        one, other = (int(getattr(window, name)) for window in (first, second))
        if one != other:
            raise ValueError(f"second: wanted a window with {name} {one}, as in first, got {other}.")


@partial(jax.jit, static_argnames="steps")
def _damage(laws: _map.Laws, rings: _map.Rings, tables: Float[Array, "4 features sites"], counts, key, *, steps):
    def body(rings, number):
        fields = fields_of(rings, tables)
        uniforms = jax.random.uniform(jax.random.fold_in(key, number), (fields.shape[0], fields.shape[1] // 2))
        bits = bits_below(laws, fields, jnp.tile(uniforms, 2))
        rings, _ = write(laws, rings, tables, counts, bits)
        one, other = jnp.split(bits, 2, axis=1)
        return rings, jnp.mean(one != other, axis=0)

    return jax.lax.scan(body, rings, jnp.arange(steps))[1].T


@partial(jax.jit, static_argnames="steps")
def _ratios(laws: _map.Laws, begin, tables: Float[Array, "4 features groups"], counts, key, *, steps):
    def likelihood(fields, means):
        r"""Return the logarithm of (B4), with $\ln 2 \cosh x = |x| + \ln (1 + e^{-2|x|})$."""
        fields = laws.beta[None] * fields
        normal = jnp.abs(fields) + jnp.log1p(jnp.exp(-2 * jnp.abs(fields)))
        return jnp.sum(counts[:, None] * (fields * means - normal), axis=0)

    def body(carry, number):
        both, ratio = carry
        one, other = (fields_of(rings, tables) for rings in both)
        means = draw(laws, one, counts, jax.random.fold_in(key, number))
        ratio = ratio + likelihood(other, means) - likelihood(one, means)
        return (tuple(write(laws, rings, tables, counts, means)[0] for rings in both), ratio), ratio

    return jax.lax.scan(body, (begin, jnp.zeros(laws.beta.size)), jnp.arange(steps))[1].T


@partial(jax.jit, static_argnames="steps")
def _covariances(laws: _map.Laws, rings: _map.Rings, tables, shares, *, steps):
    slots, features, _ = rings.keys.shape
    window, total = slots * features, (2 * slots + 1) * features
    flat = tables.reshape(-1, tables.shape[-1])

    def moved(state, noise, rings: _map.Rings):
        """Advance (keys, values, attention) and append the new word's output overlaps, with noise on its overlaps."""
        keys, values = (part.reshape(slots, features, 1) for part in (state[:window], state[window : 2 * window]))
        slot = (rings.slot + 1) % slots
        words = _map.generate(laws, state[2 * window :, None], slot).words + noise.reshape(4, features, 1)
        after, _ = _map.append(laws, rings._replace(keys=keys, values=values), _map.mixed(laws, words, slot), slot)
        parts = (after.keys, after.values, after.attention[slot], words[_map.OUTPUT])
        return jnp.concatenate([part.ravel() for part in parts])

    def body(carry, _):
        rings, covariance = carry
        attention = rings.attention[rings.slot, :, 0]
        gains = 1 - jnp.tanh(laws.beta * (tables[_map.OUTPUT].T @ attention)) ** 2
        word = (flat * (shares * gains)[None]) @ flat.T
        state = jnp.concatenate([rings.keys.ravel(), rings.values.ravel(), attention])
        transfer, source = jax.jacfwd(moved, argnums=(0, 1))(state, jnp.zeros(len(flat)), rings)
        spread = transfer @ covariance @ transfer.T + source @ word @ source.T
        return (_map.step(laws, rings)[0], spread[:total, :total]), spread[total:, total:]

    return jax.lax.scan(body, (rings, jnp.zeros((total, total))), None, length=steps)[1]
