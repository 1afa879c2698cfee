"""Fixed points and periodic orbits of the mean field: onset of oscillations and period."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from statmech_attention import checks
from statmech_attention.dmft import _map
from statmech_attention.dmft.model import Dynamics, laws_of
from statmech_attention.dmft.patterns import Patterns, pair_correlations
from statmech_attention.dmft.windows import Window, rings_of


class Onset(NamedTuple):
    r"""Loss of stability of the silent fixed point of the network without positions.

    Attributes:
        beta: $\beta_0$; infinite if the fixed point is stable at all $\beta$.
        frequency: $\theta / 2 \pi$ per step, from 0 to 1/2, of the multiplier $e^{i \theta}$ that
            leaves the unit circle.
    """

    beta: float
    frequency: float


def onset(patterns: Patterns) -> Onset:
    r"""Return the smallest $\beta$ at which
    $\lambda^L = \frac{\beta c}{L} \sum_{d<L} \lambda^{L-1-d}$, (N2), has $|\lambda| = 1$.

    For $\lambda = e^{i \theta}$ the sum is geometric,
    $\beta c = L\, e^{i (L+1) \theta / 2} \sin \frac{\theta}{2} / \sin \frac{L \theta}{2}$, (N2a):
    the angle of the eigenvalue $c$ of $C^{vo}$ gives $\theta$, its modulus $\beta$. With positions
    of weight $\epsilon$ and uniform attention the onset is at $\beta_0 / (1 - \epsilon)$, (N4).

    Args:
        patterns: `Patterns` with known values, not traced.
    """
    checks.instance("patterns", patterns, Patterns, instead="Write dmft.patterns_from_arrays(..).")
    size, candidates = patterns.window, [Onset(np.inf, np.nan)]
    for c in np.linalg.eigvals(np.asarray(pair_correlations(patterns.value, patterns.output))):
        if abs(c) < 1e-12:
            continue
        for turn in range(-2 * size - 2, 2 * size + 3):
            theta = 2 * (np.angle(c) + np.pi * turn) / (size + 1)
            if not -1e-12 <= theta <= 2 * np.pi - 1e-12:
                continue
            up, down = np.sin(theta / 2), np.sin(size * theta / 2)
            ratio = 1 / size if theta < 1e-12 else up / down if abs(down) > 1e-12 else np.inf
            if np.isfinite(ratio) and (ratio > 0) == (turn % 2 == 0):
                frequency = theta / (2 * np.pi)
                candidates.append(Onset(float(size * abs(ratio) / abs(c)), float(min(frequency, 1 - frequency))))
    return min(candidates, key=lambda candidate: candidate.beta)


def period(
    model: Dynamics, window: Window, *, longest: int = 1024, tolerance: float = 1e-9
) -> Int[np.ndarray, "*batch"]:
    r"""Return the smallest $p$ with $\max |X_{t+p} - X_t| \le$ `tolerance` and, unless $\epsilon = 0$, the same slot.

    Args:
        window: `Window` on the attractor; a transient above the tolerance hides a period.
        longest: the longest period looked for.
        tolerance: of every entry of the state.

    Returns:
        `(*batch,)`; 0 where the state does not return.
    """
    longest, tolerance = checks.whole("longest", longest), checks.positive("tolerance", tolerance)
    periods = _first_return(laws_of(model), rings_of(window, model), longest, tolerance)
    return np.asarray(periods).reshape(model.shape)


@jax.jit
def _first_return(laws, rings, most, tolerance):
    size = rings.keys.shape[0]

    def body(number, state):
        rings, shortest = state
        rings, *_ = _map.step(laws, rings)
        back = jnp.max(jnp.abs(_map.newest_first(rings.attention, rings.slot, 0) - first), axis=(0, 1)) <= tolerance
        back = back & ((number % size == 0) | (laws.epsilon == 0))
        return rings, jnp.where((shortest == 0) & back, number, shortest)

    first = _map.newest_first(rings.attention, rings.slot, 0)
    return jax.lax.fori_loop(1, most + 1, body, (rings, jnp.zeros(first.shape[-1], dtype=int)))[1]
