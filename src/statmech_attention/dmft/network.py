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
from statmech_attention.checks import Key
from statmech_attention.dmft import _map
from statmech_attention.dmft.mean_field import Overlaps, names_kept
from statmech_attention.dmft.model import Dynamics, copies_of, laws_of, need_one
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
    key: Key,
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
    need_one(model)
    key = checks.key("key", key)
    sizes = {"steps": steps, "replicas": replicas, "copies": copies}
    steps, replicas, copies = (checks.whole(name, size) for name, size in sizes.items())
    keep = names_kept(keep, (*Overlaps._fields, "words"))
    if "words" in keep and copies > 1:
        raise ValueError(f"copies: wanted 1 where words are kept, got {copies}. Take patterns of more sites.")
    many = copies_of(model, replicas)
    rings = rings_of(initial_window(model) if window is None else window, many)
    tables, counts = sites_of(model) if "words" in keep else groups_of(model)
    rings, kept = _simulate(laws_of(many), rings, tables, counts * copies, key, steps=steps, keep=keep)
    kept = {name: jnp.moveaxis(part, -1, 0) for name, part in kept.items()}
    words = kept.pop("words", None)
    return Simulation(Overlaps(**kept), window_of(rings, many), words)


def sites_of(model: Dynamics) -> tuple[Float[Array, "4 features sites"], Float[Array, " sites"]]:
    """Return the words of all four matrices, and the number of sites per column: one."""
    return model.patterns.words(), jnp.ones(model.patterns.sites)


def groups_of(model: Dynamics) -> tuple[Float[Array, "4 features groups"], Float[Array, " groups"]]:
    """Return the distinct columns of all words, and the number of sites of each."""
    tables, _ = sites_of(model)
    first, place = distinct_columns(tables.reshape(-1, tables.shape[2]))
    return tables[..., first], jnp.asarray(np.bincount(place), float)


def fields_of(rings: _map.Rings, tables) -> Float[Array, "groups batch"]:
    """Return $h_i$ of (B4) for the next token."""
    return tables[_map.OUTPUT].T @ rings.attention[rings.slot]


def _probability(laws: _map.Laws, fields) -> Float[Array, "groups batch"]:
    """Return the probability of +1, (B4)."""
    return (1 + jnp.tanh(laws.beta[None] * fields)) / 2


def draw(laws: _map.Laws, fields, counts, key: Key) -> Float[Array, "groups batch"]:
    """Draw the mean bit of every group of sites: the number of +1 is binomial."""
    return 2 * jax.random.binomial(key, counts[:, None], _probability(laws, fields)) / counts[:, None] - 1


def bits_below(laws: _map.Laws, fields, uniforms) -> Float[Array, "groups batch"]:
    """Return bits: +1 where a uniform number is below its probability (B4)."""
    return jnp.where(_probability(laws, fields) > uniforms, 1.0, -1.0)


def write(laws: _map.Laws, rings: _map.Rings, tables, counts, means) -> tuple[_map.Rings, Overlaps]:
    """Add the token with given mean bits of the groups of sites to the window."""
    _, features, groups = tables.shape
    slot = (rings.slot + 1) % rings.keys.shape[0]
    shares = counts / jnp.sum(counts)
    words = (tables.reshape(-1, groups) @ (shares[:, None] * means)).reshape(4, features, -1)
    overlaps = _map.mixed(laws, words, slot)
    rings, _ = _map.append(laws, rings, overlaps, slot)
    query, key, value, output = overlaps
    return rings, Overlaps(query, key, value, output, words[_map.OUTPUT], rings.attention[slot])


@jax.jit(static_argnames=("steps", "keep"))
def _simulate(laws, rings, tables: Float[Array, "4 features groups"], counts, key, *, steps, keep):
    def body(rings, number):
        fields = fields_of(rings, tables)
        if "words" in keep:
            means = bits_below(laws, fields, jax.random.uniform(jax.random.fold_in(key, number), fields.shape))
        else:
            means = draw(laws, fields, counts, jax.random.fold_in(key, number))
        rings, seen = write(laws, rings, tables, counts, means)
        seen = {**seen._asdict(), "words": means.astype(jnp.int8)}
        return rings, {name: seen[name] for name in keep}

    return jax.lax.scan(body, rings, jnp.arange(steps))
