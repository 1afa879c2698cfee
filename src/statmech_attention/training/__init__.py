"""Attention learned by the evidence."""

from statmech_attention.installed import need as _need

_need("train", "training")

from statmech_attention.training.attention import LearnedAttention, learn_attention

__all__ = ["LearnedAttention", "learn_attention"]
