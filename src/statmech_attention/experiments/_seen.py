"""Sequences as the attention of a trained network presents them, a batch at a time."""

from collections.abc import Iterable
from functools import partial

import jax
import jax.numpy as jnp

from statmech_attention.model.attention import QueryKeyAttention
from statmech_attention.model.paths import AttentionedInputs, attentioned_inputs
from statmech_attention.training.network import TrainedNetwork


def seen_by(network: TrainedNetwork, batches: Iterable) -> AttentionedInputs:
    """The attentioned inputs (7) of many sequences, of which attention matrices exist for one batch at once only.

    Args:
        network: whose queries and keys; all tokens are read out alike.
        batches: arrays `(examples, tokens, features)`.

    Returns:
        `AttentionedInputs` of all batches, one after the other.
    """
    parts = [_through(network.attention, inputs, network.heads).values for inputs in batches]
    return AttentionedInputs(jnp.concatenate(parts), network.heads)


@partial(jax.jit, static_argnames="heads")
def _through(attention: QueryKeyAttention | tuple[()], inputs, heads) -> AttentionedInputs:
    return attentioned_inputs(inputs, attention, "mean", heads)
