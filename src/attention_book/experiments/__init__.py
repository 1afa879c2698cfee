"""The recorded experiments: each runs once, and again if its parameters, sources or revision change."""

import os
from pathlib import Path

from attention_book import results
from attention_book.experiments.experiment import Experiment
from attention_book.experiments.learning_curve import LearningCurve
from attention_book.experiments.networks import experiment_file
from attention_book.experiments.pruning import Pruning, pruning_samples
from attention_book.experiments.weights import sampling_trial


def experiment_of(path: str | os.PathLike) -> Experiment:
    """Rebuild the experiment that wrote a record, with its recorded parameters."""
    made, makers = results.record(path), Experiment.makers
    if made["maker"] not in makers:
        raise ValueError(f"{path}: wanted a record of {', '.join(makers)}, got one of {made['maker']}.")
    return makers[made["maker"]](folder=Path(path).parent, **made["parameters"])
