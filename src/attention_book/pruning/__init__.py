"""Shares of paths and heads in an order parameter, and other ways to choose heads."""

from attention_book.pruning.baselines import Removals, every_removal, head_confidence, taylor_importance
from attention_book.pruning.removal import (
    head_drops,
    masked_outputs,
    path_contributions,
    predictor_vectors,
    pruning_curve,
    whole_and_without_each,
)
from attention_book.pruning.shares import path_covariance
