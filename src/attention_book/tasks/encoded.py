"""The theory's problem on real attention: layers on a pretrained encoder's heads."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from attention_book.tasks._encoder_layers import Encoder
from attention_book.tasks.encoder import Encoding
from statmech_attention import AttentionedInputs, SkipHeads, attentioned_inputs


def side_by_side(layers: Sequence[Any]) -> list[list[int]]:
    """Per layer of the network, the layers of the encoder whose heads are side by side in it."""
    return [[layer] if np.ndim(layer) == 0 else [*layer] for layer in layers]


def layers_on(encoder: Encoder, sides: Sequence[Sequence[int]], skips: bool) -> list[Any]:
    """Layers of a network with the encoder's heads side by side, with or without skips."""
    kind = SkipHeads if skips else int
    return [kind(len(side) * encoder.heads) for side in sides]


def seen_first(part: Encoding, sides: Sequence[Sequence[int]], layers=None) -> AttentionedInputs:
    """Attentioned inputs read out at the first token; `sides` index `part.attention`."""
    attention = [jnp.concatenate([part.attention[place] for place in side], axis=1) for side in sides]
    seen = attention[0][:, 0].sum(axis=-1) > 0  # nothing attends to padding
    # Only the readout's column goes through the attention.
    return attentioned_inputs(part.embeddings, attention, readout="first", layers=layers, mask=seen)
