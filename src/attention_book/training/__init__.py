"""Gradient descent on the one-shot task, in path form."""

from attention_book.training.one_shot import Training, train
from attention_book.training.path_form import Parameters, trained_network
