"""The pretrained encoder's attention of 200 questions, which comes with the book.

They are the training sentences of split 0 of the book's first task, TREC's questions for a
description (+1) or an entity (-1); `pack_sentences.py` makes the file. The questions come
without a licence, so the file has no text; but the encoder's vocabulary turns its embedded tokens
into words again.
"""

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

FILE = Path(__file__).parent / "packed" / "sentences.npz"
LEVELS = 255  # of the square root of the attention
_PARTS = ("lengths", "labels", "step", "embeddings", "attention", "variance_lost")
_DIGEST = "315506888492bd9c3fcc186d7b00b57b80a450bcc2b26ebbdb18ea3f74f1b755"  # SHA-256


class PackedSentences(NamedTuple):
    """Sentences as they enter the encoder, and what each of its heads attends to from the first token."""

    # Principal directions of the attentioned inputs, their mean subtracted; 0 on padding.
    inputs: Float[np.ndarray, "examples keys directions"]
    # Of the first token as query, layer by layer; sums to 1 over keys, 0 on padding.
    attention: Float[np.ndarray, "examples heads keys"]
    labels: Float[np.ndarray, " examples"]  # +1 or -1
    variance_lost: float  # share of the attentioned inputs' variance outside the directions


def packed_sentences(path: Path = FILE) -> PackedSentences:
    """Read the sentences that come with the book."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise FileNotFoundError(f"{path}: not read ({error}). Restore the file of the repository.") from error
    if digest != _DIGEST:
        raise ValueError(f"{path}: wanted SHA-256 {_DIGEST}, got {digest}. Restore the file of the repository.")
    with np.load(path, allow_pickle=False) as held:
        lengths, labels, step, embeddings, levels, lost = (held[name] for name in _PARTS)
    token = np.arange(lengths.max()) < lengths[:, None]
    inputs = np.zeros((*token.shape, embeddings.shape[1]))
    inputs[token] = step * embeddings
    attention = np.zeros((*token.shape, levels.shape[1]))
    attention[token] = (levels / LEVELS) ** 2
    attention /= attention.sum(axis=1, keepdims=True)
    return PackedSentences(inputs, attention.swapaxes(1, 2), labels.astype(float), float(lost))
