r"""The last $L$ tokens of a network as its mean field represents them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft.model import Dynamics, laws_of, need_dynamics


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Window:
    r"""The last $L$ tokens in the mean field, by slot: the token of time $t$ is at $t \bmod L$.

    Made by `initial_window`, `window_from_words` or `window_from_attention`.

    Attributes:
        keys: `(*batch, slots, features)`, $m^k$ of every token.
        values: `(*batch, slots, features)`, $m^v$ of every token.
        attention: `(*batch, slots, features)`, $\hat A_t$ at the slot of $t$, from which token $t + 1$
            is generated.
        slot: of the newest token.
        filled: number of tokens, at most $L$.
    """

    keys: Float[Array, "*batch slots features"]
    values: Float[Array, "*batch slots features"]
    attention: Float[Array, "*batch slots features"]
    slot: Int[Array, ""]
    filled: Int[Array, ""]

    def __getitem__(self, index) -> "Window":
        """Take the window of one network, or of a smaller batch, out of a batch."""
        np.broadcast_to(0, self.keys.shape[:-2])[index]  # raises IndexError, where JAX would take the last one
        return replace(self, keys=self.keys[index], values=self.values[index], attention=self.attention[index])

    def newest_first(self) -> Float[Array, "*batch slots features"]:
        r"""Return $X = (\hat A_t, \hat A_{t-1}, .., \hat A_{t-L+1})$, the state of Jacobians."""
        return _map.newest_first(self.attention, self.slot)


def initial_window(model: Dynamics) -> Window:
    r"""Return the window of one token, $x_0 = W^o_1$ with slot 0, where the published runs start."""
    return window_from_words(model, need_dynamics(model).patterns.output.words[:1])


def window_from_words(model: Dynamics, words: ArrayLike | Sequence, *, slot: int | Int[Array, ""] = 0) -> Window:
    r"""Return the window after given tokens, by (B1) and (B8), for every network of the batch.

    Args:
        words: `(tokens, sites)` of $\pm1$ or means in between, oldest first, at most $L$ tokens.
        slot: of the oldest token.

    Raises:
        ValueError: wrong shapes, more tokens than fit, words outside of [-1, 1], a slot out of range.
    """
    words = checks.array("words", words, "tokens sites", double=True)
    checks.same("words", "words", words.shape[1], "the patterns' sites", need_dynamics(model).patterns.sites)
    if words.shape[0] > model.window or checks.concrete(words) and np.any(np.abs(np.asarray(words)) > 1):
        got = f"{words.shape[0]} tokens of up to {np.abs(words).max()}"
        raise ValueError(f"words: wanted at most {model.window} tokens, of bits or means in [-1, 1], got {got}.")
    return window_of(_after_words(model, words, _slot(slot, model.window)), model)


def window_from_attention(model: Dynamics, attention: ArrayLike | Sequence, *, slot: int | Int[Array, ""]) -> Window:
    r"""Return the window with given attention, $X = (\hat A_t, .., \hat A_{t-L+1})$.

    Token $t-d$ was generated from $\hat A_{t-d-1}$, so the oldest token is unknown. The next step
    drops it; its overlaps are set to zero.

    Args:
        attention: `(*batch, slots, features)` or `(slots, features)`, newest first.
        slot: of the newest token, $t \bmod L$.
    """
    slot = _slot(slot, need_dynamics(model).window)
    attention = checks.array("attention", attention, " ".join(["axis"] * np.ndim(attention)), double=True)
    wanted = (*model.shape, model.window, model.features)
    if attention.shape not in (wanted, wanted[-2:]):
        raise ValueError(f"attention: wanted shape {wanted}, newest first, got {attention.shape}.")
    ring = _batch_last(_map.newest_first(attention, slot), model)
    return window_of(after_attention(laws_of(model), ring, slot), model)


def rings_of(window: Window, model: Dynamics) -> _map.Rings:
    """Return the window with the batch as the last axis; a single window goes to every network."""
    checks.instance("window", window, Window, instead="Write dmft.initial_window(model).")
    return _rings_of(window, need_dynamics(model))


@jax.jit
def _rings_of(window: Window, model: Dynamics) -> _map.Rings:
    wanted = (*model.shape, model.window, model.features)
    if window.keys.shape not in (wanted, wanted[-2:]):
        raise ValueError(f"window: wanted arrays of shape {wanted}, as the model has, got {window.keys.shape}.")
    keys, values, attention = (_batch_last(part, model) for part in (window.keys, window.values, window.attention))
    return _map.Rings(keys, values, attention, window.slot, window.filled)


@jax.jit
def window_of(rings: _map.Rings, model: Dynamics) -> Window:
    """Invert `rings_of`."""
    keys, values, attention = (batch_first(part, model.shape) for part in (rings.keys, rings.values, rings.attention))
    return Window(keys, values, attention, rings.slot, rings.filled)


def batch_first(part, batch: tuple[int, ...]):
    """Move the batch from the last axis to the first ones."""
    return jnp.moveaxis(part, -1, 0).reshape(*batch, *part.shape[:-1])


def _batch_last(part, model: Dynamics):
    shape = (*model.shape, *part.shape[-2:])
    return jnp.moveaxis(jnp.broadcast_to(part, shape).reshape(-1, *part.shape[-2:]), 0, -1)


@jax.jit
def _after_words(model: Dynamics, words, slot) -> _map.Rings:
    parts = jnp.einsum("xan,tn->txa", model.patterns.words(), words) / model.patterns.sites
    laws = laws_of(model)
    empty = jnp.zeros((model.window, model.features, laws.beta.size))
    rings = _map.Rings(empty, empty, empty, (slot - 1) % model.window, jnp.asarray(0))

    def body(rings, part):
        place = (rings.slot + 1) % model.window
        return _map.append(laws, rings, _map.mixed(laws, part[..., None], place), place)[0], None

    return jax.lax.scan(body, rings, parts)[0]


@jax.jit
def after_attention(laws: _map.Laws, ring, slot) -> _map.Rings:
    size = ring.shape[0]
    tokens = _map.generated(laws, ring).overlaps
    tokens = tokens.at[(slot + 1) % size].set(0.0)
    return _map.Rings(tokens[:, _map.KEY], tokens[:, _map.VALUE], ring, slot, jnp.asarray(size))


def _slot(slot, window: int) -> Array:
    if checks.concrete(slot):
        checks.whole("slot", slot.item() if isinstance(slot, jax.Array) and not slot.ndim else slot, 0, window - 1)
    return jnp.asarray(slot, int)
