"""Mean-field dynamics of 1-bit self-attention networks, after Poc-López & Aguilera (2024).

Patterns and parameters make `Dynamics`; a `Window` of it is advanced by `step`, `trajectory`, `advance`.
`simulate` runs the same network at finite size. All functions raise ValueError for
numbers out of range and windows whose shape is not the model's. With arrays of your own, pairs of words
`(features, sites)` and positions `(features, bits)`:

    patterns = dmft.patterns_from_arrays(query=(wq, pq), key=(wk, pk), value=(wv, pv), output=(wo, po))
    model = dmft.dynamics(patterns, beta=1.27, gamma=220, epsilon=0.02)
    window = dmft.advance(model, dmft.initial_window(model), steps=10_000)
    window, overlaps = dmft.step(model, window)
    dmft.jacobian(model, window)
    dmft.lyapunov_spectrum(model, window, steps=30_000).exponents
"""

from statmech_attention.dmft.lyapunov import THRESHOLD, LyapunovSpectrum, Regime, jacobian, lyapunov_spectrum, regimes
from statmech_attention.dmft.mean_field import Overlaps, advance, step, trajectory
from statmech_attention.dmft.model import Dynamics, dynamics
from statmech_attention.dmft.network import Simulation, simulate
from statmech_attention.dmft.orbits import Onset, onset, period
from statmech_attention.dmft.patterns import (
    PatternMatrix,
    Patterns,
    pair_correlations,
    patterns_from_arrays,
    positional_code,
    published_patterns,
)
from statmech_attention.dmft.windows import Window, initial_window, window_from_attention, window_from_words

__all__ = ["Dynamics", "LyapunovSpectrum", "Onset", "Overlaps", "PatternMatrix", "Patterns", "Regime"]
__all__ += ["Simulation", "THRESHOLD", "Window", "advance", "dynamics", "initial_window", "jacobian"]
__all__ += ["lyapunov_spectrum", "onset", "pair_correlations", "patterns_from_arrays", "period"]
__all__ += ["positional_code", "published_patterns", "regimes", "simulate", "step", "trajectory"]
__all__ += ["window_from_attention", "window_from_words"]
