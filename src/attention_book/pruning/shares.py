"""Covariance of attentioned inputs along paths."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention.model.paths import AttentionedInputs


def path_covariance(attentioned: AttentionedInputs) -> Float[Array, "paths paths"]:
    r"""$B_{\pi\pi'} = \frac{1}{P N_0} \sum_\mu (\xi^\pi_\mu - \bar\xi^\pi) \cdot (\xi^{\pi'}_\mu - \bar\xi^{\pi'})$."""
    examples, _, features = attentioned.values.shape
    if examples < 2:
        raise ValueError(f"attentioned: wanted at least two examples, got {examples}.")
    centred = attentioned.values - jnp.mean(attentioned.values, axis=0, keepdims=True)
    return jnp.einsum("epi,eqi->pq", centred, centred) / (examples * features)
