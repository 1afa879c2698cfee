"""Costs of removing heads, and other ways to choose them."""

from attention_book.pruning.baselines import Removals, every_removal, head_confidence, taylor_importance
from attention_book.pruning.removal import (
    head_drops,
    masked_outputs,
    path_contributions,
    path_gates,
    predictor_vectors,
    pruning_curve,
    whole_and_without_each,
)
