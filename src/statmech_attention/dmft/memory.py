r"""What the words that a network says tell of the window it started from.

Given its last $L$ words a network knows nothing else of its past: what two windows differ in is told by the first $L$ words or never.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.dmft import _map
from statmech_attention.dmft.model import Dynamics, laws_of, need_one
from statmech_attention.dmft.network import draw, fields_of, groups_of, same_slots, write
from statmech_attention.dmft.windows import Window, rings_of


@checks.objects
def log_likelihood_ratios(
    model: Dynamics, *, first: Window, second: Window, key: Key, steps: int, replicas: int = 1, copies: int = 1
) -> Float[Array, "replicas steps"]:
    r"""$\ln \frac{P'(s_{1:t})}{P(s_{1:t})}$ of words drawn from $P$, the network started in `first`; $P'$ is that started in `second`.

    After $L$ steps it stays as it is, (B14): then both networks have the same window. Its averages are the total variation
    $\langle (1 - e^r)_+ \rangle$ of all that is said up to $t$, and the divergence $-\langle r \rangle$.

    Args:
        model: `Dynamics` of one network, not of a batch; its patterns have the $N$ sites.
        first: the window that words are drawn from.
        second: the other one, of the same slot.
        key: a JAX random key.
        steps: words to draw, fixed at compilation.
        replicas: how many runs side by side.
        copies: as for `simulate`.

    Returns:
        `(replicas, steps)`.

    Raises:
        ValueError: a batch of networks, numbers out of range, windows of another shape or of different slots.
    """
    need_one(model)
    key = checks.key("key", key)
    steps, replicas, copies = (
        checks.whole(name, one) for name, one in (("steps", steps), ("replicas", replicas), ("copies", copies))
    )
    same_slots(first, second)
    many = model.at(beta=jnp.broadcast_to(model.beta, (replicas,)))
    tables, counts = groups_of(model)
    begin = (rings_of(first, many), rings_of(second, many))
    return _ratios(laws_of(many), begin, tables, counts * copies, key, steps=steps)


@partial(jax.jit, static_argnames="steps")
def _ratios(laws: _map.Laws, begin, tables: Float[Array, "4 features groups"], counts, key, *, steps):
    def likelihood(fields, means):
        """Logarithm of (B4); $\\ln 2 \\cosh x = |x| + \\ln (1 + e^{-2|x|})$."""
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
