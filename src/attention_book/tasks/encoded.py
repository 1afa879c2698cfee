"""The theory's problem on real attention: sentences, seen through the attention matrices of a pretrained encoder."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from attention_book.tasks._encoder_layers import Encoder
from attention_book.tasks.encoder import Encoding, encoded_batches
from attention_book.tasks.tokens import Tokens
from statmech_attention.layers import Outputs, SkipHeads
from statmech_attention.model.features import Features, fitted_features
from statmech_attention.model.paths import AttentionedInputs, attentioned_inputs


class EncodedSentences(NamedTuple):
    """Attentioned inputs of training and test sentences, and the features that they are given in."""

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
    r"""Sentences as the paper's architecture sees them on the attention of an encoder, (1) to (7), read out at the first token.

    $x^0 = V_0 z / \sqrt{N_0}$ with the tokens $z$ that leave the embedding layer, then a layer (2) on the attention matrices
    $\Omega^{(l,h)}$ that the encoder has for this sentence. Its feed-forward blocks, norms and values are left out. Features are
    rotated to the principal components of the training sentences' $\xi^\pi$, centred, and scaled so that there
    $\langle |\xi^\pi|^2 \rangle / N_0 = 1$; test sentences decide nothing.

    Args:
        encoder: `pretrained_encoder()`, or another one.
        tokens: training sentences, the result of `tokenise`.
        tokens_test: test sentences.
        layers: for every layer of the network the encoder's layer whose attention it has, counted from 0, or several of them
            whose heads are side by side: `(2, 4)`, two layers of 12 heads, the third's and the fifth's; `(range(6),)`, one
            of all 72.
        directions: $N_0$, number of features.
        skips: put a skip beside the heads of every layer. The path along skips alone sees the first token as it enters, the
            same for all sentences.
        outputs: how many; more than one for labels of several classes.
        batch: sentences that are encoded at a time.

    Returns:
        `EncodedSentences`; 1200 sentences, 144 paths and 64 features are 90 MB.

    Raises:
        ValueError: no layer, or one that is not there; more directions than there are features or training inputs.
    """
    sides = side_by_side(layers)
    if not sides or not all(sides):
        raise ValueError(f"layers: wanted at least one layer of the encoder for every layer, got {layers!r}.")
    heads = (*layers_on(encoder, sides, skips), *([Outputs(outputs)] if outputs > 1 else []))
    length = max(tokens.ids.shape[1], tokens_test.ids.shape[1])  # one shape, one program
    places = itertools.count()  # of what is asked of the encoder
    asked = [[next(places) for _ in side] for side in sides]

    def seen(sentences: Tokens):
        for part in encoded_batches(encoder, sentences.padded(length), sum(sides, []), batch=batch):
            yield seen_first(part, asked, heads)

    whole = _joined(seen(tokens))
    features = fitted_features(whole, directions)
    # Test sentences are never held with all features.
    return EncodedSentences(features.of(whole), _joined(map(features.of, seen(tokens_test))), features)


def side_by_side(layers: Sequence[Any]) -> list[list[int]]:
    """For every layer of the network the encoder's layers whose heads are side by side in it."""
    return [[layer] if np.ndim(layer) == 0 else [*layer] for layer in layers]


def layers_on(encoder: Encoder, sides: Sequence[Sequence[int]], skips: bool) -> list[Any]:
    """The network's layers: the heads of the encoder's layers that are side by side, with a skip beside them or without."""
    kind = SkipHeads if skips else int
    return [kind(len(side) * encoder.heads) for side in sides]


def seen_first(part: Encoding, sides: Sequence[Sequence[int]], heads=None) -> AttentionedInputs:
    """What a network on the attention of an encoder sees, read out at the first token.

    Args:
        part: encoded sentences.
        sides: for every layer of the network places in `part.attention`.
        heads: the layers, where they are not of heads alone.
    """
    attention = [jnp.concatenate([part.attention[place] for place in side], axis=1) for side in sides]
    # The readout's column is taken through the attention; no other token is.
    return attentioned_inputs(part.embeddings, attention, readout="first", heads=heads)


def _joined(parts: Iterable[AttentionedInputs]) -> AttentionedInputs:
    parts = [*parts]
    return replace(parts[0], values=jnp.concatenate([part.values for part in parts]))
