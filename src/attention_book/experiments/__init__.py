"""The recorded experiments: each is run once, resumable, and made again when its parameters, inputs or revision change.

On images Trained -> NarrowHeads, and Trained -> Theory -> Pruning, EvidenceLost and Samples, which the Snakefile puts in order; by themselves
HiddenMarkovWeights, the weights of networks for the hidden Markov chains, Skips, the same chains with skip connections, Calibration,
whether error bars hold the truth, Evidences, the evidence over widths and temperatures, EncodedHeads, the attention of a
pretrained encoder, EncodedPoints, the theory on it alone, MaskedEncoder, the heads masked in it, and Diagram, diagrams of 1-bit self-attention. The notebooks of `book/runs` run them.
"""

from pathlib import Path

from attention_book.arguments import File
from attention_book.experiments.calibration import Calibration
from attention_book.experiments.diagrams import Diagram, marked
from attention_book.experiments.encoded_heads import EncodedHeads
from attention_book.experiments.encoded_points import EncodedPoints
from attention_book.experiments.evidence_lost import EvidenceLost
from attention_book.experiments.evidences import Evidences
from attention_book.experiments.experiment import Experiment
from attention_book.experiments.masked_encoder import MaskedEncoder
from attention_book.experiments.narrow import NarrowHeads
from attention_book.experiments.networks import experiment_file
from attention_book.experiments.pruning import Pruning, pruning_samples
from attention_book.experiments.samples import Samples
from attention_book.experiments.skips import Skips
from attention_book.experiments.theory import Theory
from attention_book.experiments.trained import Trained
from attention_book.experiments.weights import HiddenMarkovWeights, recorded_sampling, sampling_trial
from statmech_attention import results

_EXPERIMENTS = {
    one.name: one
    for one in (
        Trained,
        Theory,
        NarrowHeads,
        Pruning,
        EvidenceLost,
        Samples,
        HiddenMarkovWeights,
        Skips,
        Calibration,
        Evidences,
        EncodedHeads,
        EncodedPoints,
        MaskedEncoder,
        Diagram,
    )
}


def experiment_of(path: File) -> Experiment:
    """The experiment that made a record, asked for what it was asked for.

    Args:
        path: of the record.

    Returns:
        `Experiment`, in the folder of the record.

    Raises:
        FileNotFoundError, ValueError: as `results.record`; a record that none of `_EXPERIMENTS` made.
    """
    made = results.record(path)
    if made["maker"] not in _EXPERIMENTS:
        raise ValueError(f"{path}: wanted a record of {', '.join(_EXPERIMENTS)}, got one of {made['maker']}.")
    return _EXPERIMENTS[made["maker"]](folder=Path(path).parent, **made["parameters"])


__all__ = [
    "Calibration",
    "Diagram",
    "EncodedHeads",
    "EncodedPoints",
    "EvidenceLost",
    "Evidences",
    "Experiment",
    "HiddenMarkovWeights",
    "MaskedEncoder",
    "NarrowHeads",
    "Pruning",
    "Samples",
    "Skips",
    "Theory",
    "Trained",
    "experiment_file",
    "experiment_of",
    "marked",
    "pruning_samples",
    "recorded_sampling",
    "sampling_trial",
]
