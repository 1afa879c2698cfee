"""The recorded experiments: each is run once, resumable, and made again when its parameters, inputs or revision change.

On images Trained -> NarrowHeads, and Trained -> Theory -> Pruning, EvidenceLost and Samples, which the Snakefile puts in order; by themselves
HiddenMarkovWeights, the weights of networks for the hidden Markov chains, Skips, the same chains with skip connections, Calibration,
whether error bars hold the truth, Evidences, the evidence over widths and temperatures, EncodedHeads, the attention of a
pretrained encoder, EncodedPoints, the theory on it alone, MaskedEncoder, the heads masked in it, and Diagram, diagrams of 1-bit self-attention. The notebooks of `book/runs` run them.
"""

from pathlib import Path

from statmech_attention import results
from statmech_attention.arguments import File
from statmech_attention.experiments.calibration import Calibration
from statmech_attention.experiments.diagrams import Diagram, marked
from statmech_attention.experiments.encoded_heads import EncodedHeads
from statmech_attention.experiments.encoded_points import EncodedPoints
from statmech_attention.experiments.evidence_lost import EvidenceLost
from statmech_attention.experiments.evidences import Evidences
from statmech_attention.experiments.experiment import Experiment
from statmech_attention.experiments.masked_encoder import MaskedEncoder
from statmech_attention.experiments.narrow import NarrowHeads
from statmech_attention.experiments.networks import experiment_file
from statmech_attention.experiments.pruning import Pruning, pruning_samples
from statmech_attention.experiments.samples import Samples
from statmech_attention.experiments.skips import Skips
from statmech_attention.experiments.theory import Theory
from statmech_attention.experiments.trained import Trained
from statmech_attention.experiments.weights import HiddenMarkovWeights, recorded_sampling, sampling_trial

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
