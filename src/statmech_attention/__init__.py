"""The statistical mechanics of attention: finite-width theory of attention paths.

One way through: layers -> model (attention, paths, network) -> theory (problem, action, saddle
point, predictor). Nothing is set on import; call `enable_x64()` before the first array is made.
Functions raise ValueError for wrong shapes, NaN or infinity, and numbers out of range.
"""

import importlib as _importlib
from typing import TYPE_CHECKING

import jax as _jax

from statmech_attention import layers, model, reading, theory
from statmech_attention.installed import version as _version
from statmech_attention.layers import Gated, Heads, Linear, Outputs, SkipHeads
from statmech_attention.model import (
    AttentionedInputs,
    TokenInputs,
    attention_from_products,
    attention_from_queries_and_keys,
    attentioned_inputs,
    forward,
    sample_weights,
    token_inputs,
)
from statmech_attention.reading import attention_from_torch, attention_from_transformers, report
from statmech_attention.records import load, save
from statmech_attention.theory import (
    LogisticLabels,
    NotConverged,
    Outcome,
    Problem,
    ProjectedInputs,
    Projection,
    Solution,
    WeightedLabels,
    accuracy,
    criterion,
    first_order,
    head_scores,
    kernel,
    kernel_regression,
    log_evidence,
    maximise_evidence,
    minima,
    projection,
    solve,
    solve_sweep,
)

__version__ = _version()

__all__ = ["AttentionedInputs", "Gated", "Heads", "Linear", "LogisticLabels", "NotConverged", "Outcome", "Outputs"]
__all__ += ["Problem", "SkipHeads", "Solution", "TokenInputs", "WeightedLabels", "accuracy", "attention_from_products"]
__all__ += ["attention_from_queries_and_keys", "attention_from_torch", "attention_from_transformers"]
__all__ += ["attentioned_inputs", "criterion", "enable_x64", "first_order", "forward", "head_scores"]
__all__ += ["kernel", "kernel_regression"]
__all__ += ["layers", "load", "log_evidence", "maximise_evidence", "minima", "model"]
__all__ += ["ProjectedInputs", "Projection", "projection"]
__all__ += ["reading", "report", "sample_weights", "save", "solve", "solve_sweep"]
__all__ += ["theory", "token_inputs"]
# Imported when they are first used: some need an extra. Type checkers read the first block, Python the second.
if TYPE_CHECKING:
    from statmech_attention import dmft as dmft
    from statmech_attention import plotting as plotting
    from statmech_attention import pruning as pruning
    from statmech_attention import sampling as sampling
    from statmech_attention import tasks as tasks
    from statmech_attention import training as training
    from statmech_attention.estimators import AttentionPathsClassifier as AttentionPathsClassifier
    from statmech_attention.estimators import AttentionPathsRegressor as AttentionPathsRegressor
    from statmech_attention.pruning import keep_heads as keep_heads
    from statmech_attention.pruning import select_heads as select_heads
    from statmech_attention.sampling import SamplerSettings as SamplerSettings
    from statmech_attention.sampling import posterior as posterior
else:

    def __getattr__(name: str):
        if name in _SUBPACKAGES:
            return _importlib.import_module(f"{__name__}.{name}")
        if name in _LATER:
            return getattr(_importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_SUBPACKAGES = ("dmft", "plotting", "pruning", "sampling", "tasks", "training")
_LATER = {"keep_heads": "pruning", "select_heads": "pruning", "SamplerSettings": "sampling", "posterior": "sampling"}
_LATER |= {"AttentionPathsClassifier": "estimators", "AttentionPathsRegressor": "estimators"}


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER, *_SUBPACKAGES, "__version__"})


def enable_x64() -> None:
    """Switch JAX to double precision, which the solver and the samplers need.

    Call it once, before the first array is made.
    """
    _jax.config.update("jax_enable_x64", True)
