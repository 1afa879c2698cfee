"""The paper's experiments on images: each is run once, recorded, resumable, and made again when what it rests on changes.

train -> theory -> pruning; the notebooks of `book/runs` call them, the Snakefile puts them in order.
"""

from statmech_attention.experiments._files import experiment_file
from statmech_attention.experiments._state import reason_to_run
from statmech_attention.experiments.pruning import pruning, pruning_samples
from statmech_attention.experiments.theory import theory
from statmech_attention.experiments.trained import network_file, trained

__all__ = [
    "experiment_file",
    "network_file",
    "pruning",
    "pruning_samples",
    "reason_to_run",
    "theory",
    "trained",
]
