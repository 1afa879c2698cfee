"""Mean-field dynamics of 1-bit self-attention networks, after Poc-López & Aguilera (2024).

patterns -> dynamics -> window -> step, trajectory; `simulate` for the same network at finite size.
"""

from statmech_attention.dmft.mean_field import (
    Dynamics,
    Overlaps,
    Window,
    advance,
    dynamics,
    start,
    step,
    trajectory,
    window_from_attention,
    window_from_overlaps,
    window_from_words,
)
from statmech_attention.dmft.network import Simulation, simulate
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

__all__ = [
    "Correlations",
    "Dynamics",
    "Overlaps",
    "PatternMatrix",
    "Patterns",
    "Simulation",
    "Window",
    "advance",
    "correlations",
    "dynamics",
    "given",
    "independent",
    "pair_correlations",
    "positional_code",
    "segments",
    "simulate",
    "start",
    "step",
    "trajectory",
    "window_from_attention",
    "window_from_overlaps",
    "window_from_words",
]
