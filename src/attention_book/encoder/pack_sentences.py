"""Pack the encoder's attention of the 200 questions that come with the book, from what `make text` installs.

Prints the file's checksum, which goes into `attention_book/encoder/packed_sentences.py`.
"""

import hashlib

import numpy as np

import statmech_attention as sma
from attention_book.encoder.encoding import encode
from attention_book.encoder.inputs import TASKS, words
from attention_book.encoder.packed_sentences import FILE, LEVELS
from statmech_attention.pruning import fitted_features

# The rule, made before any result of these sentences was seen: the training sentences of the first split of
# the book's first task.
TASK, SEED, EXAMPLES = next(iter(TASKS)), 0, 200
DIRECTIONS = 64


def main() -> None:
    """Write the pack."""
    sma.enable_x64()
    lengths, labels, embeddings, attention = encoded()
    token = np.arange(embeddings.shape[1]) < lengths[:, None]
    seen = np.einsum("ehk,ekd->ehd", attention, embeddings)
    features = fitted_features(sma.Problem(seen, labels, layers=(seen.shape[1],)).attentioned, DIRECTIONS)
    reduced = ((embeddings - features.mean) @ features.axes)[token]
    step = np.abs(reduced).max() / 127
    np.savez_compressed(
        FILE,
        lengths=lengths.astype(np.uint8),
        labels=labels.astype(np.int8),
        step=step,
        variance_lost=features.variance_lost,
        embeddings=np.round(reduced / step).astype(np.int8),
        attention=np.round(LEVELS * np.sqrt(attention.swapaxes(1, 2)[token])).astype(np.uint8),
    )
    print(f"{FILE}: {FILE.stat().st_size / 1e3:.0f} kB, SHA-256 {hashlib.sha256(FILE.read_bytes()).hexdigest()}")


def encoded():
    """Lengths, labels, embedded tokens, and the attention of the first token by all heads."""
    read = words(TASK, SEED, EXAMPLES, 2)
    tokens, labels = read.tokens[:EXAMPLES].trimmed(1), read.labels[:EXAMPLES]
    encoded = encode(read.encoder, tokens)
    attention = np.concatenate([layer[..., 0] for layer in encoded.attention], axis=1)
    return tokens.lengths, labels, np.asarray(encoded.embeddings, float), attention.astype(float)


if __name__ == "__main__":
    main()
