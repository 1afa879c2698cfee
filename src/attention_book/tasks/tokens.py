"""Tokens of sentences, as the pretrained encoder was trained on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Int

from attention_book.tasks import _installed
from statmech_attention import checks

_AROUND = 2  # tokens that every sentence has: [CLS] in front, [SEP] behind


@dataclass(frozen=True, eq=False)
class Tokens:
    """Sentences as numbers of tokens, padded at the end to one length.

    Attributes:
        ids: numbers of tokens in the vocabulary, `(examples, tokens)`; anything where there is no token any more.
        lengths: how many tokens each sentence has, at least 1.
        uncut: how many it would have without a largest length.

    Raises:
        ValueError: shapes that do not fit each other, a sentence without tokens, numbers that are none of tokens.
    """

    ids: Int[np.ndarray, "examples tokens"]
    lengths: Int[np.ndarray, " examples"]
    uncut: Int[np.ndarray, " examples"]

    def __post_init__(self):
        if self.ids.ndim != 2 or not self.ids.size or not self.lengths.shape == self.uncut.shape == self.ids.shape[:1]:
            raise ValueError(
                f"ids: wanted (examples, tokens) and one length for every example, got {self.ids.shape}, "
                f"{self.lengths.shape} and {self.uncut.shape}."
            )
        if np.any(self.lengths < 1) or np.any(self.lengths > self.ids.shape[1]):
            raise ValueError(
                f"lengths: wanted 1 to {self.ids.shape[1]} tokens in every example, got {self.lengths.min()} to "
                f"{self.lengths.max()}. Leave texts without tokens out."
            )
        if np.any(self.ids < 0):
            raise ValueError(f"ids: wanted numbers of at least 0, got {self.ids.min()}.")

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, chosen) -> "Tokens":
        """Some of the sentences, by a slice or an array of indices."""
        return Tokens(self.ids[chosen], self.lengths[chosen], self.uncut[chosen])

    @property
    def mask(self) -> Bool[np.ndarray, "examples tokens"]:
        """True where there is a token, false on padding."""
        return np.arange(self.ids.shape[1])[None] < self.lengths[:, None]

    def padded(self, length: int) -> "Tokens":
        """The same sentences with more padding, so that sets of them have the same shape.

        Args:
            length: tokens with padding, no fewer than now.

        Returns:
            `Tokens`.

        Raises:
            ValueError: a smaller length.
        """
        more = checks.whole("length", length, self.ids.shape[1]) - self.ids.shape[1]
        return Tokens(np.pad(self.ids, ((0, 0), (0, more))), self.lengths, self.uncut)

    def trimmed(self, multiple: int) -> "Tokens":
        """The same sentences with no more padding than up to a multiple of some number of tokens.

        Args:
            multiple: of it, at least 1; few different lengths are few programs to compile.

        Returns:
            `Tokens`.

        Raises:
            ValueError: a number below 1.
        """
        length = -(-int(self.lengths.max()) // checks.whole("multiple", multiple)) * multiple
        return Tokens(self.ids[:, :length], self.lengths, self.uncut)


def tokenise(texts: Sequence[str], length: int = 64) -> Tokens:
    """Sentences cut into word pieces by the tokeniser of all-MiniLM-L6-v2, [CLS] in front and [SEP] behind.

    Args:
        texts: sentences, in English.
        length: the largest number of tokens, with [CLS] and [SEP]; what is longer is cut before [SEP], and is known by
            `lengths < uncut`. The encoder knows 512 positions.

    Returns:
        `Tokens`, as long as the longest sentence.

    Raises:
        ValueError: no texts, something else than texts, a text without tokens, a length below 3.
        FileNotFoundError, ValueError: the tokeniser is missing or altered, says what to do.
    """
    length = checks.whole("length", length, _AROUND + 1)
    if isinstance(texts, str) or not len(texts) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"texts: wanted a list of at least one text, got {texts!r:.80}. For one text write [text].")
    tokeniser = _tokeniser()
    found = [one.ids for one in tokeniser.encode_batch(list(texts))]
    uncut = np.array([len(ids) for ids in found])
    if np.any(uncut <= _AROUND):
        empty = int(np.argmax(uncut <= _AROUND))
        raise ValueError(f"texts: wanted at least one token in every text, got {texts[empty]!r} at index {empty}.")
    lengths = np.minimum(uncut, length)
    ids = np.zeros((len(found), lengths.max()), int)
    for row, one, size in zip(ids, found, lengths, strict=True):
        row[: size - 1], row[size - 1] = one[: size - 1], one[-1]
    return Tokens(ids, lengths, uncut)


@cache
def _tokeniser():
    tokeniser = _installed.library("tokenizers").Tokenizer.from_str(_installed.content("tokeniser").decode())
    # The file's own settings are 128 tokens, padded.
    tokeniser.no_truncation()
    tokeniser.no_padding()
    return tokeniser
