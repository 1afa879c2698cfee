r"""The network itself, with $N$ semantic bits: tokens drawn one after the other, (B1) to (B4), and how damage spreads in it.

Many replicas run side by side: the same patterns, their own random numbers. Pairs of them that draw with the same ones and
whose overlaps agree write the same tokens: what differs between them has been handed on from the difference that they
started with, and nothing else.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8

from statmech_attention import checks
from statmech_attention.arguments import Names
from statmech_attention.checks import Key
from statmech_attention.dmft import _map
from statmech_attention.dmft.averages import distinct_columns
from statmech_attention.dmft.mean_field import Overlaps, kept_names
from statmech_attention.dmft.model import Dynamics, laws_of, need_one
from statmech_attention.dmft.patterns import MATRICES
from statmech_attention.dmft.windows import Window, rings_of, start, window_of


class Simulation(NamedTuple):
    """Replicas of a network over time.

    Attributes:
        overlaps: `Overlaps`, `(replicas, steps, features)` each.
        window: the last `Window` of every replica; a simulation can go on from it.
        words: the semantic bits of all tokens, if they were asked for.
    """

    overlaps: Overlaps
    window: Window
    words: Int8[Array, "replicas steps sites"] | None = None


@checks.objects
def simulate(
    model: Dynamics,
    *,
    key: Key,
    steps: int,
    replicas: int = 1,
    window: Window | None = None,
    greedy: bool = False,
    copies: int = 1,
    keep: Names = Overlaps._fields,
    keep_words: bool = False,
) -> Simulation:
    r"""Draw tokens, $P(s_{i,t+1} = 1 \mid \hat A_t) = \frac12 (1 + \tanh \beta h_i)$ with $h_i = \sum_a W^o_{a,i} \hat A_{a,t}$, (B4).

    The positional bits of a token are those of its slot; overlaps follow from (B1), $\hat A$ from (B2) and (B3). Sites with the
    same patterns are drawn together, by how many of their bits are $+1$, which is binomial; so the cost of a step grows with
    the number of different columns of the tables, not with $N$, unless the words are kept.

    Args:
        model: `Dynamics` of one network, not of a batch; its patterns have the $N$ sites.
        key: a JAX random key.
        steps: tokens to draw, fixed at compilation.
        replicas: how many networks side by side.
        window: where to start, for all replicas or one each; `start(model)` where None.
        greedy: take the most probable token, the limit of large $\beta$ of (B4), instead of drawing one; $h_i = 0$ counts
            as positive.
        copies: every site stands for so many, as with `patterns.repeat(copies)`, at no cost: $N$ is as many times larger.
        keep: names of `Overlaps` to keep; `output_words` is $N^{-1} W^o s$.
        keep_words: return the tokens, too: `sites` bytes for each replica and step.

    Returns:
        `Simulation`; the tokens of the window it starts from are not in it.

    Raises:
        ValueError: a batch of networks, numbers out of range, unknown names, a window of another shape; words of copies.
    """
    need_one(model)
    key = checks.key("key", key)
    steps, replicas, copies = (
        checks.whole(name, one) for name, one in (("steps", steps), ("replicas", replicas), ("copies", copies))
    )
    if keep_words and copies > 1:
        raise ValueError(f"copies: wanted 1 where words are kept, got {copies}. Use patterns.repeat({copies}).")
    many = model.at(beta=jnp.broadcast_to(model.beta, (replicas,)))
    rings = rings_of(start(model) if window is None else window, many)
    tables, counts = _sites_of(model) if keep_words else groups_of(model)
    rings, kept, words = _simulate(
        laws_of(many),
        rings,
        tables,
        counts * copies,
        key,
        steps=steps,
        greedy=bool(greedy),
        keep=kept_names(keep),
        keep_words=bool(keep_words),
    )
    overlaps = Overlaps(**{name: jnp.moveaxis(part, -1, 0) for name, part in kept.items()})
    return Simulation(overlaps, window_of(rings, many), None if words is None else jnp.moveaxis(words, -1, 0))


@checks.objects
def damage(
    model: Dynamics, *, first: Window, second: Window, key: Key, steps: int, pairs: int = 1
) -> Float[Array, "pairs steps"]:
    r"""$D_t = \frac1N \sum_i [s_{i,t} \ne s'_{i,t}]$: the share of bits in which two replicas differ, step by step.

    In each step bit $i$ of either replica is $+1$ if one uniform number, common to both, is below
    $\frac12 (1 + \tanh \beta h_i)$ with its own field $h_i$, (B4): each replica by itself is a `simulate` of the network.

    Args:
        model: `Dynamics` of one network, not of a batch; its patterns have the $N$ sites.
        first: where the first replica of every pair starts.
        second: where the second one does; of the same slot as the first.
        key: a JAX random key.
        steps: tokens to draw, fixed at compilation.
        pairs: how many pairs side by side, each with random numbers of its own.

    Returns:
        `(pairs, steps)`, between 0 and 1. Once two replicas have written $L$ equal tokens in a row, they stay equal.

    Raises:
        ValueError: a batch of networks, numbers out of range, windows of another shape or of different slots.
    """
    need_one(model)
    key = checks.key("key", key)
    steps, pairs = checks.whole("steps", steps), checks.whole("pairs", pairs)
    same_slots(first, second)
    copies = model.at(beta=jnp.broadcast_to(model.beta, (pairs,)))
    begin = jax.tree.map(
        lambda one, other: jnp.concatenate([one, other], axis=-1) if one.ndim else one,
        rings_of(first, copies),
        rings_of(second, copies),
    )
    both = model.at(beta=jnp.broadcast_to(model.beta, (2 * pairs,)))
    return _damage(laws_of(both), begin, *_sites_of(model), key, steps=steps)


def same_slots(first: Window, second: Window) -> None:
    """Refuse windows that do not go on with the same slot and as many tokens."""
    for name in ("slot", "filled"):
        one, other = (getattr(window, name) for window in (first, second))
        if checks.concrete(one, other) and int(one) != int(other):
            raise ValueError(f"second: wanted a window with {name} {int(one)}, as in first, got {int(other)}.")


@jax.jit(static_argnames=("steps", "greedy", "keep", "keep_words"))
def _simulate(laws, rings, tables: Float[Array, "4 features groups"], counts, key, *, steps, greedy, keep, keep_words):
    def body(rings, number):
        fields = fields_of(rings, tables)
        if greedy:
            means = jnp.where(fields >= 0, 1.0, -1.0)
        elif keep_words:
            means = _bits_below(laws, fields, jax.random.uniform(jax.random.fold_in(key, number), fields.shape))
        else:
            means = draw(laws, fields, counts, jax.random.fold_in(key, number))
        rings, seen = write(laws, rings, tables, counts, means)
        return rings, ({name: getattr(seen, name) for name in keep}, means.astype(jnp.int8) if keep_words else None)

    rings, (kept, words) = jax.lax.scan(body, rings, jnp.arange(steps))
    return rings, kept, words


@jax.jit(static_argnames="steps")
def _damage(laws: _map.Laws, rings: _map.Rings, tables: Float[Array, "4 features sites"], counts, key, *, steps):
    def body(rings, number):
        fields = fields_of(rings, tables)
        uniforms = jax.random.uniform(jax.random.fold_in(key, number), (fields.shape[0], fields.shape[1] // 2))
        bits = _bits_below(laws, fields, jnp.tile(uniforms, 2))
        rings, _ = write(laws, rings, tables, counts, bits)
        one, other = jnp.split(bits, 2, axis=1)
        return rings, jnp.mean(one != other, axis=0)

    return jax.lax.scan(body, rings, jnp.arange(steps))[1].T


def _sites_of(model: Dynamics) -> tuple[Float[Array, "4 features sites"], Float[Array, " sites"]]:
    """The words of all four matrices, and how many sites each of their columns stands for: one."""
    return jnp.stack([getattr(model.patterns, name).words for name in MATRICES]), jnp.ones(model.patterns.sites)


def fields_of(rings: _map.Rings, tables) -> Float[Array, "groups batch"]:
    """$h_i$ of (B4) for the next token."""
    return tables[_map.OUTPUT].T @ rings.attention[rings.slot]


def draw(laws: _map.Laws, fields, counts, key: Key) -> Float[Array, "groups batch"]:
    """Mean bit of every group of sites in the next token: how many are +1 is binomial."""
    return 2 * jax.random.binomial(key, counts[:, None], _probability(laws, fields)) / counts[:, None] - 1


def _bits_below(laws: _map.Laws, fields, uniforms) -> Float[Array, "groups batch"]:
    """Bits of the next token: +1 where a uniform number is below its probability (B4)."""
    return jnp.where(_probability(laws, fields) > uniforms, 1.0, -1.0)


def _probability(laws: _map.Laws, fields) -> Float[Array, "groups batch"]:
    """Of +1, (B4)."""
    return (1 + jnp.tanh(laws.beta[None] * fields)) / 2


def write(laws: _map.Laws, rings: _map.Rings, tables, counts, means) -> tuple[_map.Rings, Overlaps]:
    """The window after the next token, given the mean of its bits over the sites that share a column of the tables."""
    _, features, groups = tables.shape
    slot = (rings.slot + 1) % rings.keys.shape[0]
    shares = counts / jnp.sum(counts)
    words = (tables.reshape(-1, groups) @ (shares[:, None] * means)).reshape(4, features, -1)
    overlaps = _map.mixed(laws, words, slot)
    rings, _ = _map.append(laws, rings, overlaps, slot)
    query, key, value, output = overlaps
    return rings, Overlaps(query, key, value, output, words[_map.OUTPUT], rings.attention[slot])


def groups_of(model: Dynamics) -> tuple[Float[Array, "4 features groups"], Float[Array, " groups"]]:
    """Sites whose patterns are the same have the same field: only how many of their bits are +1 enters the overlaps."""
    tables, _ = _sites_of(model)
    first, place = distinct_columns(tables.reshape(-1, tables.shape[2]))
    return tables[..., first], jnp.asarray(np.bincount(place), float)
