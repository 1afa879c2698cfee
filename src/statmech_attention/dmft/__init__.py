"""Mean-field dynamics of 1-bit self-attention networks, after Poc-López & Aguilera (2024).

patterns -> dynamics -> window -> step, trajectory, advance; `simulate` and `damage` for the same network at finite size.
For example, with tables of one's own, pairs of words `(features, sites)` and positions `(features, bits)`:

    patterns = dmft.given(query=(wq, pq), key=(wk, pk), value=(wv, pv), output=(wo, po))
    model = dmft.dynamics(patterns, beta=1.27, gamma=220, epsilon=0.02)
    window = dmft.advance(model, dmft.start(model), 10_000)
    window, overlaps = dmft.step(model, window)
    dmft.jacobian(model, window)
    dmft.lyapunov_spectrum(model, window, 30_000).exponents
"""

from statmech_attention.dmft.averages import Correlations, correlations, pair_correlations
from statmech_attention.dmft.diagrams import (
    Attractors,
    Bifurcation,
    attractors,
    autocorrelation,
    bifurcation_diagram,
    continuation,
    power_spectrum,
)
from statmech_attention.dmft.instability import Onset, onset
from statmech_attention.dmft.lyapunov import THRESHOLD, LyapunovSpectrum, Regime, jacobian, lyapunov_spectrum, regimes
from statmech_attention.dmft.mean_field import Overlaps, advance, step, trajectory
from statmech_attention.dmft.memory import log_likelihood_ratios
from statmech_attention.dmft.model import Dynamics, dynamics
from statmech_attention.dmft.network import Simulation, damage, simulate
from statmech_attention.dmft.noise import fluctuations
from statmech_attention.dmft.orbits import floquet_multipliers, period, periodic_orbit
from statmech_attention.dmft.patterns import (
    PatternMatrix,
    Patterns,
    given,
    independent,
    positional_code,
    segments,
)
from statmech_attention.dmft.windows import (
    Window,
    start,
    window_from_attention,
    window_from_overlaps,
    window_from_words,
)

__all__ = [
    "Attractors",
    "Bifurcation",
    "Correlations",
    "Dynamics",
    "LyapunovSpectrum",
    "Onset",
    "Overlaps",
    "PatternMatrix",
    "Patterns",
    "Regime",
    "Simulation",
    "THRESHOLD",
    "Window",
    "advance",
    "attractors",
    "autocorrelation",
    "bifurcation_diagram",
    "continuation",
    "correlations",
    "damage",
    "dynamics",
    "floquet_multipliers",
    "fluctuations",
    "given",
    "independent",
    "jacobian",
    "log_likelihood_ratios",
    "lyapunov_spectrum",
    "onset",
    "pair_correlations",
    "period",
    "periodic_orbit",
    "positional_code",
    "power_spectrum",
    "regimes",
    "segments",
    "simulate",
    "start",
    "step",
    "trajectory",
    "window_from_attention",
    "window_from_overlaps",
    "window_from_words",
]
