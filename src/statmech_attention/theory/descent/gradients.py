"""Descent by gradients alone: L-BFGS in the prior's units.

It compiles a gradient and no Hessian, which pays for whole models and for large problems of paths. In the prior's
units the entropy's Hessian is one, and so is the first one that is assumed. Steps are judged by their gradients
where rounding hides a change of the action, so that a descent ends where gradients vanish.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.trust_region import Minimum, Outcome

_MEMORY = 50  # pairs of steps and changes of the gradient
_GRADIENTS = 5  # for each of Newton's steps that are allowed
_TRIALS = 20  # lengths of one step
_ENOUGH, _FLATTER = 1e-4, 0.9  # the descent along a step, and the share of the slope left behind it (Wolfe)
_LONGER, _SHORTER = 3.0, 0.1
_ROUNDING = 1e-12  # of the action


class Descent(NamedTuple):
    """The end of a descent, $P E$ there, and the pairs that it knew: steps and changes of the gradient."""

    minimum: Minimum
    nats: Float[Array, ""]
    pairs: Sequence[tuple[np.ndarray, np.ndarray]]


def descend(action: Action, start, tolerance: float, max_steps: int, pairs: Sequence = ()) -> Descent:
    """Go down from a point until the largest gradient entry is at most `tolerance`; `steps` counts gradients.

    `pairs` are those of a descent on a similar action. Without them the first step has at most length one in the
    prior's units: else the logarithms of narrow heads in wide layers would jump by hundreds. Where the action is no
    number a step was too long.
    """
    here, known = _Place(action, np.asarray(start)), deque(pairs, maxlen=_MEMORY)
    left, outcome = _GRADIENTS * int(max_steps) - 1, Outcome.RUNNING if here.finite else Outcome.NOT_FINITE
    while outcome == Outcome.RUNNING and here.norm > tolerance:
        step = _step(here.slope, known)
        there, taken = _along(here, step if here.slope @ step < 0 else -here.slope, left)
        left -= taken
        if there is None and known and left > 0:
            known.clear()  # and try the gradient itself
        elif there is None:
            outcome = Outcome.STALLED if left > 0 else Outcome.MAX_STEPS
        else:
            pair = there.scaled - here.scaled, there.slope - here.slope
            if pair[0] @ pair[1] > _ROUNDING * np.linalg.norm(pair[0]) * np.linalg.norm(pair[1]):
                known.append(pair)
            here = there
    count = jnp.asarray(_GRADIENTS * int(max_steps) - left, jnp.int32)
    point, value, norm = (jnp.asarray(part) for part in (here.point, here.value, here.norm))
    ended = Outcome.CONVERGED if outcome == Outcome.RUNNING else outcome
    minimum = Minimum(point, value, norm, count, jnp.asarray(int(ended), jnp.int32), None)
    return Descent(minimum, here.nats, tuple(known))


class _Place:
    """A point with its value and gradient, and with both in the prior's units: `scaled` and `slope`."""

    def __init__(self, action: Action, point: np.ndarray, units: np.ndarray | None = None):
        self.action, self.point = action, point
        self.units = action.units if units is None else units
        (value, self.nats), gradient = _value_and_gradient(action, jnp.asarray(point))
        self.value, self.gradient = float(value), np.asarray(gradient)
        self.scaled, self.slope = point / self.units, self.gradient * self.units

    @property
    def finite(self) -> bool:
        """True if action and gradient are numbers."""
        return bool(np.isfinite(self.value) and np.all(np.isfinite(self.gradient)))

    @property
    def norm(self) -> float:
        """The largest gradient entry, infinite where the action is no number."""
        return float(np.max(np.abs(self.gradient))) if self.finite else np.inf

    def beside(self, step: np.ndarray) -> "_Place":
        """The place a step further."""
        return _Place(self.action, self.point + step * self.units, self.units)


def _step(slope: np.ndarray, pairs: deque) -> np.ndarray:
    """Minus the slope times the inverse Hessian of the pairs; beside them it is |step| / |change| of the last."""
    if not pairs:
        return -slope / max(1.0, float(np.linalg.norm(slope)))
    left, shares = slope, []
    for moved, bent in reversed(pairs):
        shares.append(moved @ left / (moved @ bent))
        left = left - shares[-1] * bent
    moved, bent = pairs[-1]
    left = left * np.linalg.norm(moved) / np.linalg.norm(bent)
    for (moved, bent), share in zip(pairs, reversed(shares), strict=True):
        left = left + (share - bent @ left / (moved @ bent)) * moved
    return -left


def _along(here: _Place, step: np.ndarray, left: int) -> tuple[_Place | None, int]:
    """A place along a step with a lower action and a flatter slope, None if there is none; and gradients taken."""
    least, most, length, start = 0.0, np.inf, 1.0, here.slope @ step
    for count in range(1, 1 + min(_TRIALS, left)):
        there = here.beside(length * step)
        ahead, gained = there.slope @ step, here.value - there.value
        hidden = abs(gained) <= _ROUNDING * (1 + abs(here.value))
        if not there.finite:
            most = length
            length = least + _SHORTER * (most - least)
        elif ahead > -_FLATTER * start if hidden else gained < -_ENOUGH * length * start:
            most = length
            length = 0.5 * (least + most)
        elif ahead >= _FLATTER * start:
            return there, count
        else:
            least = length
            length = _LONGER * length if most == np.inf else 0.5 * (least + most)
    return None, min(_TRIALS, left)


@quick_jit(level=0)
def _value_and_gradient(action: Action, point):
    return jax.value_and_grad(action.held, has_aux=True)(point)
