"""Descent by gradients alone: SciPy's L-BFGS in the prior's units, and Newton's steps where it ends.

It compiles a gradient and no Hessian, which pays for whole models and for large problems of paths.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.sparse.linalg import cg

from statmech_attention.compiling import quick_jit
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.trust_region import Minimum, Outcome

_MEMORY = 20  # pairs of steps and gradients
_GRADIENTS = 5  # for each of Newton's steps that are allowed
_ATTEMPTS = 4  # from the lowest point so far
_SHORTER = 0.1
_CLOSE = 1e-2  # gradient from which Newton's steps lead to the minimum
_STILL = 1e-14  # of the action, by which a step lowers it that is no longer seen
_POLISH = 5
_PRODUCTS = 100


def descend(action: Action, start, tolerance: float, max_steps: int) -> Minimum:
    """Go down from a point until the largest gradient entry is at most `tolerance`; `steps` counts gradients.

    The first step of L-BFGS has length one, whatever the gradient. It is made as long as the gradient
    in the prior's units, in which the entropy's Hessian is one: else the logarithms of narrow heads in
    wide layers would jump by hundreds. Where the action is no number the step was too long, and a
    shorter one is tried from the lowest point so far.
    """
    track = _Track(action, np.asarray(start), _GRADIENTS * int(max_steps))
    length = min(1.0, float(np.linalg.norm(track.gradient * track.units)))
    for attempt in range(_ATTEMPTS):
        if not tolerance < track.norm < np.inf:
            break
        too_far = _run(track, length * _SHORTER**attempt, tolerance)
        if not too_far or track.norm < _CLOSE:
            break
    _polish(track, tolerance)
    if not np.isfinite(track.norm):
        outcome = Outcome.NOT_FINITE
    elif track.norm <= tolerance:
        outcome = Outcome.CONVERGED
    else:
        outcome = Outcome.STALLED if track.left > 0 else Outcome.MAX_STEPS
    numbers = jnp.asarray(track.value), jnp.asarray(track.norm), jnp.asarray(track.count, jnp.int32)
    return Minimum(jnp.asarray(track.point), *numbers, jnp.asarray(int(outcome), jnp.int32), None)


class _Track:
    """The lowest point so far, its value and gradient, and the number of gradients taken and left."""

    def __init__(self, action: Action, start: np.ndarray, left: int):
        self.action, self.count, self.left = action, 0, left
        self.units = np.asarray(action.bend(jnp.zeros(len(start)))) ** -0.5
        self.keep(start, *self.evaluated(start))

    @property
    def norm(self) -> float:
        """The largest gradient entry, infinite where the action is no number."""
        norm = float(np.max(np.abs(self.gradient)))
        return norm if np.isfinite(norm) else np.inf

    def evaluated(self, point: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient at a point."""
        self.count, self.left = self.count + 1, self.left - 1
        value, gradient = _value_and_gradient(self.action, jnp.asarray(point))
        return float(value), np.asarray(gradient)

    def keep(self, point: np.ndarray, value: float, gradient: np.ndarray) -> None:
        """Go on from this point."""
        self.point, self.value, self.gradient = point, value, gradient


def _run(track: _Track, length: float, tolerance: float) -> bool:
    """L-BFGS from the lowest point so far, with a first step of this length; true if it went too far."""
    from scipy.optimize import minimize

    units, too_far, last = length * track.units, False, np.inf

    def value(scaled):
        nonlocal too_far
        height, gradient = track.evaluated(scaled * units)
        if not (np.isfinite(height) and np.all(np.isfinite(gradient))):
            too_far = True
        elif height < track.value:
            track.keep(scaled * units, height, gradient)
        return height, gradient * units

    def stop(_):
        nonlocal last
        still = last - track.value <= _STILL * (1 + abs(track.value))  # rounding hides further descent
        if track.norm <= tolerance or still and track.norm < _CLOSE:
            raise StopIteration
        last = track.value

    left = max(1, track.left)
    options = {"maxcor": _MEMORY, "maxiter": left, "maxfun": left, "ftol": 0.0, "gtol": 0.0}
    minimize(value, track.point / units, jac=True, method="L-BFGS-B", callback=stop, options=options)
    return too_far


def _polish(track: _Track, tolerance: float) -> None:
    """Newton's steps, where rounding of the action hides further descent."""
    for _ in range(_POLISH):
        if not tolerance < track.norm < _CLOSE:
            return
        step = _newton_step(track.action, jnp.asarray(track.point), jnp.asarray(track.gradient))
        point = track.point + np.asarray(step)
        value, gradient = track.evaluated(point)
        if not np.max(np.abs(gradient)) < track.norm:
            return
        track.keep(point, value, gradient)


@quick_jit()
def _value_and_gradient(action: Action, point):
    return jax.value_and_grad(action.value)(point)


@quick_jit()
def _newton_step(action: Action, point, gradient):
    units = action.bend(jnp.zeros_like(point)) ** -0.5
    product = action.product(point)
    solved, _ = cg(lambda y: units * product(units * y), -units * gradient, tol=1e-4, maxiter=_PRODUCTS)
    return units * solved
