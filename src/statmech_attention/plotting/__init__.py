"""Figures of order parameters, kernels, head scores and accuracies."""

from statmech_attention.installed import need as _need

_need("plot", "plotting")
from statmech_attention.plotting.matrices import (
    attention_matrix,
    chain_order_parameter,
    kernel_matrix,
    order_parameter,
    output_order_parameter,
    path_blocks,
    path_correlations,
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
from statmech_attention.plotting.style import (
    COLOURS,
    HIDDEN_MARKOV_PATHS,
    REGIME_COLOURS,
    REGIMES,
    path_name,
    use_style,
)

__all__ = [
    "COLOURS",
    "HIDDEN_MARKOV_PATHS",
    "REGIMES",
    "REGIME_COLOURS",
    "against_width",
    "attention_matrix",
    "chain_order_parameter",
    "groups",
    "kernel_matrix",
    "label_panels",
    "legend_above",
    "mean_and_error",
    "new_figure",
    "order_parameter",
    "output_order_parameter",
    "path_blocks",
    "path_correlations",
    "path_name",
    "principal_overlaps",
    "reference_line",
    "use_style",
]
