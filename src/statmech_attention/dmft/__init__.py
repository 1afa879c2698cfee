"""Mean-field dynamics of 1-bit self-attention networks, after Poc-López & Aguilera (2024).

patterns -> dynamics -> window -> step, trajectory; `simulate` for the same network at finite size.
"""

from statmech_attention.dmft.diagrams import (
    Attractors,
    Bifurcation,
    attractors,
    autocorrelation,
    bifurcation_diagram,
    continuation,
    power_spectrum,
)
from statmech_attention.dmft.lyapunov import LyapunovSpectrum, Regime, jacobian, lyapunov_spectrum, regimes
from statmech_attention.dmft.mean_field import Overlaps, advance, step, trajectory
from statmech_attention.dmft.model import Dynamics, dynamics
from statmech_attention.dmft.network import Simulation, simulate
from statmech_attention.dmft.orbits import floquet_multipliers, period, periodic_orbit
from statmech_attention.dmft.patterns import (
    Correlations,
    PatternMatrix,
    Patterns,
    correlations,
    given,
    independent,
    pair_correlations,
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
    "Overlaps",
    "PatternMatrix",
    "Patterns",
    "Regime",
    "Simulation",
    "Window",
    "advance",
    "attractors",
    "autocorrelation",
    "bifurcation_diagram",
    "continuation",
    "correlations",
    "dynamics",
    "floquet_multipliers",
    "given",
    "independent",
    "jacobian",
    "lyapunov_spectrum",
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
