"""Tokens of sentences, as for the training of the pretrained encoder."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Int

from attention_book.encoder import installed
from statmech_attention import checks

_AROUND = 2  # tokens of every sentence: [CLS] in front, [SEP] at the end


@dataclass(frozen=True, eq=False)
class Tokens:
    """Sentences as numbers of tokens in the vocabulary, padded at the end to one length."""

    ids: Int[np.ndarray, "examples tokens"]  # arbitrary on padding
    lengths: Int[np.ndarray, " examples"]  # numbers of tokens, at least 1
    uncut: Int[np.ndarray, " examples"]  # the same without a largest length

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, chosen) -> "Tokens":
        """Return some of the sentences, by a slice or an array of indices."""
        return Tokens(self.ids[chosen], self.lengths[chosen], self.uncut[chosen])

    @property
    def mask(self) -> Bool[np.ndarray, "examples tokens"]:
        """True where there is a token, false on padding."""
        return np.arange(self.ids.shape[1])[None] < self.lengths[:, None]

    def padded(self, length: int) -> "Tokens":
        """Return the same sentences with more padding, so that several sets have the same shape."""
        more = checks.whole("length", length, self.ids.shape[1]) - self.ids.shape[1]
        return Tokens(np.pad(self.ids, ((0, 0), (0, more))), self.lengths, self.uncut)

    def trimmed(self, multiple: int) -> "Tokens":
        """Return the same sentences with padding to a multiple of some length only."""
        length = -(-int(self.lengths.max()) // checks.whole("multiple", multiple)) * multiple
        return Tokens(self.ids[:, :length], self.lengths, self.uncut)


def tokenise(texts: Sequence[str], length: int = 64) -> Tokens:
    """Cut sentences into word pieces of all-MiniLM-L6-v2, at most `length` of them with [SEP]."""
    texts, length = list(texts), checks.whole("length", length, _AROUND + 1)
    for text in texts:
        if not isinstance(text, str):
            raise ValueError(f"texts: wanted texts, got {text!r:.60}.")
    encoded = [encoding.ids for encoding in _tokeniser().encode_batch(texts)]
    uncut = np.array([len(ids) for ids in encoded])
    if np.any(uncut <= _AROUND):
        empty = int(np.argmax(uncut <= _AROUND))
        raise ValueError(f"texts: wanted at least one token in every text, got {texts[empty]!r} at index {empty}.")
    lengths = np.minimum(uncut, length)
    ids = np.zeros((len(encoded), lengths.max()), int)
    for row, tokens, size in zip(ids, encoded, lengths, strict=True):
        row[: size - 1], row[size - 1] = tokens[: size - 1], tokens[-1]
    return Tokens(ids, lengths, uncut)


@cache
def _tokeniser():
    tokeniser = installed.library("tokenizers").Tokenizer.from_str(installed.content("tokeniser").decode())
    # The file's own settings are 128 tokens, padded.
    tokeniser.no_truncation()
    tokeniser.no_padding()
    return tokeniser
