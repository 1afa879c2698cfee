r"""The last $L$ tokens of a network as its mean field sees them, and where to start."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from statmech_attention import checks
from statmech_attention.arguments import Numbers
from statmech_attention.dmft import _map
from statmech_attention.dmft.model import Dynamics, laws_of
from statmech_attention.dmft.patterns import MATRICES


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

    def __getitem__(self, index) -> "Window":
        """That of one network, or of a smaller batch, out of a batch."""
        checks.index("window", index, self.keys.shape[:-2])
        return replace(self, keys=self.keys[index], values=self.values[index], attention=self.attention[index])

    def newest_first(self) -> Float[Array, "*batch slots features"]:
        r"""$X = (\hat A_t, \hat A_{t-1}, .., \hat A_{t-L+1})$, the state that Jacobians are taken in."""
        return newest_first(self.attention, self.slot)


@checks.objects
def start(model: Dynamics) -> Window:
    r"""The window with one token in it, $x_0 = W^o_1$ with slot 0, where the published runs start.

    Args:
        model: `Dynamics`.

    Returns:
        `Window`.
    """
    return window_from_words(model, model.patterns.output.words[:1])


@checks.objects
def window_from_words(model: Dynamics, words: Numbers, *, slot: int | Int[Array, ""] = 0) -> Window:
    r"""The window after some tokens that are given, by (B1) and (B8).

    Args:
        model: `Dynamics`.
        words: `(tokens, sites)` of $\pm1$ (or means in between), the oldest first, at most $L$ tokens.
        slot: of the oldest.

    Returns:
        `Window`, for every network of the batch.

    Raises:
        ValueError: wrong shapes, more tokens than fit, words outside of [-1, 1], a slot that there is not.
    """
    words = checks.array("words", words, "tokens sites", double=True)
    checks.same("words", "words", words.shape[1], "the patterns' sites", model.patterns.sites)
    if words.shape[0] > model.window:
        raise ValueError(f"words: wanted at most {model.window} tokens, as many as fit, got {words.shape[0]}.")
    if checks.concrete(words) and np.any(np.abs(np.asarray(words)) > 1):
        raise ValueError("words: wanted bits +1 and -1, or their means in between, got some outside of [-1, 1].")
    return window_of(_after_words(model, words, _slot(slot, model.window)), model)


@checks.objects
def window_from_attention(model: Dynamics, attention: Numbers, *, slot: int | Int[Array, ""]) -> Window:
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
    slot = _slot(slot, model.window)
    ring = _ring("attention", attention, model, slot)
    return window_of(_after_attention(laws_of(model), ring, slot), model)


@checks.objects
def window_from_overlaps(
    model: Dynamics, *, keys: Numbers, values: Numbers, attention: Numbers, slot: int | Int[Array, ""]
) -> Window:
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
    axes = " ".join(f"batch{number}" for number in range(checks.axes(attention) - 1)) + " features"
    newest = checks.array("attention", attention, axes, double=True)[..., None, :]
    history = jnp.concatenate([newest, jnp.zeros((*newest.shape[:-2], model.window - 1, newest.shape[-1]))], axis=-2)
    given = (("keys", keys), ("values", values), ("attention", history))
    rings = {name: _ring(name, part, model, slot) for name, part in given}
    return window_of(_map.Rings(**rings, slot=slot, filled=jnp.asarray(model.window)), model)


@jax.jit
def rings_of(window: Window, model: Dynamics) -> _map.Rings:
    """The window with the batch as the last axis; one window is given to every network."""
    wanted = (*model.shape, model.window, model.features)
    if window.keys.shape not in (wanted, wanted[-2:]):
        raise ValueError(f"window: wanted arrays of shape {wanted}, as the model has, got {window.keys.shape}.")
    keys, values, attention = (_batch_last(part, model) for part in (window.keys, window.values, window.attention))
    return _map.Rings(keys, values, attention, window.slot, window.filled)


@jax.jit
def window_of(rings: _map.Rings, model: Dynamics) -> Window:
    """The inverse of `rings_of`."""
    keys, values, attention = (batch_first(part, model.shape) for part in (rings.keys, rings.values, rings.attention))
    return Window(keys, values, attention, rings.slot, rings.filled)


@jax.jit
def _after_words(model: Dynamics, words, slot) -> _map.Rings:
    tables = jnp.stack([getattr(model.patterns, name).words for name in MATRICES])
    parts = jnp.einsum("xan,tn->txa", tables, words) / model.patterns.sites
    laws = laws_of(model)
    empty = jnp.zeros((model.window, model.features, laws.beta.size))
    rings = _map.Rings(empty, empty, empty, (slot - 1) % model.window, jnp.asarray(0))

    def body(rings, part):
        place = (rings.slot + 1) % model.window
        return _map.append(laws, rings, _map.mixed(laws, part[..., None], place), place)[0], None

    return jax.lax.scan(body, rings, parts)[0]


@jax.jit
def _after_attention(laws: _map.Laws, ring, slot) -> _map.Rings:
    size = ring.shape[0]
    tokens = _map.generated(laws, ring).overlaps
    tokens = tokens.at[(slot + 1) % size].set(0.0)
    return _map.Rings(tokens[:, _map.KEY], tokens[:, _map.VALUE], ring, slot, jnp.asarray(size))


def _batch_last(part, model: Dynamics):
    shape = part.shape[-2:]
    whole = jnp.broadcast_to(
        part.reshape((1,) * (len(model.shape) + 2 - part.ndim) + part.shape), (*model.shape, *shape)
    )
    return jnp.moveaxis(whole.reshape(-1, *shape), 0, -1)


def newest_first(ring, slot, axis: int = -2):
    """What is there by slot, by age: that of the newest token, at `slot`, first. It is its own inverse."""
    size = ring.shape[axis]
    return jnp.take(ring, (slot - jnp.arange(size)) % size, axis=axis)


def batch_first(part, batch: tuple[int, ...]):
    """The batch as the first axes instead of the last one."""
    return jnp.moveaxis(part, -1, 0).reshape(*batch, *part.shape[:-1])


def _ring(name: str, value, model: Dynamics, slot):
    """Newest first to by slot, the batch last."""
    axes = " ".join(f"batch{number}" for number in range(checks.axes(value) - 2)) + " slots features"
    value = checks.array(name, value, axes, double=True)
    wanted = (*model.shape, model.window, model.features)
    if value.shape not in (wanted, wanted[-2:]):
        raise ValueError(f"{name}: wanted shape {wanted}, newest first, got {value.shape}.")
    return _batch_last(newest_first(value, slot), model)


def _slot(slot, window: int) -> Array:
    if checks.concrete(slot) and getattr(slot, "ndim", 1) == 0 and jnp.issubdtype(slot.dtype, np.integer):
        slot = int(slot)
    if checks.concrete(slot) and not (checks.is_whole(slot, 0) and slot < window):
        raise ValueError(f"slot: wanted a whole number in 0..{window - 1}, got {slot!r}.")
    return jnp.asarray(slot)
