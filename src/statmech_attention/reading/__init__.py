"""Attention read off models of other libraries, tested by what they do; none of the libraries is imported here."""

from statmech_attention.reading.heads import only_heads
from statmech_attention.reading.own_slopes import OwnWorth, own_slopes
from statmech_attention.reading.table import HeadReport, report
from statmech_attention.reading.torch_modules import attention_from_torch
from statmech_attention.reading.transformers_models import attention_from_transformers, read_residuals

__all__ = ["OwnWorth", "attention_from_torch", "attention_from_transformers", "only_heads", "own_slopes"]
__all__ += ["HeadReport", "read_residuals", "report"]
