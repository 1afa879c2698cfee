"""A toy language for the calculator of sentences: was the word before a noun a kind one?

A sentence names four different nouns, each after an adjective, and then one of them again: "kind owl mean dog warm hen
cold cat the dog". Its label is +1 if the adjective of that noun is a kind word. Heads see words and distances alone.
"""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from statmech_attention.model import AttentionedInputs, attention_from_products, attentioned_inputs, relative_bias

KIND, UNKIND = ("kind", "warm", "good", "fair", "true", "calm"), ("mean", "cold", "bad", "false", "harsh", "rude")
NOUNS = "dog", "cat", "cow", "owl", "fox", "hen"
WORDS = (*KIND, *UNKIND, *NOUNS, "the")
PAIRS, TOKENS, LOGIT = 4, 10, 5.0


@dataclass(frozen=True)
class Language:
    """Sentences as numbers of words, their labels, and the logits of two layers of three heads."""

    train: np.ndarray  # (examples, tokens)
    labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    content: np.ndarray  # (layers, heads, words, words), key by query
    distance: np.ndarray  # (layers, heads, 5), for key minus query from -2 to 2

    def seen(self, sentences: np.ndarray) -> AttentionedInputs:
        """Sentences along all nine paths, (7); a word is a one-hot vector of squared length N_0."""
        words = len(WORDS)
        bias = [relative_bias(table, TOKENS) for table in self.distance]
        attention = attention_from_products([jnp.asarray(one / words) for one in self.content], bias=bias)
        return attentioned_inputs(np.sqrt(words) * np.eye(words)[sentences], attention)


def language(examples: int = 120, test_examples: int = 400, seed: int = 2) -> Language:
    """Draw sentences and random heads."""
    draw, words = np.random.default_rng(seed), len(WORDS)
    content, distance = np.zeros((2, 3, words, words)), np.zeros((2, 3, 5))
    # In each layer the third head is random. Those of layer 1 look one back and at the word itself, those of layer 2 at
    # the same word and at all.
    content[:, 2] = np.round(2 * draw.normal(size=(2, words, words)), 1)  # one decimal: the page has these numbers
    content[1, 0] = np.eye(words)  # a word is e times as heavy as others for the same word
    distance[0, 0, 1] = distance[0, 1, 2] = LOGIT
    return Language(*_sentences(draw, examples), *_sentences(draw, test_examples), content, distance)


def _sentences(draw, count: int) -> tuple[np.ndarray, np.ndarray]:
    adjectives = draw.integers(0, len(KIND) + len(UNKIND), (count, PAIRS))
    nouns = draw.permuted(np.tile(np.arange(len(NOUNS)), (count, 1)), axis=1)[:, :PAIRS] + len(KIND) + len(UNKIND)
    asked = draw.integers(0, PAIRS, count)
    pairs = np.stack([adjectives, nouns], axis=2).reshape(count, 2 * PAIRS)
    rows = np.arange(count)
    end = np.stack([np.full(count, len(WORDS) - 1), nouns[rows, asked]], axis=1)
    return np.concatenate([pairs, end], axis=1), np.where(adjectives[rows, asked] < len(KIND), 1.0, -1.0)
