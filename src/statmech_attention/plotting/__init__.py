"""Figures of the book: one style sheet, drawings of the network, and one function a panel."""

from statmech_attention.installed import need as _need

_need("plot", "plotting")

from statmech_attention.plotting.dynamics import (
    against_sites,
    overlap_series,
    phase_portrait,
    portrait_slider,
    predicted_and_measured,
    spectrum,
    token_raster,
)
from statmech_attention.plotting.interactive import Panel, Slider, slider
from statmech_attention.plotting.knobs import Knob, Matrix, sliders
from statmech_attention.plotting.matrices import (
    attention_matrix,
    chain_order_parameter,
    kernel_matrix,
    order_parameter,
    output_order_parameter,
    path_blocks,
    path_correlations,
)
from statmech_attention.plotting.one_shot import (
    accuracy_slider,
    against_temperature,
    best_temperatures,
    entries_compared,
)
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
from statmech_attention.plotting.pruning import (
    CRITERIA,
    importances_compared,
    pruning_curves,
    scores_and_drops,
)
from statmech_attention.plotting.regimes import bifurcation, exponents, multipliers, regime_map, regime_ribbon
from statmech_attention.plotting.sampling import (
    SAMPLERS,
    approach,
    coverage,
    distance_against_width,
    entries_sampled,
    estimates,
    law,
    over_temperatures,
    traces,
)
from statmech_attention.plotting.schematics import architecture, attention_loop, order_parameter_flow
from statmech_attention.plotting.style import (
    COLOURS,
    HIDDEN_MARKOV_PATHS,
    REGIME_COLOURS,
    REGIMES,
    path_name,
    use_style,
)
from statmech_attention.plotting.tasks import (
    attended,
    hidden_chains,
    noisy_tokens,
    one_shot_sequence,
    state_rows,
    switching,
)

__all__ = [
    "COLOURS",
    "CRITERIA",
    "HIDDEN_MARKOV_PATHS",
    "Knob",
    "Matrix",
    "Panel",
    "REGIMES",
    "REGIME_COLOURS",
    "SAMPLERS",
    "Slider",
    "accuracy_slider",
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
    "coverage",
    "distance_against_width",
    "entries_compared",
    "entries_sampled",
    "estimates",
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
    "order_parameter_flow",
    "output_order_parameter",
    "overlap_series",
    "path_blocks",
    "path_correlations",
    "over_temperatures",
    "path_name",
    "phase_portrait",
    "portrait_slider",
    "predicted_and_measured",
    "principal_overlaps",
    "pruning_curves",
    "reference_line",
    "regime_map",
    "regime_ribbon",
    "scores_and_drops",
    "slider",
    "sliders",
    "spectrum",
    "state_rows",
    "switching",
    "token_raster",
    "traces",
    "use_style",
]
