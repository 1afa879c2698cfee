"""Figures of the book: one style sheet, drawings of the network, and one function a panel."""

from statmech_attention.plotting.panels import (
    against_width,
    attention_matrix,
    kernel_matrix,
    label_panels,
    mean_and_error,
    new_figure,
    order_parameter,
    principal_overlaps,
    reference_line,
)
from statmech_attention.plotting.schematics import architecture, hidden_chains
from statmech_attention.plotting.style import COLOURS, use_style

__all__ = [
    "COLOURS",
    "against_width",
    "architecture",
    "attention_matrix",
    "hidden_chains",
    "kernel_matrix",
    "label_panels",
    "mean_and_error",
    "new_figure",
    "order_parameter",
    "principal_overlaps",
    "reference_line",
    "use_style",
]
