"""The one-shot task as the paper poses it: training classes, new classes, and other data sets to be tested on."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from attention_book.arguments import File
from attention_book.tasks.glyph_images import glyph_split, glyphs
from attention_book.tasks.images import ImageSet, Split, load, omniglot_split
from attention_book.tasks.one_shot import OneShot, OneShotSample
from statmech_attention import checks
from statmech_attention.checks import Key

SUITES = ("omniglot", "glyphs")


class TestSet(NamedTuple):
    """Where test sequences come from.

    Attributes:
        task: the images.
        classes: of the two labelled images.
        asked: for each of `classes` the class that stands for it in the third image.
    """

    task: OneShot
    classes: Int[np.ndarray, " classes"]
    asked: Int[np.ndarray, " classes"]


TestSet.__test__ = False  # type: ignore[attr-defined]  # the name tempts pytest


@dataclass(frozen=True, eq=False)
class OneShotSuite:
    """Training data and test sets.

    Attributes:
        task: the images to train on.
        split: their classes for training, validation and test.
        test_sets: by name; the first is in distribution, the others are out of distribution.
    """

    task: OneShot
    split: Split
    test_sets: Mapping[str, TestSet]

    def train(self, key: Key, examples: int) -> OneShotSample:
        """Draw sequences of training classes.

        Args:
            key: a JAX random key.
            examples: how many.

        Returns:
            `OneShotSample`.
        """
        return self.task.sample(key, examples, self.split.train)

    def test(self, key: Key, examples: int, name: str) -> OneShotSample:
        """Draw test sequences.

        Args:
            key: a JAX random key.
            examples: how many.
            name: one of `test_sets`.

        Returns:
            `OneShotSample`.

        Raises:
            ValueError: no test set of that name.
        """
        checks.choice("name", name, self.test_sets)
        chosen = self.test_sets[name]
        return chosen.task.sample(key, examples, chosen.classes, chosen.asked)


def one_shot_suite(name: str = "omniglot", root: File | None = None) -> OneShotSuite:
    """One-shot classification of section 4.2, or the same on drawn glyphs where there are no data.

    Args:
        name: "omniglot": training on Omniglot, tests on Omniglot's 423 test classes, and on classes 0 and 1 of
            FashionMNIST and MNIST with training images as the labelled pair. "glyphs": the same with drawn glyphs, in
            other colours out of distribution.
        root: the data folder, see `tasks.images.data_root`.

    Returns:
        `OneShotSuite`.

    Raises:
        ValueError, FileNotFoundError: an unknown name; as `tasks.images.load`.
    """
    checks.choice("name", name, SUITES)
    if name == "omniglot":
        images = load("omniglot", root)
        split, others = omniglot_split(images), {"FashionMNIST": "fashion_mnist", "MNIST": "mnist"}
        out = {title: _two_classes(load(other, root), 10) for title, other in others.items()}
        return _suite(images, split, "Omniglot", out)
    images = glyphs()
    twice = glyphs(classes=4, drawings=200, seed=1)
    negative = ImageSet("glyphs in white", 255 - twice.pixels, twice.starts, twice.names)
    out = {"white glyphs": _two_classes(negative, 2), "two glyphs": _two_classes(twice, 2)}
    return _suite(images, glyph_split(images), "glyphs", out)


def _suite(images: ImageSet, split: Split, title: str, out: Mapping[str, TestSet]) -> OneShotSuite:
    task = OneShot(images)
    return OneShotSuite(task, split, {title: TestSet(task, split.test, split.test), **out})


def _two_classes(images: ImageSet, test_images_from: int) -> TestSet:
    """Classes 0 and 1; the third image is a test image, whose classes come behind those of the training images."""
    classes = np.array([0, 1])
    return TestSet(OneShot(images), classes, classes + test_images_from)
