"""The hidden Markov task: inputs, labels and attention heads of known use."""

from statmech_attention.tasks.hidden_markov import HiddenMarkov, HiddenMarkovSample, HiddenMarkovTrial

__all__ = ["HiddenMarkov", "HiddenMarkovSample", "HiddenMarkovTrial"]
