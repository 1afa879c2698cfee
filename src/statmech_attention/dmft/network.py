r"""The network itself, with $N$ semantic bits: tokens drawn by (B1) to (B4).

Many replicas run side by side: the same patterns, their own random numbers.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft.mean_field import Overlaps, names_kept
from statmech_attention.dmft.model import Dynamics, laws_of, need_dynamics
from statmech_attention.dmft.patterns import distinct_columns
from statmech_attention.dmft.windows import Window, initial_window, rings_of, window_of


class Simulation(NamedTuple):
    """Replicas of a network over time.

    Attributes:
        overlaps: `Overlaps`, `(replicas, steps, features)` each.
        window: the last `Window` of every replica, from which a simulation can go on.
        words: the semantic bits of all tokens, if kept.
    """

    overlaps: Overlaps
    window: Window
    words: Int8[Array, "replicas steps sites"] | None = None


def simulate(
    model: Dynamics,
    *,
    key: checks.Key,
    steps: int,
    replicas: int = 1,
    window: Window | None = None,
    copies: int = 1,
    keep: str | Sequence[str] = Overlaps._fields,
) -> Simulation:
    r"""Draw tokens, $P(s_{i,t+1} = 1 \mid \hat A_t) = \frac12 (1 + \tanh \beta h_i)$,
    $h_i = \sum_a W^o_{a,i} \hat A_{a,t}$, (B4).

    The positional bits of a token are those of its slot; overlaps follow from (B1), $\hat A$ from
    (B2) and (B3). Sites with the same patterns are drawn together: the number of their bits $+1$ is
    binomial. So the cost of a step grows with the number of distinct columns of the tables, not
    with $N$, unless the words are kept.

    Args:
        model: `Dynamics` of one network; its patterns have the $N$ sites.
        steps: tokens to draw, fixed at compilation.
        replicas: number of networks side by side.
        window: the initial `Window`, for all replicas or one each; if None,
            `initial_window(model)`.
        copies: multiply $N$: every site counts `copies` times, at no cost.
        keep: names of `Overlaps` to keep, `output_words` is $N^{-1} W^o s$; and "words" for the
            tokens, `sites` bytes per replica and step.

    Raises:
        ValueError: unknown names, words together with copies.
    """
    if need_dynamics(model).shape:
        raise ValueError(f"model: wanted one network, got a batch of shape {model.shape}. Take one, as in model[0].")
    key = checks.key("key", key)
    sizes = {"steps": steps, "replicas": replicas, "copies": copies}
    steps, replicas, copies = (checks.whole(name, size) for name, size in sizes.items())
    keep = names_kept(keep, (*Overlaps._fields, "words"))
    if "words" in keep and copies > 1:
        raise ValueError(f"copies: wanted 1 where words are kept, got {copies}. Take patterns of more sites.")
    many = model.at(beta=jnp.broadcast_to(model.beta, (replicas,)))
    rings = rings_of(initial_window(model) if window is None else window, many)
    tables, counts = model.patterns.words(), jnp.ones(model.patterns.sites)  # columns, and how many sites have each
    if "words" not in keep:
        first, place = distinct_columns(tables.reshape(-1, tables.shape[2]))
        tables, counts = tables[..., first], jnp.asarray(np.bincount(place), float)
    rings, kept = _simulate(laws_of(many), rings, tables, counts * copies, key, steps=steps, keep=keep)
    kept = {name: jnp.moveaxis(part, -1, 0) for name, part in kept.items()}
    words = kept.pop("words", None)
    return Simulation(Overlaps(**kept), window_of(rings, many), words)


@jax.jit(static_argnames=("steps", "keep"))
def _simulate(laws, rings, tables: Float[Array, "4 features groups"], counts, key, *, steps, keep):
    shares = counts[:, None] / jnp.sum(counts)

    def body(rings, number):
        subkey = jax.random.fold_in(key, number)
        up = (1 + jnp.tanh(laws.beta[None] * (tables[_map.OUTPUT].T @ rings.attention[rings.slot]))) / 2  # (B4)
        if "words" in keep:
            means = jnp.where(up > jax.random.uniform(subkey, up.shape), 1.0, -1.0)
        else:  # mean bit of a group of sites, whose number of +1 is binomial
            means = 2 * jax.random.binomial(subkey, counts[:, None], up) / counts[:, None] - 1
        words = jnp.einsum("xag,gb->xab", tables, shares * means)
        slot = (rings.slot + 1) % rings.keys.shape[0]
        overlaps = _map.mixed(laws, words, slot)
        rings, _ = _map.append(laws, rings, overlaps, slot)
        seen = Overlaps(*overlaps, words[_map.OUTPUT], rings.attention[slot])._asdict()
        seen["words"] = means.astype(jnp.int8)
        return rings, {name: seen[name] for name in keep}

    return jax.lax.scan(body, rings, jnp.arange(steps))
