"""Sampling: the posterior at finite width, exactly."""

from statmech_attention.sampling.diagnostics import (
    Estimate,
    MixingWarning,
    effective_size,
    estimate,
    prediction,
    r_hat,
)
from statmech_attention.sampling.gibbs import gibbs_posterior
from statmech_attention.sampling.order_parameters import posterior
from statmech_attention.sampling.weights import weights_model, weights_posterior

__all__ = [
    "Estimate",
    "MixingWarning",
    "effective_size",
    "estimate",
    "gibbs_posterior",
    "posterior",
    "prediction",
    "r_hat",
    "weights_model",
    "weights_posterior",
]
