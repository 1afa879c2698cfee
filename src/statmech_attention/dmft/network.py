r"""The network itself, with $N$ semantic bits: tokens drawn by (B1) to (B4), their noise and their memory.

Many replicas run side by side: the same patterns, their own random numbers. Pairs of replicas that
draw with the same random numbers and whose overlaps agree write the same tokens: any difference
between them descends from the difference of their initial windows.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int8

from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.dmft import _map
from statmech_attention.dmft.averages import distinct_columns
from statmech_attention.dmft.mean_field import Overlaps
from statmech_attention.dmft.model import Dynamics, copies_of, laws_of, need_one
from statmech_attention.dmft.patterns import MATRICES
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


@checks.objects
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
    steps, replicas, copies = _wholes(steps=steps, replicas=replicas, copies=copies)
    keep = checks.choices("keep", keep, (*Overlaps._fields, "words"))
    if "words" in keep and copies > 1:
        raise ValueError(f"copies: wanted 1 where words are kept, got {copies}. Take patterns of more sites.")
    many = copies_of(model, replicas)
    rings = rings_of(initial_window(model) if window is None else window, many)
    tables, counts = _sites_of(model) if "words" in keep else _groups_of(model)
    rings, kept = _simulate(laws_of(many), rings, tables, counts * copies, key, steps=steps, keep=keep)
    kept = {name: jnp.moveaxis(part, -1, 0) for name, part in kept.items()}
    words = kept.pop("words", None)
    return Simulation(Overlaps(**kept), window_of(rings, many), words)


@checks.objects
def damage(
    model: Dynamics, *, first: Window, second: Window, key: Key, steps: int, pairs: int = 1
) -> Float[Array, "pairs steps"]:
    r"""Return $D_t = \frac1N \sum_i [s_{i,t} \ne s'_{i,t}]$, the share of bits in which two replicas differ.

    In each step bit $i$ of either replica is $+1$ if one uniform number, common to both, is below
    $\frac12 (1 + \tanh \beta h_i)$ with its own field $h_i$, (B4): each replica by itself is a
    `simulate` of the network. Once two replicas have written $L$ equal tokens in a row, they stay
    equal.

    Args:
        model: `Dynamics` of one network; its patterns have the $N$ sites.
        first: the initial `Window` of the first replica of every pair.
        second: that of the second replica, of the same slot.
        steps: tokens to draw, fixed at compilation.
        pairs: number of pairs side by side, each with its own random numbers.

    Raises:
        ValueError: windows of different slots.
    """
    need_one(model)
    key = checks.key("key", key)
    steps, pairs = _wholes(steps=steps, pairs=pairs)
    _same_slots(first, second)
    copies = copies_of(model, pairs)
    begin = jax.tree.map(
        lambda one, other: jnp.concatenate([one, other], axis=-1) if one.ndim else one,
        rings_of(first, copies),
        rings_of(second, copies),
    )
    return _damage(laws_of(copies_of(model, 2 * pairs)), begin, *_sites_of(model), key, steps=steps)


@checks.objects
def log_likelihood_ratios(
    model: Dynamics, *, first: Window, second: Window, key: Key, steps: int, replicas: int = 1, copies: int = 1
) -> Float[Array, "replicas steps"]:
    r"""Return $r_t = \ln \frac{P'(s_{1:t})}{P(s_{1:t})}$ of words from $P$, the network started in `first`.

    $P'$ is the network started in `second`. After $L$ steps both have the same window and $r$ is
    constant, (B14). Its averages are the total variation $\langle (1 - e^r)_+ \rangle$ of all words
    up to $t$ and the divergence $-\langle r \rangle$.

    Args:
        model: `Dynamics` of one network; its patterns have the $N$ sites.
        first: the `Window` from which words are drawn.
        second: the other `Window`, of the same slot.
        steps: words to draw, fixed at compilation.
        replicas: number of runs side by side.
        copies: multiply $N$, see `simulate`.

    Raises:
        ValueError: windows of different slots.
    """
    need_one(model)
    key = checks.key("key", key)
    steps, replicas, copies = _wholes(steps=steps, replicas=replicas, copies=copies)
    _same_slots(first, second)
    many = copies_of(model, replicas)
    tables, counts = _groups_of(model)
    begin = (rings_of(first, many), rings_of(second, many))
    return _ratios(laws_of(many), begin, tables, counts * copies, key, steps=steps)


@checks.objects
def fluctuations(model: Dynamics, window: Window, *, steps: int) -> Float[Array, "steps features features"]:
    r"""Return $N\, \mathrm{Cov}(m^o_t)$ of the output overlaps $m^o = N^{-1} W^o s$ to leading order in $1/N$, (G12).

    $\Sigma_t = A_t \Sigma_{t-1} A_t^\top + B_t Q_t B_t^\top$ for the deviations of
    $(m^k_\tau, m^v_\tau)$ in the window and of $\hat A_t$: $A$ and $B$ are the derivatives of a
    step by these and by the new word, $Q_t$ the covariance (G9) of a new word. Replicas start from
    the same window, $\Sigma_0 = 0$. At $N$ sites the root mean square distance from the mean field
    is $\sqrt{\mathrm{tr} / (M N)}$ while it is small.

    Args:
        model: `Dynamics` of one network.
        window: the initial `Window` of all replicas.
        steps: number of steps, fixed at compilation.
    """
    need_one(model)
    tables, counts = _groups_of(model)
    single = copies_of(model, 1)
    rings = rings_of(window, single)
    return _covariances(laws_of(single), rings, tables, counts / jnp.sum(counts), steps=checks.whole("steps", steps))


def _wholes(**numbers) -> list[int]:
    return [checks.whole(name, number) for name, number in numbers.items()]


def _same_slots(first: Window, second: Window) -> None:
    """Refuse windows of different slots or numbers of tokens."""
    for name in ("slot", "filled"):
        one, other = (getattr(window, name) for window in (first, second))
        if checks.concrete(one, other) and int(one) != int(other):
            raise ValueError(f"second: wanted a window with {name} {int(one)}, as in first, got {int(other)}.")


def _sites_of(model: Dynamics) -> tuple[Float[Array, "4 features sites"], Float[Array, " sites"]]:
    """Return the words of all four matrices, and the number of sites per column: one."""
    return jnp.stack([getattr(model.patterns, name).words for name in MATRICES]), jnp.ones(model.patterns.sites)


def _groups_of(model: Dynamics) -> tuple[Float[Array, "4 features groups"], Float[Array, " groups"]]:
    """Return the distinct columns of all words, and the number of sites of each."""
    tables, _ = _sites_of(model)
    first, place = distinct_columns(tables.reshape(-1, tables.shape[2]))
    return tables[..., first], jnp.asarray(np.bincount(place), float)


def _fields(rings: _map.Rings, tables) -> Float[Array, "groups batch"]:
    """Return $h_i$ of (B4) for the next token."""
    return tables[_map.OUTPUT].T @ rings.attention[rings.slot]


def _probability(laws: _map.Laws, fields) -> Float[Array, "groups batch"]:
    """Return the probability of +1, (B4)."""
    return (1 + jnp.tanh(laws.beta[None] * fields)) / 2


def _draw(laws: _map.Laws, fields, counts, key: Key) -> Float[Array, "groups batch"]:
    """Draw the mean bit of every group of sites: the number of +1 is binomial."""
    return 2 * jax.random.binomial(key, counts[:, None], _probability(laws, fields)) / counts[:, None] - 1


def _bits_below(laws: _map.Laws, fields, uniforms) -> Float[Array, "groups batch"]:
    """Return bits: +1 where a uniform number is below its probability (B4)."""
    return jnp.where(_probability(laws, fields) > uniforms, 1.0, -1.0)


def _write(laws: _map.Laws, rings: _map.Rings, tables, counts, means) -> tuple[_map.Rings, Overlaps]:
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
        fields = _fields(rings, tables)
        if "words" in keep:
            means = _bits_below(laws, fields, jax.random.uniform(jax.random.fold_in(key, number), fields.shape))
        else:
            means = _draw(laws, fields, counts, jax.random.fold_in(key, number))
        rings, seen = _write(laws, rings, tables, counts, means)
        seen = {**seen._asdict(), "words": means.astype(jnp.int8)}
        return rings, {name: seen[name] for name in keep}

    return jax.lax.scan(body, rings, jnp.arange(steps))


@jax.jit(static_argnames="steps")
def _damage(laws: _map.Laws, rings: _map.Rings, tables: Float[Array, "4 features sites"], counts, key, *, steps):
    def body(rings, number):
        fields = _fields(rings, tables)
        uniforms = jax.random.uniform(jax.random.fold_in(key, number), (fields.shape[0], fields.shape[1] // 2))
        bits = _bits_below(laws, fields, jnp.tile(uniforms, 2))
        rings, _ = _write(laws, rings, tables, counts, bits)
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
        one, other = (_fields(rings, tables) for rings in both)
        means = _draw(laws, one, counts, jax.random.fold_in(key, number))
        ratio = ratio + likelihood(other, means) - likelihood(one, means)
        return (tuple(_write(laws, rings, tables, counts, means)[0] for rings in both), ratio), ratio

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
