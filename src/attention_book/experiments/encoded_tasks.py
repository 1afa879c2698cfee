r"""Sentences of two classes as two networks see them on an encoder's attention, and as the encoder itself embeds them.

One pass of the encoder gives all of it. Sentences of like length are encoded together, since padding costs as much as words.
Attentioned inputs are rounded to multiples of 1/16, so that those of a record are small and are the ones that were solved.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from attention_book.tasks import (
    Encoder,
    Encoding,
    Tokens,
    _installed,
    encoded_batches,
    pretrained_encoder,
    random_encoder,
    sentence_set,
    tokenise,
)
from attention_book.tasks.encoded import layers_on, seen_first, side_by_side
from statmech_attention import checks
from statmech_attention.model.features import fitted_features
from statmech_attention.model.paths import AttentionedInputs

STEP = 1 / 16  # of the attentioned inputs, whose mean square is 1 and whose smallest direction has about 0.1
_PADDED = 16  # sentences are padded to a multiple of so many tokens
_BATCH = 32
MADE = "made"  # sentences of random tokens for a random encoder, which need no files


class Words(NamedTuple):
    """Sentences of two classes as tokens, and the encoder that they are for."""

    encoder: Encoder
    tokens: Tokens
    labels: Float[np.ndarray, " sentences"]


class EncodedTask(NamedTuple):
    """All sentences of one task.

    Attributes:
        networks: by name attentioned inputs of all sentences.
        labels: +1 or -1.
        pooled: embeddings of the unmodified encoder, of length 1.
        variance_lost: by network, outside of the directions kept.
    """

    networks: Mapping[str, AttentionedInputs]
    labels: Float[np.ndarray, " sentences"]
    pooled: Float[np.ndarray, "sentences width"]
    variance_lost: Mapping[str, float]


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


def checked(task: str, split: Sequence[int]) -> None:
    """Refuse a task that is none, and a split that is not of training and test sentences."""
    if len(split) != 2:
        raise ValueError(f"split: wanted numbers of training and of test sentences, got {split}.")
    checks.choice("task", task, tuple(TASKS))


def missing(task: str) -> str:
    """What reading a task's sentences needs and is not installed here; empty where nothing is."""
    return "" if task == MADE else ", ".join(_installed.missing())


def words(task: str, seed: int, train: int, test: int) -> Words:
    """Training sentences in random order, then test sentences.

    Args:
        task: a key of `TASKS`.
        seed: of the choice.
        train: how many to learn from and to choose by.
        test: how many more.

    Returns:
        `Words`.

    Raises:
        ValueError: more sentences than there are.
        FileNotFoundError: texts or weights are not installed; says what to do.
    """
    read = TASKS[task]
    if read is None:
        return _made(seed, train + test)
    split = read().split(seed, train, test)
    labels = np.concatenate([part.labels for part in split])
    return Words(pretrained_encoder(), tokenise([text for part in split for text in part.texts]), labels)


def encoded_task(
    words: Words, networks: Mapping[str, Sequence], fitted: int, directions: int, skips: bool = False
) -> EncodedTask:
    r"""What `tasks.encoded_sentences` gives, for several networks at once, and the pooled embeddings.

    Args:
        words: the sentences.
        networks: by name the encoder's layers of every layer of the network, as for `tasks.encoded_sentences`.
        fitted: features are fitted to so many sentences, the first ones; their labels are not used.
        directions: $N_0$.
        skips: put a skip beside the heads of every layer.

    Returns:
        `EncodedTask`.

    Raises:
        ValueError: no such layer of the encoder, too many directions.
    """
    pooled = np.zeros((len(words.labels), words.encoder.words.shape[1]))
    sides = {name: side_by_side(layers) for name, layers in networks.items()}
    heads = {name: layers_on(words.encoder, each, skips) for name, each in sides.items()}

    def seen(rows, ready: Callable) -> dict[str, AttentionedInputs]:
        parts: dict[str, list[AttentionedInputs]] = {name: [] for name in networks}
        order = []
        for places, part in _encoded(words, rows):
            pooled[places] = part.pooled
            order.append(places)
            for name in networks:
                parts[name].append(ready(name, seen_first(part, sides[name], heads[name])))
        back = np.argsort(np.concatenate(order))
        return {
            name: AttentionedInputs(jnp.concatenate([one.values for one in each])[back], each[0].heads)
            for name, each in parts.items()
        }

    first = seen(np.arange(fitted), lambda _, inputs: inputs)
    features = {name: fitted_features(inputs, directions) for name, inputs in first.items()}
    others = seen(np.arange(fitted, len(words.labels)), lambda name, inputs: features[name].of(inputs))
    together = {}
    for name, inputs in others.items():
        values = jnp.concatenate([features[name].of(first[name]).values, inputs.values])
        together[name] = AttentionedInputs(STEP * jnp.round(values / STEP), inputs.heads)
    return EncodedTask(together, words.labels, pooled, {name: one.variance_lost for name, one in features.items()})


def part_of(inputs: AttentionedInputs, chosen: slice) -> AttentionedInputs:
    """Some of the sentences."""
    return AttentionedInputs(inputs.values[chosen], inputs.heads)


def _encoded(words: Words, rows: Int[np.ndarray, " rows"]) -> Iterator[tuple[Int[np.ndarray, " places"], Encoding]]:
    """Batches of sentences of like length, with their places."""
    padded = -(-words.tokens.lengths[rows] // _PADDED) * _PADDED
    for length in np.unique(padded):
        places = rows[padded == length]
        # Of a few sentences some are encoded twice: programs are for full batches.
        tokens = words.tokens[np.resize(places, max(len(places), _BATCH))].trimmed(_PADDED)
        for start, part in zip(
            range(0, len(places), _BATCH), encoded_batches(words.encoder, tokens, batch=_BATCH), strict=False
        ):
            here = places[start : start + _BATCH]
            yield here, jax.tree.map(lambda values: values[: len(here)], part)  # noqa: B023


def _made(seed: int, count: int) -> Words:
    """The class of a sentence is told by how many of its tokens are of the upper half of the vocabulary."""
    random, vocabulary = np.random.default_rng(seed), 30
    lengths = random.integers(4, 12, count)
    labels = random.permutation(np.resize([1.0, -1.0], count))
    upper = random.random((count, 12)) < 0.5 + 0.25 * labels[:, None]
    ids = random.integers(0, vocabulary // 2, (count, 12)) + vocabulary // 2 * upper
    ids[:, 0] = 0  # as [CLS]
    encoder = random_encoder(jax.random.key(0), layers=2, heads=3, width=12, vocabulary=vocabulary)
    return Words(encoder, Tokens(ids, lengths, lengths), labels)
