"""Heads that matter and heads that do not: scores, removal and its cost, evidence, smaller networks."""

from statmech_attention.pruning.features import fitted_features
from statmech_attention.pruning.gates import KernelWorth, block_kernels, head_kernels, kernel_worth, unit_slopes
from statmech_attention.pruning.heads import head_indices, keep_heads, kept_heads, removal_order
from statmech_attention.pruning.selection import SelectedHeads, select_blocks, select_heads
from statmech_attention.pruning.worth import HeadWorth, head_worth, without_head
from statmech_attention.theory.kernels.of_paths import DEFINITIONS, head_scores

__all__ = ["DEFINITIONS", "SelectedHeads", "fitted_features", "head_indices"]
__all__ += ["head_scores", "keep_heads", "kept_heads", "removal_order", "select_blocks", "select_heads", "without_head"]
__all__ += ["HeadWorth", "KernelWorth", "block_kernels", "head_kernels", "head_worth", "kernel_worth", "unit_slopes"]
