"""Pack the encoder's attention of the 200 questions that come with the book, from what `make text` installs.

Prints the file's checksum, which goes into `attention_book/tasks/packed_sentences.py`.
"""

import hashlib

import numpy as np

from attention_book.experiments.encoded_inputs import TASKS, words
from attention_book.tasks import encode
from attention_book.tasks.packed_sentences import FILE, LEVELS
from statmech_attention.model import AttentionedInputs, fitted_features

# The rule, made before any result of these sentences was seen: the training sentences of the first split of
# the book's first task.
TASK, SEED, EXAMPLES = next(iter(TASKS)), 0, 200
DIRECTIONS = 64


def main() -> None:
    """Write the pack."""
    lengths, labels, embeddings, attention = encoded()
    token = np.arange(embeddings.shape[1]) < lengths[:, None]
    seen = np.einsum("ehk,ekd->ehd", attention, embeddings)
    features = fitted_features(AttentionedInputs(seen, (seen.shape[1],)), DIRECTIONS)
    reduced = ((embeddings - features.mean) @ features.directions)[token]
    step = np.abs(reduced).max() / 127
    np.savez_compressed(
        FILE,
        lengths=lengths.astype(np.uint8),
        labels=labels.astype(np.int8),
        step=step,
        embeddings=np.round(reduced / step).astype(np.int8),
        attention=np.round(LEVELS * np.sqrt(attention.swapaxes(1, 2)[token])).astype(np.uint8),
    )
    print(f"{FILE}: {FILE.stat().st_size / 1e3:.0f} kB, {features.variance_lost:.3f} of the variance left out")
    print(f"SHA-256 {hashlib.sha256(FILE.read_bytes()).hexdigest()}")


def encoded():
    """Lengths, labels, embedded tokens, and the attention of the first token by all heads."""
    read = words(TASK, SEED, EXAMPLES, 2)
    tokens, labels = read.tokens[:EXAMPLES], read.labels[:EXAMPLES]
    tokens = tokens.trimmed(1)
    found = encode(read.encoder, tokens)
    attention = np.concatenate([layer[..., 0] for layer in found.attention], axis=1)
    return tokens.lengths, labels, np.asarray(found.embeddings, float), attention.astype(float)


if __name__ == "__main__":
    main()
