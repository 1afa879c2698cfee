r"""The mean field of 1-bit self-attention at $N \to \infty$: a deterministic map of overlaps, (B7) and (B8).

After Poc-López & Aguilera (2024).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
from jaxtyping import Array, Float, Int

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft.model import Dynamics, laws_of
from statmech_attention.dmft.windows import Window, batch_first, rings_of, window_of


class Overlaps(NamedTuple):
    r"""Observables of one token, or of many; None for those not kept.

    Attributes:
        query, key, value, output: `(*batch, .., features)`, $m^\alpha$ of (B7).
        output_words: $\langle W^o \tanh \rangle$, the semantic part of $m^o$ without its factor
            $1 - \epsilon$.
        attention: $\hat A$ of (B8) at this token.
    """

    query: Float[Array, "*shape"] = None  # type: ignore[assignment]
    key: Float[Array, "*shape"] = None  # type: ignore[assignment]
    value: Float[Array, "*shape"] = None  # type: ignore[assignment]
    output: Float[Array, "*shape"] = None  # type: ignore[assignment]
    output_words: Float[Array, "*shape"] = None  # type: ignore[assignment]
    attention: Float[Array, "*shape"] = None  # type: ignore[assignment]


def step(model: Dynamics, window: Window) -> tuple[Window, Overlaps]:
    r"""Take one step of the map.

    $m^\alpha_{a,t} = (1-\epsilon) \langle W^\alpha_a \tanh(\beta \sum_b W^o_b \hat A_{b,t-1}) \rangle
    + \epsilon\, \pi^\alpha_a(t \bmod L)$, (B7), and
    $\hat A_t = \sum_\tau w_{t,\tau} m^v_\tau$ with
    $w_{t,\tau} \propto \exp(\frac{\gamma}{\sqrt M} \sum_b m^q_{b,t} m^k_{b,\tau})$ over the window,
    (B8).

    Returns:
        The next window, and the `Overlaps` of the new token, `(*batch, features)` each.
    """
    window, overlaps = trajectory(model, window, steps=1, last=True)
    return window, Overlaps(*(part[..., 0, :] for part in overlaps))


def trajectory(
    model: Dynamics,
    window: Window,
    *,
    steps: int,
    keep: str | Sequence[str] = Overlaps._fields,
    last: bool = False,
):
    r"""Iterate (B7) and (B8) and keep the observables of all new tokens.

    Args:
        window: the initial `Window`, one for all networks or one per network.
        steps: number of steps, fixed at compilation.
        keep: names of `Overlaps` to keep.
        last: return the last window, too.

    Returns:
        `Overlaps`, `(*batch, steps, features)` each; with `last` the pair (last window, overlaps).
    """
    steps, keep, last = checks.whole("steps", steps), names_kept(keep, Overlaps._fields), checks.flag("last", last)
    rings, kept = _run(laws_of(model), rings_of(window, model), steps=steps, keep=keep)
    overlaps = Overlaps(**{name: batch_first(part, model.shape) for name, part in kept.items()})
    return (window_of(rings, model), overlaps) if last else overlaps


def advance(model: Dynamics, window: Window, *, steps: int | Int[Array, ""]) -> Window:
    r"""Iterate (B7) and (B8) and keep the last window alone.

    Args:
        window: the initial `Window`, one for all networks or one per network.
        steps: number of steps, 0 or more; may be traced.
    """
    if checks.concrete(steps):
        steps = checks.whole("steps", steps, 0)
    return window_of(_advance(laws_of(model), rings_of(window, model), steps), model)


def names_kept(keep: str | Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Return the names of observables to keep, each one of those known; a single name counts as a list of one."""
    names = (keep,) if isinstance(keep, str) else checks.several("keep", keep, "names")
    return tuple(dict.fromkeys(checks.choice("keep", name, known) for name in names))


@jax.jit
def _advance(laws: _map.Laws, rings: _map.Rings, steps) -> _map.Rings:
    return jax.lax.fori_loop(0, steps, lambda _, rings: _map.step(laws, rings)[0], rings)


@jax.jit(static_argnames=("steps", "keep"))
def _run(laws: _map.Laws, rings: _map.Rings, *, steps: int, keep: tuple[str, ...]):
    """Take `steps` steps with the batch as the last axis; the kept observables have the steps first."""

    def body(rings, _):
        rings, token, _ = _map.step(laws, rings)
        seen = Overlaps(*token.overlaps, token.words[_map.OUTPUT], rings.attention[rings.slot])
        return rings, {name: getattr(seen, name) for name in keep}

    return jax.lax.scan(body, rings, None, length=steps)
