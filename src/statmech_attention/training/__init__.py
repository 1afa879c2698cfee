"""Gradient descent on all weights while the attention stays as it is."""

from statmech_attention.training.weights import TrainedWeights, train_weights

__all__ = ["TrainedWeights", "train_weights"]
