"""Figures of order parameters, head scores and accuracies."""

from statmech_attention.installed import need as _need

_need("plot", "plotting")
from statmech_attention.plotting.panels import against_width, groups, mean_and_error, order_parameter
from statmech_attention.plotting.style import COLOURS, path_name, use_style

__all__ = ["COLOURS", "against_width", "groups", "mean_and_error", "order_parameter", "path_name", "use_style"]
