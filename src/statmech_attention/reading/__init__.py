"""Attention read off models of other libraries, tested by what they do; none of the libraries is imported here."""

from statmech_attention.reading.torch_modules import attention_from_torch
from statmech_attention.reading.transformers_models import attention_from_transformers, read_residuals

__all__ = ["attention_from_torch", "attention_from_transformers", "read_residuals"]
