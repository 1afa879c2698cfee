"""Gradient descent: networks on the one-shot task in path form, and all weights with the attention as it is."""

from statmech_attention.training.network import CURVE, TrainedNetwork, load_network, save_network, trained_network
from statmech_attention.training.one_shot import Training, train
from statmech_attention.training.path_form import Parameters
from statmech_attention.training.weights import TrainedWeights, train_weights

__all__ = [
    "CURVE",
    "Parameters",
    "TrainedNetwork",
    "TrainedWeights",
    "Training",
    "load_network",
    "save_network",
    "train",
    "train_weights",
    "trained_network",
]
