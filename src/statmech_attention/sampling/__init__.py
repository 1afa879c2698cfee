"""Sampling: the posterior at finite width, exactly."""

import warnings as _warnings

from statmech_attention.installed import need as _need

_need("sampling", "sampling")

with _warnings.catch_warnings():
    # NumPyro asks for progress bars made of widgets, and in a notebook without ipywidgets that is warned of.
    # Ours are of text.
    _warnings.filterwarnings("ignore", message="IProgress not found")
    import tqdm.auto as _  # noqa: F401

from statmech_attention.sampling._chains import SamplerSettings
from statmech_attention.sampling._outputs import predictors
from statmech_attention.sampling.attention import attention_posterior
from statmech_attention.sampling.diagnostics import MixingWarning, effective_size, estimate, prediction, r_hat
from statmech_attention.sampling.evidence import Importance, importance
from statmech_attention.sampling.order_parameters import posterior, tempered_posterior
from statmech_attention.sampling.weights import weights_posterior
from statmech_attention.theory.corrections import Corrected, corrected
from statmech_attention.theory.kernels.regression import Estimate

__all__ = ["Corrected", "Estimate", "Importance", "MixingWarning", "SamplerSettings", "attention_posterior"]
__all__ += ["corrected", "effective_size", "estimate", "importance", "posterior", "prediction", "predictors", "r_hat"]
__all__ += ["tempered_posterior", "weights_posterior"]
