"""Gradient descent on all weights while the attention stays as it is, and attention learned by the evidence."""

from statmech_attention.installed import need as _need

_need("train", "training")

from statmech_attention.training.attention import LearnedAttention, learn_attention
from statmech_attention.training.weights import TrainedWeights, train_weights

__all__ = ["LearnedAttention", "TrainedWeights", "learn_attention", "train_weights"]
