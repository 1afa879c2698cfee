"""The statistical mechanics of attention: finite-width theory of attention paths.

One way through: layers -> model (attention, paths, network) -> theory (kernels, action, saddle point, predictor).
Nothing is set on import; call `enable_x64()` before the first array is made.
"""

import importlib as _importlib

import jax as _jax

from statmech_attention import layers
from statmech_attention.installed import absent as _absent
from statmech_attention.installed import version as _version
from statmech_attention.layers import Heads, Linear, Outputs, SkipHeads
from statmech_attention.model.attention import (
    attention_from_products,
    attention_from_queries_and_keys,
    relative_bias,
)
from statmech_attention.model.check_layer import check_layer
from statmech_attention.model.matrices import attention_matrices
from statmech_attention.model.network import (
    Weights,
    effective_weights,
    forward,
    forward_paths,
    sample_weights,
    weights_order_parameters,
)
from statmech_attention.model.normalisation import mean_free, normalisation_scales
from statmech_attention.model.padding import pad_sequences
from statmech_attention.model.paths import AttentionedInputs, attentioned_inputs, path_indices
from statmech_attention.model.reading import attention_from_torch, attention_from_transformers
from statmech_attention.theory.action import action, energy, entropy, gp_order_parameters
from statmech_attention.theory.evidence import evidence_slopes
from statmech_attention.theory.fit import Fit, fit
from statmech_attention.theory.kernels import centred_alignment, kernel, path_kernel, principal_overlaps
from statmech_attention.theory.predictor import JointPrediction, Prediction, accuracy, predict, restrict_paths
from statmech_attention.theory.saddle_point import solve, solve_sweep
from statmech_attention.theory.solution import NotConverged, Solution
from statmech_attention.theory.trust_region import Outcome

__version__ = _version()

# Rooms whose libraries nobody waits for who does not use them, and the names of theirs that stand here too.
_LATER = {
    "dmft": (),
    "pruning": ("head_indices", "head_scores", "prune", "select_heads"),
    "results": (),
    "sampling": (),
    "tasks": (),
    "training": (
        "TrainedNetwork",
        "TrainedWeights",
        "load_network",
        "save_network",
        "train_weights",
    ),
}
_ROOM_OF = {name: room for room, names in _LATER.items() for name in names}


def __getattr__(name: str):
    if name in _LATER:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _ROOM_OF:
        return getattr(_importlib.import_module(f"{__name__}.{_ROOM_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def enable_x64() -> None:
    """Switch JAX to double precision, which the solver and the samplers need.

    Call it once, before the first array is made.
    """
    _jax.config.update("jax_enable_x64", True)


__all__ = [
    "AttentionedInputs",
    "Fit",
    "Heads",
    "JointPrediction",
    "Linear",
    "NotConverged",
    "Outcome",
    "Outputs",
    "Prediction",
    "SkipHeads",
    "Solution",
    "TrainedNetwork",
    "TrainedWeights",
    "Weights",
    "accuracy",
    "action",
    "attention_from_products",
    "attention_from_queries_and_keys",
    "attention_from_torch",
    "attention_from_transformers",
    "attention_matrices",
    "attentioned_inputs",
    "centred_alignment",
    "check_layer",
    "dmft",
    "effective_weights",
    "enable_x64",
    "energy",
    "entropy",
    "evidence_slopes",
    "fit",
    "forward",
    "forward_paths",
    "gp_order_parameters",
    "head_indices",
    "head_scores",
    "kernel",
    "layers",
    "load_network",
    "mean_free",
    "normalisation_scales",
    "pad_sequences",
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
    "select_heads",
    "solve",
    "solve_sweep",
    "tasks",
    "training",
    "train_weights",
    "weights_order_parameters",
]
if _absent("sampling"):  # `import *` and `help` would stop at what is refused
    __all__.remove("sampling")
