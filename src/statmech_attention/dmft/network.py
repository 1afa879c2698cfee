r"""The network itself, with $N$ semantic bits: tokens drawn one after the other, (1) to (4).

Many replicas run side by side: the same patterns, their own random numbers.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int8

from statmech_attention import _checks
from statmech_attention.dmft import _map
from statmech_attention.dmft.mean_field import Overlaps, kept_names
from statmech_attention.dmft.model import Dynamics, laws_of
from statmech_attention.dmft.patterns import MATRICES, Key
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


def simulate(
    model: Dynamics,
    key: Key,
    steps: int,
    *,
    replicas: int = 1,
    window: Window | None = None,
    greedy: bool = False,
    keep=Overlaps._fields,
    keep_words: bool = False,
) -> Simulation:
    r"""Draw tokens, $P(s_{i,t+1} = 1 \mid \hat A_t) = \frac12 (1 + \tanh \beta h_i)$ with $h_i = \sum_a W^o_{a,i} \hat A_{a,t}$, (4).

    The positional bits of a token are those of its slot; overlaps follow from (1), $\hat A$ from (2) and (3).

    Args:
        model: `Dynamics` of one network, not of a batch; its patterns have the $N$ sites.
        key: a JAX random key.
        steps: tokens to draw, fixed at compilation.
        replicas: how many networks side by side.
        window: where to start, for all replicas or one each; `start(model)` where None.
        greedy: take the most probable token, the limit of large $\beta$ of (4), instead of drawing one; $h_i = 0$ counts
            as positive.
        keep: names of `Overlaps` to keep; `output_words` is $N^{-1} W^o s$.
        keep_words: return the tokens, too: `sites` bytes for each replica and step.

    Returns:
        `Simulation`; the tokens of the window it starts from are not in it.

    Raises:
        ValueError: a batch of networks, numbers out of range, unknown names, a window of another shape.
    """
    if model.shape:
        raise ValueError(
            f"model: wanted one network, got a batch of shape {model.shape}. Take one with model.at(beta=..)."
        )
    for name, number in (("steps", steps), ("replicas", replicas)):
        if not _checks.whole(number, 1):
            raise ValueError(f"{name}: wanted a whole number of at least 1, got {number!r}.")
    copies = model.at(beta=jnp.broadcast_to(model.beta, (int(replicas),)))
    rings = rings_of(start(model) if window is None else window, copies)
    rings, kept, words = _simulate(
        laws_of(copies),
        rings,
        tables_of(model),
        key,
        steps=int(steps),
        greedy=bool(greedy),
        keep=kept_names(keep),
        keep_words=bool(keep_words),
    )
    overlaps = Overlaps(**{name: jnp.moveaxis(part, -1, 0) for name, part in kept.items()})
    return Simulation(overlaps, window_of(rings, copies), None if words is None else jnp.moveaxis(words, -1, 0))


@jax.jit(static_argnames=("steps", "greedy", "keep", "keep_words"))
def _simulate(laws, rings, tables: Float[Array, "4 features sites"], key, *, steps, greedy, keep, keep_words):
    def body(rings, number):
        fields = fields_of(rings, tables)
        uniforms = None if greedy else jax.random.uniform(jax.random.fold_in(key, number), fields.shape)
        rings, seen, bits = write(laws, rings, tables, fields, uniforms)
        return rings, ({name: getattr(seen, name) for name in keep}, bits.astype(jnp.int8) if keep_words else None)

    rings, (kept, words) = jax.lax.scan(body, rings, jnp.arange(steps))
    return rings, kept, words


def tables_of(model: Dynamics) -> Float[Array, "4 features sites"]:
    """The words of all four matrices."""
    return jnp.stack([getattr(model.patterns, name).words for name in MATRICES])


def fields_of(rings: _map.Rings, tables) -> Float[Array, "sites batch"]:
    """$h_i$ of (4) for the next token."""
    return tables[_map.OUTPUT].T @ rings.attention[rings.slot]


def write(laws: _map.Laws, rings: _map.Rings, tables, fields, uniforms=None):
    """The next token, its bits below their probability where `uniforms` are, else the most probable ones."""
    _, features, sites = tables.shape
    up = fields >= 0 if uniforms is None else (1 + jnp.tanh(laws.beta[None] * fields)) / 2 > uniforms
    bits = jnp.where(up, 1.0, -1.0)
    slot = (rings.slot + 1) % rings.keys.shape[0]
    words = (tables.reshape(-1, sites) @ bits / sites).reshape(4, features, -1)
    overlaps = _map.mixed(laws, words, slot)
    rings, _ = _map.append(laws, rings, overlaps, slot)
    return rings, Overlaps(*overlaps, words[_map.OUTPUT], rings.attention[slot]), bits
