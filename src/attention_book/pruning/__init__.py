"""Shares of paths and heads in an order parameter, and rank correlations with random orders."""

from attention_book.pruning.random_orders import Ordering, RankCorrelation, ordering, rank_correlation
from attention_book.pruning.shares import head_shares, kernel_shares, layer_shares, path_weights
