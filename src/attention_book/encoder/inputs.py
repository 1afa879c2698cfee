"""Sentences of two classes as networks on an encoder's attention see them, and as the encoder does.

Attentioned inputs are rounded to multiples of 1/16, so that those of a record are small.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from attention_book.encoder.encoding import Encoding, encoded_batches, pretrained_encoder, random_encoder
from attention_book.encoder.layers import Encoder
from attention_book.encoder.sentences import sentence_set
from attention_book.encoder.tokens import Tokens, tokenise
from statmech_attention import AttentionedInputs, attentioned_inputs
from statmech_attention.pruning import fitted_features

STEP = 1 / 16  # of the attentioned inputs, whose mean square is 1 and whose smallest direction has about 0.1
_PADDED = 16  # sentences are padded to a multiple of so many tokens
_BATCH = 32
MADE = "made"  # sentences of random tokens for a random encoder, which need no files


class Words(NamedTuple):
    """Sentences of two classes as tokens, and the encoder that they are for."""

    encoder: Encoder
    tokens: Tokens
    labels: Float[np.ndarray, " sentences"]

    def taken(self, rows) -> "Words":
        """Some of the sentences."""
        return Words(self.encoder, self.tokens[rows], self.labels[rows])


class EncodedTask(NamedTuple):
    """All sentences of one task."""

    networks: Mapping[str, AttentionedInputs]  # all sentences, by name
    labels: Float[np.ndarray, " sentences"]  # +1 or -1
    pooled: Float[np.ndarray, "sentences width"]  # embeddings of the unmodified encoder, of length 1


def _questions(*names: str):
    return lambda: sentence_set("trec").only(*names)


# By name, sentences of two classes; the first is labelled +1.
TASKS: dict[str, Callable | None] = {
    "description-entity": _questions("description", "entity"),
    "entity-human": _questions("entity", "human"),
    "reviews": lambda: sentence_set("reviews"),
    "spam": lambda: sentence_set("spam"),
    MADE: None,
}


def words(task: str, seed: int, train: int, test: int) -> Words:
    """Training sentences in random order, then test sentences."""
    read = TASKS[task]
    if read is None:
        return _made(seed, train + test)
    split = read().split(seed, train, test)
    labels = np.concatenate([part.labels for part in split])
    return Words(pretrained_encoder(), tokenise([text for part in split for text in part.texts]), labels)


def disjoint(task: str, number: int, splits: int, longest: int, count: int, balanced: bool = False) -> Words:
    """The first sentences, in random order, of one of several splits that share none, of at most `longest` tokens.

    With `balanced` the classes take turns.
    """
    if not 0 <= number < splits:
        raise ValueError(f"number: wanted a split in [0, {splits - 1}], got {number}.")
    read = TASKS[task]
    if read is None:
        every = _made(0, 2 * splits * count)  # some are too long
    else:
        found = read()
        every = Words(pretrained_encoder(), tokenise(found.texts), found.labels(range(len(found.texts))))
    order = np.random.default_rng(0).permutation(len(every.labels))
    order = order[every.tokens.lengths[order] <= longest]
    classes = [order[every.labels[order] == label] for label in (1, -1)] if balanced else [order]
    own = [one[number::splits] for one in classes]
    taken = np.ravel(list(zip(*own, strict=not balanced)))[:count]
    few = every.taken(taken)
    return few._replace(tokens=few.tokens.trimmed(1))


def shuffled(encoder: Encoder, *seed: int) -> Encoder:
    """The encoder with the entries of all queries in random order over its layers, and those of all keys."""
    random, layers = np.random.default_rng(seed), encoder.layers

    def mixed(affine):
        parts = (jnp.asarray(random.permutation(np.ravel(part)).reshape(part.shape)) for part in affine)
        return type(affine)(*parts)

    return replace(encoder, layers=layers._replace(query=mixed(layers.query), key=mixed(layers.key)))


def uniform(encoder: Encoder) -> Encoder:
    """The encoder's first layer, all tokens of a sentence with the same attention."""
    layers = jax.tree.map(lambda part: part[:1], encoder.layers)
    return replace(encoder, layers=layers._replace(query=jax.tree.map(jnp.zeros_like, layers.query)))


def tf_idf(tokens: Tokens, fitted: int) -> Float[np.ndarray, "sentences terms"]:
    r"""Tokens and pairs of neighbours that the first `fitted` sentences have, weighted and of length 1."""
    sentences = [row[1 : size - 1].tolist() for row, size in zip(tokens.ids, tokens.lengths, strict=True)]
    counts = [Counter([*ids, *itertools.pairwise(ids)]) for ids in sentences]
    having = Counter(term for terms in counts[:fitted] for term in terms)
    columns = {term: column for column, term in enumerate(having)}
    weights = np.zeros((len(counts), len(columns)))
    for row, terms in zip(weights, counts, strict=True):
        known = [term for term in terms if term in columns]
        row[[columns[term] for term in known]] = [terms[term] for term in known]
    weights *= 1 + np.log((1 + fitted) / (1 + np.array([*having.values()])))
    return weights / np.maximum(np.linalg.norm(weights, axis=1, keepdims=True), np.finfo(float).tiny)


def encoded_task(
    words: Words,
    networks: Mapping[str, Sequence],
    fitted: int,
    directions: int,
) -> EncodedTask:
    """Return attentioned inputs (1) to (7) for several networks at once, and the pooled embeddings.

    `networks` has the encoder's layers of each layer of a network, several of them with their heads side by side.
    Features are fitted to the first `fitted` sentences.
    """
    pooled = np.zeros((len(words.labels), words.encoder.words.shape[1]))
    sides = {name: [[side] if np.ndim(side) == 0 else [*side] for side in layers] for name, layers in networks.items()}

    def seen(rows, ready: Callable) -> dict[str, AttentionedInputs]:
        parts: dict[str, list[AttentionedInputs]] = {name: [] for name in networks}
        order = []
        for places, part in _encoded(words, rows):
            pooled[places] = part.pooled
            order.append(places)
            for name in networks:
                parts[name].append(ready(name, _seen_first(part, sides[name])))
        back = np.argsort(np.concatenate(order))
        return {
            name: AttentionedInputs(jnp.concatenate([part.values for part in each])[back], each[0].layers)
            for name, each in parts.items()
        }

    first = seen(np.arange(fitted), lambda _, inputs: inputs)
    features = {name: fitted_features(inputs, directions) for name, inputs in first.items()}
    others = seen(np.arange(fitted, len(words.labels)), lambda name, inputs: features[name].of(inputs))
    together = {}
    for name, inputs in others.items():
        values = jnp.concatenate([features[name].of(first[name]).values, inputs.values])
        together[name] = AttentionedInputs(STEP * jnp.round(values / STEP), inputs.layers)
    return EncodedTask(together, words.labels, pooled)


def _seen_first(part: Encoding, sides: Sequence[Sequence[int]]) -> AttentionedInputs:
    """Attentioned inputs read out at the first token; `sides` are the encoder's layers in each layer of the network."""
    attention = [jnp.concatenate([part.attention[place] for place in side], axis=1) for side in sides]
    seen = attention[0][:, 0].sum(axis=-1) > 0  # nothing attends to padding
    return attentioned_inputs(part.embeddings, attention, readout="first", mask=seen)


def part_of(inputs: AttentionedInputs, chosen) -> AttentionedInputs:
    """Some of the sentences."""
    return AttentionedInputs(inputs.values[chosen], inputs.layers)


def _encoded(words: Words, rows: Int[np.ndarray, " rows"]) -> Iterator[tuple[Int[np.ndarray, " places"], Encoding]]:
    """Batches of sentences of like length, with their places."""
    padded = -(-words.tokens.lengths[rows] // _PADDED) * _PADDED
    for length in np.unique(padded):
        places = rows[padded == length]
        # Of a few sentences some are encoded twice: programs are for full batches.
        tokens = words.tokens[np.resize(places, max(len(places), _BATCH))].trimmed(_PADDED)
        for number, part in enumerate(encoded_batches(words.encoder, tokens, batch=_BATCH)):
            here = places[number * _BATCH :][:_BATCH]
            yield here, jax.tree.map(lambda values: values[: len(here)], part)  # noqa: B023


def _made(seed: int, count: int) -> Words:
    """Sentences whose class shows in the share of tokens from the upper half of the vocabulary."""
    random, vocabulary = np.random.default_rng(seed), 30
    lengths = random.integers(4, 12, count)
    labels = random.permutation(np.resize([1.0, -1.0], count))
    upper = random.random((count, 12)) < 0.5 + 0.25 * labels[:, None]
    ids = random.integers(0, vocabulary // 2, (count, 12)) + vocabulary // 2 * upper
    ids[:, 0] = 0  # as [CLS]
    encoder = random_encoder(jax.random.key(0), layers=2, heads=3, width=12, vocabulary=vocabulary)
    return Words(encoder, Tokens(ids, lengths, lengths), labels)
