r"""The mean field of 1-bit self-attention at $N \to \infty$: a deterministic map of overlaps.

Equations (7) and (8), after Poc-López & Aguilera (2024). `dynamics` puts patterns and parameters together; a `Window`
holds the last $L$ tokens; `step`, `trajectory` and `advance` move it on. $\beta$, $\gamma$, $\epsilon$ may be arrays: one
network each, all of them at once; their axes come first in everything.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from statmech_attention import _checks
from statmech_attention.dmft import _map
from statmech_attention.dmft._batches import in_pieces
from statmech_attention.dmft._terms import Terms, character_terms, site_terms
from statmech_attention.dmft.patterns import MATRICES, Patterns, correlations, positional_code


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Dynamics:
    r"""A network in the limit $N \to \infty$, or a batch of networks with the same patterns; made by `dynamics`.

    Attributes:
        patterns: `Patterns`.
        terms: the average over sites as a short sum.
        codes: `(4, slots, features)`, positional overlaps $\pi^\alpha_a(c)$ of query, key, value and output.
        beta: $\beta$, the inverse temperature of the tokens, a number or an array.
        gamma: $\gamma$, the inverse temperature of the attention.
        epsilon: $\epsilon$, the weight of the positional bits.
    """

    patterns: Patterns
    terms: Terms
    codes: Float[Array, "4 slots features"]
    beta: Float[Array, "*betas"]
    gamma: Float[Array, "*gammas"]
    epsilon: Float[Array, "*epsilons"]

    @property
    def window(self) -> int:
        """$L$, tokens that are attended to."""
        return self.codes.shape[1]

    @property
    def features(self) -> int:
        """$M$, patterns in each matrix."""
        return self.codes.shape[2]

    @property
    def shape(self) -> tuple[int, ...]:
        r"""Shape of the batch, that of $\beta$, $\gamma$ and $\epsilon$ together: `()` for one network."""
        return np.broadcast_shapes(self.beta.shape, self.gamma.shape, self.epsilon.shape)

    def at(self, *, beta=None, gamma=None, epsilon=None) -> "Dynamics":
        """The same patterns with other parameters.

        Args:
            beta, gamma, epsilon: as for `dynamics`; those not given stay.

        Returns:
            `Dynamics`.

        Raises:
            ValueError: as `dynamics`.
        """
        mine = (self.beta, self.gamma, self.epsilon)
        new = (old if value is None else value for value, old in zip((beta, gamma, epsilon), mine, strict=True))
        return replace(self, **_parameters(*new))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Window:
    r"""The last $L$ tokens as the mean field sees them, by slot: the token of time $t$ is at $t \bmod L$.

    Made by `start`, `window_from_words`, `window_from_attention` or `window_from_overlaps`.

    Attributes:
        keys: `(*batch, slots, features)`, $m^k$ of every token.
        values: the same for $m^v$.
        attention: the same for $\hat A$: at the slot of $t$ what token $t$ attends to, and generates token $t + 1$ from.
        slot: of the newest token.
        filled: how many tokens there are, at most $L$.
    """

    keys: Float[Array, "*batch slots features"]
    values: Float[Array, "*batch slots features"]
    attention: Float[Array, "*batch slots features"]
    slot: Int[Array, ""]
    filled: Int[Array, ""]

    def newest_first(self) -> Float[Array, "*batch slots features"]:
        r"""$X = (\hat A_t, \hat A_{t-1}, .., \hat A_{t-L+1})$, the state that Jacobians are taken in."""
        size = self.attention.shape[-2]
        return jnp.take(self.attention, (self.slot - jnp.arange(size)) % size, axis=-2)


class Overlaps(NamedTuple):
    r"""What is observed of one token, or of many; None for what was not asked for.

    Attributes:
        query, key, value, output: `(*batch, .., features)`, $m^\alpha$ of (7).
        output_words: $\langle W^o \tanh \rangle$, the semantic part of $m^o$ without its factor $1 - \epsilon$.
        attention: $\hat A$ of (8) at this token.
    """

    query: Float[Array, "*shape"] | None = None
    key: Float[Array, "*shape"] | None = None
    value: Float[Array, "*shape"] | None = None
    output: Float[Array, "*shape"] | None = None
    output_words: Float[Array, "*shape"] | None = None
    attention: Float[Array, "*shape"] | None = None


def dynamics(patterns: Patterns, *, beta, gamma, epsilon, average: str = "sites") -> Dynamics:
    r"""Put patterns and parameters together.

    Args:
        patterns: from `segments`, `independent` or `given`; values must be known, not traced.
        beta: $\beta \ge 0$, a number or an array. Arrays are broadcast with those of `gamma` and `epsilon`.
        gamma: $\gamma \ge 0$; logits are $\gamma / \sqrt M$ times the overlap of query and key.
        epsilon: $\epsilon$ in [0, 1]; $N_P / (N + N_P)$ is plain concatenation of words and positions.
        average: "sites" for the sum over distinct sites, (11), "characters" for the expansion (9). Equal up to rounding.

    Returns:
        `Dynamics`.

    Raises:
        ValueError: parameters out of range or NaN, arrays that cannot be broadcast, single precision.
    """
    if not isinstance(patterns, Patterns):
        raise ValueError(
            f"patterns: wanted Patterns, from segments, independent or given, got {type(patterns).__name__}."
        )
    if average not in ("sites", "characters"):
        raise ValueError(f"average: wanted 'sites' or 'characters', got {average!r}.")
    parameters = _parameters(beta, gamma, epsilon)
    terms = site_terms(patterns) if average == "sites" else character_terms(correlations(patterns))
    code = positional_code(patterns.window)
    codes = jnp.stack([code @ getattr(patterns, name).positions.T / patterns.bits for name in MATRICES])
    return Dynamics(patterns, terms, codes, **parameters)


def start(model: Dynamics) -> Window:
    r"""The window with one token in it, $x_0 = W^o_1$ with slot 0, where the published runs start.

    Args:
        model: `Dynamics`.

    Returns:
        `Window`.
    """
    return window_from_words(model, model.patterns.output.words[:1])


def window_from_words(model: Dynamics, words, *, slot: int = 0) -> Window:
    r"""The window after some tokens that are given, by (1) and (8).

    Args:
        model: `Dynamics`.
        words: `(tokens, sites)` of $\pm1$ (or means in between), the oldest first, at most $L$ tokens.
        slot: of the oldest.

    Returns:
        `Window`, for every network of the batch.

    Raises:
        ValueError: wrong shapes, more tokens than fit, words outside of [-1, 1], a slot that there is not.
    """
    words = _checks.array("words", words, "tokens sites", double=True)
    _checks.same("words", "words", words.shape[1], "the patterns' sites", model.patterns.sites)
    if words.shape[0] > model.window:
        raise ValueError(f"words: wanted at most {model.window} tokens, as many as fit, got {words.shape[0]}.")
    if _checks.concrete(words) and np.any(np.abs(np.asarray(words)) > 1):
        raise ValueError("words: wanted bits +1 and -1, or their means in between, got some outside of [-1, 1].")
    slot = _slot(slot, model.window)
    tables = jnp.stack([getattr(model.patterns, name).words for name in MATRICES])
    parts = jnp.einsum("xan,tn->txa", tables, words) / model.patterns.sites
    laws = laws_of(model)
    empty = jnp.zeros((model.window, model.features, laws.beta.size))
    rings = _map.Rings(empty, empty, empty, (slot - 1) % model.window, jnp.asarray(0))
    for part in parts:
        place = (rings.slot + 1) % model.window
        rings, _ = _map.append(laws, rings, _map.mixed(laws, part[..., None], place), place)
    return window_of(rings, model)


def window_from_attention(model: Dynamics, attention, *, slot: int) -> Window:
    r"""The window that the last $L$ values of $\hat A$ amount to, $X = (\hat A_t, .., \hat A_{t-L+1})$.

    Token $t-d$ was generated from $\hat A_{t-d-1}$, so the oldest token is not known. It is not needed either: the next
    step drops it. Its overlaps are put to zero.

    Args:
        model: `Dynamics`.
        attention: `(*batch, slots, features)` or `(slots, features)`, the newest first.
        slot: of the newest token, $t \bmod L$; the next token has the slot after it.

    Returns:
        `Window`.

    Raises:
        ValueError: wrong shapes, a slot that there is not.
    """
    laws, size = laws_of(model), model.window
    slot = _slot(slot, size)
    ring = _ring("attention", attention, model, slot)
    tokens = jax.vmap(lambda past, place: _map.generate(laws, past, place).overlaps)(
        jnp.roll(ring, 1, axis=0), jnp.arange(size)
    )
    tokens = tokens.at[(slot + 1) % size].set(0.0)
    return window_of(_map.Rings(tokens[:, _map.KEY], tokens[:, _map.VALUE], ring, slot, jnp.asarray(size)), model)


def window_from_overlaps(model: Dynamics, *, keys, values, attention, slot: int) -> Window:
    r"""The window with the overlaps $(m^k, m^v)$ of its tokens, and $\hat A$ at the newest.

    Args:
        model: `Dynamics`.
        keys: `(*batch, slots, features)` or `(slots, features)`, $m^k$, the newest first.
        values: the same for $m^v$.
        attention: `(*batch, features)` or `(features,)`, $\hat A_t$ at the newest token. The older ones are not known: a
            Jacobian has a meaning only after $L$ more steps.
        slot: of the newest token.

    Returns:
        `Window`.

    Raises:
        ValueError: wrong shapes, a slot that there is not.
    """
    slot = _slot(slot, model.window)
    newest = jnp.asarray(attention)[..., None, :]
    history = jnp.concatenate([newest, jnp.zeros((*newest.shape[:-2], model.window - 1, newest.shape[-1]))], axis=-2)
    rings = [_ring(n, v, model, slot) for n, v in (("keys", keys), ("values", values), ("attention", history))]
    return window_of(_map.Rings(*rings, slot, jnp.asarray(model.window)), model)


def step(model: Dynamics, window: Window) -> tuple[Window, Overlaps]:
    r"""One step of the map.

    $m^\alpha_{a,t} = (1-\epsilon) \langle W^\alpha_a \tanh(\beta \sum_b W^o_b \hat A_{b,t-1}) \rangle + \epsilon\, \pi^\alpha_a(t \bmod L)$, (7), and
    $\hat A_t = \sum_\tau w_{t,\tau} m^v_\tau$ with $w_{t,\tau} \propto \exp(\frac{\gamma}{\sqrt M} \sum_b m^q_{b,t} m^k_{b,\tau})$ over the window, (8).

    Args:
        model: `Dynamics`.
        window: `Window`.

    Returns:
        The next window, and the `Overlaps` of the new token, `(*batch, features)` each.

    Raises:
        ValueError: a window of another shape than the model's.
    """
    window, overlaps = trajectory(model, window, 1, last=True)
    return window, Overlaps(*(part[..., 0, :] for part in overlaps))


def trajectory(model: Dynamics, window: Window, steps: int, *, keep=Overlaps._fields, last: bool = False):
    r"""Iterate (7) and (8), and keep what is observed on the way.

    Args:
        model: `Dynamics`.
        window: where to start; its own tokens are not among those returned.
        steps: how many, fixed at compilation.
        keep: names of `Overlaps` to keep.
        last: return the last window, too.

    Returns:
        `Overlaps`, `(*batch, steps, features)` each; with `last` the pair of the last window and them.

    Raises:
        ValueError: a number of steps below 1, unknown names, a window of another shape than the model's.
    """
    if not _checks.whole(steps, 1):
        raise ValueError(f"steps: wanted a whole number of at least 1, got {steps!r}.")
    run = partial(run_rings, steps=int(steps), keep=kept_names(keep))
    rings, kept = in_pieces(run, laws_of(model), rings_of(window, model))
    overlaps = Overlaps(**{name: batch_first(part, model.shape) for name, part in kept.items()})
    return (window_of(rings, model), overlaps) if last else overlaps


def advance(model: Dynamics, window: Window, steps, *, progress: bool | None = False) -> Window:
    r"""Iterate (7) and (8) and keep nothing but the end: memory does not grow with the number of steps.

    Args:
        model: `Dynamics`.
        window: where to start.
        steps: how many; may be traced.
        progress: True or False for a progress bar over parts of the batch or none, None for one on a terminal.

    Returns:
        `Window` after so many steps.

    Raises:
        ValueError: a number of steps below 0, a window of another shape than the model's.
    """
    if _checks.concrete(steps) and not _checks.whole(steps, 0):
        raise ValueError(f"steps: wanted a whole number of at least 0, got {steps!r}.")
    run = partial(advance_rings, steps=steps)
    return window_of(in_pieces(run, laws_of(model), rings_of(window, model), progress=progress), model)


@jax.jit
def advance_rings(laws: _map.Laws, rings: _map.Rings, steps) -> _map.Rings:
    """`advance` with the batch as the last axis."""
    return jax.lax.fori_loop(0, steps, lambda _, rings: _map.step(laws, rings)[0], rings)


@jax.jit(static_argnames=("steps", "keep"))
def run_rings(laws: _map.Laws, rings: _map.Rings, *, steps: int, keep: tuple[str, ...]):
    """`trajectory` with the batch as the last axis, the steps first."""

    def body(rings, _):
        rings, token = _map.step(laws, rings)
        seen = Overlaps(*token.overlaps, token.words[_map.OUTPUT], rings.attention[rings.slot])
        return rings, {name: getattr(seen, name) for name in keep}

    return jax.lax.scan(body, rings, None, length=steps)


def kept_names(keep) -> tuple[str, ...]:
    """Names of `Overlaps`, checked."""
    keep = (keep,) if isinstance(keep, str) else tuple(keep)
    if not keep or not set(keep) <= set(Overlaps._fields):
        raise ValueError(f"keep: wanted names out of {Overlaps._fields}, at least one, got {keep}.")
    return keep


def laws_of(model: Dynamics) -> _map.Laws:
    """What the steps depend on, with the batch as the last axis."""
    with jax.numpy_rank_promotion("allow"):
        beta, gamma, epsilon = (
            jnp.broadcast_to(part, model.shape).reshape(-1) for part in (model.beta, model.gamma, model.epsilon)
        )
    return _map.Laws(*model.terms, model.codes, beta, gamma / np.sqrt(model.features), epsilon)


def rings_of(window: Window, model: Dynamics) -> _map.Rings:
    """The window with the batch as the last axis; one window is given to every network."""
    wanted = (*model.shape, model.window, model.features)
    if window.keys.shape not in (wanted, wanted[-2:]):
        raise ValueError(f"window: wanted arrays of shape {wanted}, as the model has, got {window.keys.shape}.")
    rings = (_batch_last(part, model) for part in (window.keys, window.values, window.attention))
    return _map.Rings(*rings, window.slot, window.filled)


def window_of(rings: _map.Rings, model: Dynamics) -> Window:
    """The inverse of `rings_of`."""
    parts = (batch_first(part, model.shape) for part in (rings.keys, rings.values, rings.attention))
    return Window(*parts, rings.slot, rings.filled)


def _batch_last(part, model: Dynamics):
    shape = part.shape[-2:]
    whole = jnp.broadcast_to(
        part.reshape((1,) * (len(model.shape) + 2 - part.ndim) + part.shape), (*model.shape, *shape)
    )
    return jnp.moveaxis(whole.reshape(-1, *shape), 0, -1)


def batch_first(part, batch: tuple[int, ...]):
    return jnp.moveaxis(part, -1, 0).reshape(*batch, *part.shape[:-1])


def _ring(name: str, value, model: Dynamics, slot):
    """Newest first to by slot, the batch last."""
    value = jnp.asarray(value)
    wanted = (*model.shape, model.window, model.features)
    if value.shape not in (wanted, wanted[-2:]):
        raise ValueError(f"{name}: wanted shape {wanted}, newest first, got {value.shape}.")
    axes = " ".join(f"batch{number}" for number in range(value.ndim - 2)) + " slots features"
    value = _checks.array(name, value, axes, double=True)
    by_slot = jnp.take(value, (slot - jnp.arange(model.window)) % model.window, axis=-2)
    return _batch_last(by_slot, model)


def _slot(slot, window: int):
    if _checks.concrete(slot) and not (_checks.whole(slot, 0) and slot < window):
        raise ValueError(f"slot: wanted a whole number in 0..{window - 1}, got {slot!r}.")
    return jnp.asarray(slot)


def _parameters(beta, gamma, epsilon) -> dict:
    """The parameters as arrays whose shapes broadcast."""
    given = {"beta": beta, "gamma": gamma, "epsilon": epsilon}
    for name, value in given.items():
        value = np.asarray(value) if not hasattr(value, "dtype") else value
        axes = " ".join(f"batch{number}" for number in range(np.ndim(value)))
        value = given[name] = _checks.array(name, value, axes, double=True)
        if _checks.concrete(value):
            least, most = float(jnp.min(value)), float(jnp.max(value))
            if least < 0 or (name == "epsilon" and most > 1):
                wanted = "numbers in [0, 1]" if name == "epsilon" else "numbers of at least 0"
                raise ValueError(f"{name}: wanted {wanted}, got {least if least < 0 else most:g}.")
    try:
        np.broadcast_shapes(*(value.shape for value in given.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in given.items())
        raise ValueError(f"beta, gamma, epsilon: wanted shapes that broadcast, got {shapes}.") from None
    return given
