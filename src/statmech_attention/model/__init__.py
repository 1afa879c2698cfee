"""The network: attention, the inputs seen along its paths, weights and outputs."""

from statmech_attention.model.attention import (
    SoftmaxAttention,
    attention_from_products,
    attention_from_queries_and_keys,
    attention_matrices,
    relative_bias,
)
from statmech_attention.model.inputs import ReadAttention
from statmech_attention.model.network import (
    Weights,
    effective_weights,
    forward,
    forward_paths,
    sample_weights,
    weights_order_parameters,
)
from statmech_attention.model.normalisation import normalisation_scales
from statmech_attention.model.paths import AttentionedInputs, attentioned_inputs, path_indices
from statmech_attention.model.tokens import TokenInputs, token_inputs

__all__ = ["AttentionedInputs", "ReadAttention", "SoftmaxAttention", "TokenInputs", "Weights"]
__all__ += ["attention_from_products", "attention_from_queries_and_keys", "attention_matrices", "attentioned_inputs"]
__all__ += ["effective_weights", "forward", "forward_paths", "normalisation_scales", "path_indices"]
__all__ += ["relative_bias", "sample_weights", "token_inputs", "weights_order_parameters"]
