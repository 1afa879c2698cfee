"""Figures of the book: one style sheet, drawings of the network, and one function a panel."""

from statmech_attention.plotting.chains import hidden_chains, noisy_tokens, switching
from statmech_attention.plotting.classes import output_order_parameter, state_rows
from statmech_attention.plotting.drawings import attended, one_shot_sequence
from statmech_attention.plotting.dynamics import (
    against_sites,
    attention_loop,
    overlap_series,
    predicted_and_measured,
    token_raster,
)
from statmech_attention.plotting.importances import importances_compared
from statmech_attention.plotting.interactive import Panel, Slider, slider
from statmech_attention.plotting.layers import approach, chain_order_parameter
from statmech_attention.plotting.matrices import attention_matrix, kernel_matrix, order_parameter
from statmech_attention.plotting.one_shot import against_temperature, best_temperatures, entries_compared, path_blocks
from statmech_attention.plotting.panels import (
    against_width,
    groups,
    label_panels,
    legend_above,
    mean_and_error,
    new_figure,
    principal_overlaps,
    reference_line,
)
from statmech_attention.plotting.pruning import pruning_curves, rank_correlations, scores_and_drops
from statmech_attention.plotting.regimes import (
    REGIME_COLOURS,
    REGIMES,
    bifurcation,
    exponents,
    multipliers,
    phase_portrait,
    portrait_slider,
    spectrum,
)
from statmech_attention.plotting.sampling import (
    SAMPLERS,
    distance_against_width,
    entries_sampled,
    estimates,
    evidences,
    law,
    traces,
)
from statmech_attention.plotting.schematics import architecture
from statmech_attention.plotting.style import (
    COLOURS,
    HIDDEN_MARKOV_PATHS,
    path_name,
    use_style,
)

__all__ = [
    "COLOURS",
    "HIDDEN_MARKOV_PATHS",
    "Panel",
    "REGIMES",
    "REGIME_COLOURS",
    "SAMPLERS",
    "Slider",
    "against_sites",
    "against_temperature",
    "against_width",
    "approach",
    "architecture",
    "attended",
    "attention_loop",
    "attention_matrix",
    "best_temperatures",
    "bifurcation",
    "chain_order_parameter",
    "distance_against_width",
    "entries_compared",
    "entries_sampled",
    "estimates",
    "evidences",
    "exponents",
    "groups",
    "hidden_chains",
    "importances_compared",
    "kernel_matrix",
    "label_panels",
    "law",
    "legend_above",
    "mean_and_error",
    "multipliers",
    "new_figure",
    "noisy_tokens",
    "one_shot_sequence",
    "order_parameter",
    "output_order_parameter",
    "overlap_series",
    "path_blocks",
    "path_name",
    "phase_portrait",
    "portrait_slider",
    "predicted_and_measured",
    "principal_overlaps",
    "pruning_curves",
    "rank_correlations",
    "reference_line",
    "scores_and_drops",
    "slider",
    "spectrum",
    "state_rows",
    "switching",
    "token_raster",
    "traces",
    "use_style",
]
