r"""Where oscillations begin without positions: the polynomial (N2) in closed form."""

from typing import NamedTuple

import numpy as np

from statmech_attention import checks
from statmech_attention.dmft.averages import pair_correlations
from statmech_attention.dmft.patterns import Patterns


class Onset(NamedTuple):
    r"""Where the silent fixed point of the network without positions loses its stability.

    Attributes:
        beta: $\beta_0$; infinite where it never does.
        frequency: $\theta / 2 \pi$ a step, from 0 to 1/2, of the multiplier $e^{i \theta}$ that leaves the unit circle.
    """

    beta: float
    frequency: float


@checks.objects
def onset(patterns: Patterns) -> Onset:
    r"""The smallest $\beta$ at which $\lambda^L = \frac{\beta c}{L} \sum_{d<L} \lambda^{L-1-d}$, (N2), has a solution on the unit circle.

    (N2a): for $\lambda = e^{i \theta}$ the sum is geometric, and $\beta c = L\, e^{i (L+1) \theta / 2} \sin \frac{\theta}{2} / \sin \frac{L \theta}{2}$: the angle of
    the eigenvalue $c$ of $C^{vo}$ gives $\theta$, its modulus $\beta$.

    Args:
        patterns: `Patterns` with known values.

    Returns:
        `Onset`; with positions of weight $\epsilon$ and uniform attention it is at $\beta_0 / (1 - \epsilon)$, (N4).
    """
    size, found = patterns.window, [Onset(np.inf, np.nan)]
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
                found.append(Onset(float(size * abs(ratio) / abs(c)), float(min(frequency, 1 - frequency))))
    return min(found, key=lambda one: one.beta)
