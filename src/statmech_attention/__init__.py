"""The statistical mechanics of attention: finite-width theory of attention paths.

One way through: layers -> model (attention, paths, network) -> theory (problem, action, saddle
point, predictor). Nothing is set on import; call `enable_x64()` before the first array is made.
Functions raise ValueError for wrong shapes, NaN or infinity, and numbers out of range.
"""

import importlib as _importlib

import jax as _jax

from statmech_attention import layers, model, theory
from statmech_attention.installed import version as _version
from statmech_attention.layers import Heads, Linear, Outputs, SkipHeads
from statmech_attention.model import (
    AttentionedInputs,
    attention_from_products,
    attention_from_queries_and_keys,
    attention_from_torch,
    attention_from_transformers,
    attentioned_inputs,
    forward,
    sample_weights,
)
from statmech_attention.records import load, save
from statmech_attention.theory import (
    NotConverged,
    Outcome,
    Problem,
    Solution,
    accuracy,
    fit,
    head_scores,
    kernel,
    kernel_regression,
    log_evidence,
    minima,
    solve,
    solve_sweep,
)

__version__ = _version()

__all__ = ["AttentionedInputs", "Heads", "Linear", "NotConverged", "Outcome", "Outputs", "Problem", "SkipHeads"]
__all__ += ["Solution", "accuracy", "attention_from_products", "attention_from_queries_and_keys"]
__all__ += ["attention_from_torch", "attention_from_transformers", "attentioned_inputs", "enable_x64", "fit"]
__all__ += ["forward", "head_scores", "kernel", "kernel_regression", "layers", "load", "log_evidence", "minima"]
__all__ += ["model", "sample_weights", "save", "solve", "solve_sweep", "theory"]
# Imported when they are first used: some need an extra.
_LATER = {"keep_heads": "pruning", "select_heads": "pruning", "Chains": "sampling", "posterior": "sampling"}
_LATER |= {"AttentionPathsClassifier": "estimators", "AttentionPathsRegressor": "estimators"}
_SUBPACKAGES = ("dmft", "plotting", "pruning", "sampling", "tasks", "training")


def __getattr__(name: str):
    if name in _SUBPACKAGES:
        return _importlib.import_module(f"{__name__}.{name}")
    if name in _LATER:
        return getattr(_importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_LATER, *_SUBPACKAGES, "__version__"})


def enable_x64() -> None:
    """Switch JAX to double precision, which the solver and the samplers need.

    Call it once, before the first array is made.
    """
    _jax.config.update("jax_enable_x64", True)
