"""Heads that matter and heads that do not: scores, removal and its cost, evidence, smaller networks."""

from statmech_attention.pruning.evidence import (
    COEFFICIENTS,
    HeadEvidence,
    head_evidence,
    log_evidence,
    order_parameters_left,
    without_head,
)
from statmech_attention.pruning.heads import head_indices, heads_left, prune, removal_order
from statmech_attention.pruning.selection import SelectedHeads, select_heads
from statmech_attention.theory.scores import DEFINITIONS, head_scores

__all__ = [
    "COEFFICIENTS",
    "DEFINITIONS",
    "HeadEvidence",
    "SelectedHeads",
    "head_evidence",
    "head_indices",
    "head_scores",
    "heads_left",
    "log_evidence",
    "order_parameters_left",
    "prune",
    "removal_order",
    "select_heads",
    "without_head",
]
