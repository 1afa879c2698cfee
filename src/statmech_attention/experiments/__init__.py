"""The paper's experiments on images: each is run once, recorded, resumable, and made again when what it rests on changes.

train -> theory -> pruning; the notebooks of `book/runs` call them, the Snakefile puts them in order. Besides, `sampling`: weights
of networks for the hidden Markov chains.
"""

from statmech_attention.experiments._state import experiment_file, reason_to_run
from statmech_attention.experiments.pruning import pruning, pruning_file, pruning_samples
from statmech_attention.experiments.sampling import recorded_sampling, sampling, sampling_file, sampling_trial
from statmech_attention.experiments.theory import theory, theory_file
from statmech_attention.experiments.trained import network_file, trained

__all__ = [
    "experiment_file",
    "network_file",
    "pruning",
    "pruning_file",
    "pruning_samples",
    "reason_to_run",
    "recorded_sampling",
    "sampling",
    "sampling_file",
    "sampling_trial",
    "theory",
    "theory_file",
    "trained",
]
