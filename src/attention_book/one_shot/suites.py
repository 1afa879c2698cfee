"""The one-shot task of the paper: training classes, new classes, and other data sets as tests."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from attention_book.one_shot.glyphs import glyph_split, glyphs
from attention_book.one_shot.images import ImageSet, Split, load, omniglot_split
from attention_book.one_shot.task import OneShot, OneShotSample
from statmech_attention import checks
from statmech_attention.checks import Key

SUITES = ("omniglot", "glyphs")


class TestSet(NamedTuple):
    """Source of test sequences."""

    task: OneShot
    classes: Int[np.ndarray, " classes"]  # of the two labelled images
    asked: Int[np.ndarray, " classes"]  # the classes that stand for `classes` in the third image


TestSet.__test__ = False  # type: ignore[attr-defined]  # the name tempts pytest


@dataclass(frozen=True, eq=False)
class OneShotSuite:
    """Training data and test sets."""

    task: OneShot
    split: Split  # of its classes
    test_sets: Mapping[str, TestSet]  # the first is in distribution, the others are not

    def train(self, key: Key, examples: int) -> OneShotSample:
        """Draw sequences of training classes."""
        return self.task.sample(key, examples, self.split.train)

    def test(self, key: Key, examples: int, name: str) -> OneShotSample:
        """Draw sequences of the test set `name`."""
        checks.choice("name", name, self.test_sets)
        chosen = self.test_sets[name]
        return chosen.task.sample(key, examples, chosen.classes, chosen.asked)


def one_shot_suite(name: str = "omniglot") -> OneShotSuite:
    """Return one-shot classification as in section 4.2, or the same on drawn glyphs."""
    checks.choice("name", name, SUITES)
    if name == "omniglot":
        images = load("omniglot")
        split, others = omniglot_split(images), {"FashionMNIST": "fashion_mnist", "MNIST": "mnist"}
        out = {title: _two_classes(load(other)) for title, other in others.items()}
        return _suite(images, split, "Omniglot", out)
    images = glyphs()
    twice = glyphs(classes=4, drawings=200, seed=1)
    negative = ImageSet("glyphs in white", 255 - twice.pixels, twice.starts, twice.names)
    out = {"white glyphs": _two_classes(negative), "two glyphs": _two_classes(twice)}
    return _suite(images, glyph_split(images), "glyphs", out)


def _suite(images: ImageSet, split: Split, title: str, out: Mapping[str, TestSet]) -> OneShotSuite:
    task = OneShot(images)
    return OneShotSuite(task, split, {title: TestSet(task, split.test, split.test), **out})


def _two_classes(images: ImageSet) -> TestSet:
    """Two classes of training images; the third image is from the test images of the same class."""
    return TestSet(OneShot(images), np.array([0, 1]), np.array([2, 3]))
