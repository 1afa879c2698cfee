"""Shares of paths and heads in an order parameter, rank correlations, and other ways to choose heads."""

from attention_book.pruning.baselines import (
    Removals,
    every_removal,
    greedy_order,
    head_confidence,
    normalised_by_layer,
    taylor_importance,
)
from attention_book.pruning.random_orders import Ordering, RankCorrelation, ordering, rank_correlation
from attention_book.pruning.removal import (
    head_drops,
    masked_outputs,
    path_contributions,
    predictor_contributions,
    predictor_vectors,
    pruning_curve,
    whole_and_without_each,
)
from attention_book.pruning.shares import path_covariance
