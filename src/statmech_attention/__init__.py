"""The statistical mechanics of attention: finite-width theory of attention paths.

One way through: inputs -> attention -> paths -> kernel -> action -> saddle point -> predictor.
Nothing is set on import; call `enable_x64()` before the first array is made.
"""

import jax as _jax

from statmech_attention import dmft, layers, pruning, results, sampling, tasks
from statmech_attention._trust_region import Outcome
from statmech_attention.action import action, energy, entropy, gp_order_parameters
from statmech_attention.attention import (
    attention_from_products,
    attention_from_queries_and_keys,
    attention_matrices,
    relative_bias,
)
from statmech_attention.kernels import centred_alignment, kernel, path_kernel, principal_overlaps
from statmech_attention.layers import Heads, Linear, Outputs, SkipHeads
from statmech_attention.layers.checking import check_layer
from statmech_attention.network import (
    Weights,
    effective_weights,
    forward,
    forward_paths,
    sample_weights,
    weights_order_parameters,
)
from statmech_attention.paths import AttentionedInputs, attentioned_inputs, path_indices
from statmech_attention.predictor import Prediction, accuracy, predict, restrict_paths
from statmech_attention.pruning import head_indices, head_scores, prune
from statmech_attention.saddle_point import solve, solve_sweep
from statmech_attention.solution import NotConverged, Solution
from statmech_attention.training import TrainedNetwork, Training, load_network, save_network, train
from statmech_attention.weight_training import TrainedWeights, train_weights

__version__ = "0.1.0"


def enable_x64() -> None:
    """Switch JAX to double precision, which the solver and the samplers need.

    Call it once, before the first array is made.
    """
    _jax.config.update("jax_enable_x64", True)


__all__ = [
    "AttentionedInputs",
    "Heads",
    "Linear",
    "NotConverged",
    "Outcome",
    "Outputs",
    "Prediction",
    "SkipHeads",
    "Solution",
    "TrainedNetwork",
    "TrainedWeights",
    "Training",
    "Weights",
    "accuracy",
    "action",
    "attention_from_products",
    "attention_from_queries_and_keys",
    "attention_matrices",
    "attentioned_inputs",
    "centred_alignment",
    "check_layer",
    "dmft",
    "effective_weights",
    "enable_x64",
    "energy",
    "entropy",
    "forward",
    "forward_paths",
    "gp_order_parameters",
    "head_indices",
    "head_scores",
    "kernel",
    "layers",
    "load_network",
    "path_indices",
    "path_kernel",
    "predict",
    "principal_overlaps",
    "prune",
    "pruning",
    "relative_bias",
    "restrict_paths",
    "results",
    "sample_weights",
    "sampling",
    "save_network",
    "solve",
    "solve_sweep",
    "tasks",
    "train",
    "train_weights",
    "weights_order_parameters",
]
