"""Sentences through an encoder for several tests: inputs of one network, with features of their own."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp

from attention_book.tasks._encoder_layers import Encoder
from attention_book.tasks.encoded import layers_on, seen_first, side_by_side
from attention_book.tasks.encoder import encoded_batches
from attention_book.tasks.tokens import Tokens
from statmech_attention.layers import Outputs
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.features import Features, fitted_features


class EncodedSentences(NamedTuple):
    """Attentioned inputs of training and test sentences, and their features."""

    train: AttentionedInputs
    test: AttentionedInputs
    features: Features


def encoded_sentences(
    encoder: Encoder,
    tokens: Tokens,
    tokens_test: Tokens,
    layers: Sequence[int | Sequence[int]],
    *,
    directions: int = 64,
    skips: bool = False,
    outputs: int = 1,
    batch: int = 32,
) -> EncodedSentences:
    r"""Attentioned inputs (1) to (7) of sentences on the attention of an encoder.

    $x^0$ is of the tokens that leave the embedding layer; layers (2) are without feed-forward
    blocks, norms and values. Features are the first `directions` principal components of the
    training sentences' $\xi^\pi$, scaled to $\langle |\xi^\pi|^2 \rangle / N_0 = 1$ there. `layers`
    are layers of the encoder, or several with their heads side by side, as in `(2, 4)` or
    `(range(6),)`.
    """
    sides = side_by_side(layers)
    chained = (*layers_on(encoder, sides, skips), *([Outputs(outputs)] if outputs > 1 else []))
    length = max(tokens.ids.shape[1], tokens_test.ids.shape[1])  # one shape for one compilation
    places = itertools.count()  # among the layers asked of the encoder
    asked = [[next(places) for _ in side] for side in sides]

    def inputs_of(sentences: Tokens):
        for part in encoded_batches(encoder, sentences.padded(length), sum(sides, []), batch=batch):
            yield seen_first(part, asked, chained)

    whole = _joined(inputs_of(tokens))
    features = fitted_features(whole, directions)
    # Test sentences with all their features would not fit in memory.
    return EncodedSentences(features.of(whole), _joined(map(features.of, inputs_of(tokens_test))), features)


def _joined(parts: Iterable[AttentionedInputs]) -> AttentionedInputs:
    parts = [*parts]
    return replace(parts[0], values=jnp.concatenate([part.values for part in parts]))
