r"""Damage spreading: how far two replicas of a network part that draw with the same random numbers.

With common numbers, two replicas whose overlaps agree write the same tokens: what differs between them has been handed
on from the difference that they started with, and nothing else.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft.model import Dynamics, laws_of
from statmech_attention.dmft.network import bits_below, check_run, fields_of, sites_of, write
from statmech_attention.dmft.patterns import Key
from statmech_attention.dmft.windows import Window, rings_of


def damage(
    model: Dynamics, key: Key, steps: int, *, first: Window, second: Window, pairs: int = 1
) -> Float[Array, "pairs steps"]:
    r"""$D_t = \frac1N \sum_i [s_{i,t} \ne s'_{i,t}]$: the share of bits in which two replicas differ, step by step.

    In each step bit $i$ of either replica is $+1$ if one uniform number, common to both, is below
    $\frac12 (1 + \tanh \beta h_i)$ with its own field $h_i$, (4): each replica by itself is a `simulate` of the network.

    Args:
        model: `Dynamics` of one network, not of a batch; its patterns have the $N$ sites.
        key: a JAX random key.
        steps: tokens to draw, fixed at compilation.
        first: where the first replica of every pair starts.
        second: where the second one does; of the same slot as the first.
        pairs: how many pairs side by side, each with random numbers of its own.

    Returns:
        `(pairs, steps)`, between 0 and 1. Once two replicas have written $L$ equal tokens in a row, they stay equal.

    Raises:
        ValueError: a batch of networks, numbers out of range, windows of another shape or of different slots.
    """
    check_run(model, steps=steps, pairs=pairs)
    for name in ("slot", "filled"):
        one, other = (getattr(window, name) for window in (first, second))
        if checks.concrete(one, other) and int(one) != int(other):
            raise ValueError(f"second: wanted a window with {name} {int(one)}, as in first, got {int(other)}.")
    copies = model.at(beta=jnp.broadcast_to(model.beta, (int(pairs),)))
    begin = jax.tree.map(
        lambda one, other: jnp.concatenate([one, other], axis=-1) if one.ndim else one,
        rings_of(first, copies),
        rings_of(second, copies),
    )
    both = model.at(beta=jnp.broadcast_to(model.beta, (2 * int(pairs),)))
    return _damage(laws_of(both), begin, *sites_of(model), key, steps=int(steps))


@jax.jit(static_argnames="steps")
def _damage(laws: _map.Laws, rings: _map.Rings, tables: Float[Array, "4 features sites"], counts, key, *, steps):
    def body(rings, number):
        fields = fields_of(rings, tables)
        uniforms = jax.random.uniform(jax.random.fold_in(key, number), (fields.shape[0], fields.shape[1] // 2))
        bits = bits_below(laws, fields, jnp.tile(uniforms, 2))
        rings, _ = write(laws, rings, tables, counts, bits)
        one, other = jnp.split(bits, 2, axis=1)
        return rings, jnp.mean(one != other, axis=0)

    return jax.lax.scan(body, rings, jnp.arange(steps))[1].T
