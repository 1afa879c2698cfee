"""Sampling: the posterior at finite width, exactly."""

from statmech_attention.sampling.diagnostics import (
    Estimate,
    MixingWarning,
    effective_size,
    estimate,
    prediction,
    r_hat,
)
from statmech_attention.sampling.order_parameters import posterior

__all__ = ["Estimate", "MixingWarning", "effective_size", "estimate", "posterior", "prediction", "r_hat"]
