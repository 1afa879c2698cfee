"""The recorded experiments: each is run once, resumable, and made again when what it rests on changes.

On images train -> theory -> pruning, `evidence_lost` and `one_shot_sampling`, which the Snakefile puts in order; by
themselves `sampling`, the weights of networks for the hidden Markov chains, and `dynamics`, diagrams of 1-bit
self-attention. The notebooks of `book/runs` call them.
"""

from statmech_attention.experiments._files import experiment_file
from statmech_attention.experiments._state import reason_to_remake, reason_to_run
from statmech_attention.experiments.confirming import confirm
from statmech_attention.experiments.dynamics import dynamics, dynamics_file, marked
from statmech_attention.experiments.evidence_lost import evidence_lost
from statmech_attention.experiments.one_shot_sampling import one_shot_sampling
from statmech_attention.experiments.pruning import pruning, pruning_samples
from statmech_attention.experiments.sampling import recorded_sampling, sampling, sampling_file, sampling_trial
from statmech_attention.experiments.theory import theory
from statmech_attention.experiments.trained import network_file, trained

__all__ = [
    "confirm",
    "dynamics",
    "dynamics_file",
    "evidence_lost",
    "experiment_file",
    "marked",
    "network_file",
    "one_shot_sampling",
    "pruning",
    "pruning_samples",
    "reason_to_remake",
    "reason_to_run",
    "recorded_sampling",
    "sampling",
    "sampling_file",
    "sampling_trial",
    "theory",
    "trained",
]
