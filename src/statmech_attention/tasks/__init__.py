"""Tasks: where inputs, labels and attention heads come from."""

from statmech_attention.tasks.hidden_markov import HiddenMarkov, HiddenMarkovSample, HiddenMarkovTrial

__all__ = ["HiddenMarkov", "HiddenMarkovSample", "HiddenMarkovTrial"]
