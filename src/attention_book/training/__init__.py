"""Gradient descent on the one-shot task, in path form."""

from attention_book.training.files import load_network, save_network
from attention_book.training.network import CURVE, TrainedNetwork
from attention_book.training.one_shot import Training, train
from attention_book.training.path_form import Parameters, trained_network
