"""The hidden Markov tasks: inputs, labels and attention heads of known use."""

from statmech_attention.tasks._hidden_chains import HiddenMarkovSample, HiddenMarkovTrial
from statmech_attention.tasks.hidden_markov import HiddenMarkov
from statmech_attention.tasks.hidden_markov_classes import HiddenMarkovClasses

__all__ = ["HiddenMarkov", "HiddenMarkovClasses", "HiddenMarkovSample", "HiddenMarkovTrial"]
