"""The statistical mechanics of attention: finite-width theory of attention paths.

One way through: layers -> model (attention, paths, network) -> theory (problem, action, saddle
point, predictor). Nothing is set on import; call `enable_x64()` before the first array is made. All
functions raise ValueError for arguments of wrong shapes, NaN or infinity, and numbers out of range;
their docstrings name further errors.
"""

import importlib as _importlib

import jax as _jax

from statmech_attention import layers, model, theory
from statmech_attention.installed import MissingExtra as _MissingExtra
from statmech_attention.installed import absent as _absent
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
    predict,
    solve,
    solve_sweep,
)

__version__ = _version()

# Subpackages that are imported when they are first used, and their names at the root.
_LATER = {
    "dmft": (),
    "plotting": (),
    "pruning": ("prune", "select_heads"),
    "sampling": ("Chains", "posterior"),
    "tasks": (),
    "training": (),
}
_HOME = {name: package for package, names in _LATER.items() for name in names}


def __getattr__(name: str):
    if name not in _LATER and name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        room = _importlib.import_module(f"{__name__}.{_HOME.get(name, name)}")
    except _MissingExtra as error:  # `hasattr` wants this kind
        raise AttributeError(f"module {__name__!r} has no attribute {name!r} here. {error}") from error
    return room if name in _LATER else getattr(room, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def enable_x64() -> None:
    """Switch JAX to double precision, which the solver and the samplers need.

    Call it once, before the first array is made.
    """
    _jax.config.update("jax_enable_x64", True)


__all__ = [
    "AttentionedInputs",
    "Chains",
    "Heads",
    "Linear",
    "NotConverged",
    "Outcome",
    "Outputs",
    "Problem",
    "SkipHeads",
    "Solution",
    "accuracy",
    "attention_from_products",
    "attention_from_queries_and_keys",
    "attention_from_torch",
    "attention_from_transformers",
    "attentioned_inputs",
    "dmft",
    "enable_x64",
    "fit",
    "forward",
    "head_scores",
    "kernel",
    "kernel_regression",
    "layers",
    "load",
    "log_evidence",
    "minima",
    "model",
    "plotting",
    "posterior",
    "predict",
    "prune",
    "pruning",
    "sample_weights",
    "sampling",
    "save",
    "select_heads",
    "solve",
    "solve_sweep",
    "tasks",
    "theory",
    "training",
]
# `import *` and `help` would stop at a subpackage whose extra is not installed.
_ASKING = {"plotting": "plot", "sampling": "sampling", "training": "train"}
_REFUSED = {package for package, extra in _ASKING.items() if _absent(extra)}
__all__ = [name for name in __all__ if not {name, _HOME.get(name)} & _REFUSED]
