"""Procedurally drawn glyphs."""

import numpy as np
import pytest

from attention_book.tasks.glyph_images import glyph_split, glyphs


@pytest.fixture(scope="module")
def drawn():
    return glyphs(classes=30, drawings=8, seed=3)


def test_shape_and_ink(drawn):
    assert drawn.pixels.shape == (240, 32, 32) and drawn.pixels.dtype == np.uint8 and drawn.classes == 30
    # Ink is dark on white; every drawing has some of it, about as much as in Omniglot.
    ink = 1 - drawn.grey(np.arange(240)).mean(axis=(1, 2))
    assert ink.min() > 0.02 and 0.04 < ink.mean() < 0.15


def test_same_seed_same_glyphs_whatever_their_number(drawn):
    np.testing.assert_array_equal(glyphs(12, 8, seed=3).pixels, drawn.pixels[:96])
    assert np.any(glyphs(12, 8, seed=4).pixels != drawn.pixels[:96])


def test_drawings_differ_but_less_than_classes(drawn):
    flat = drawn.grey(np.arange(240)).reshape(30, 8, -1)
    assert len(np.unique(flat.reshape(240, -1), axis=0)) == 240
    nearest = [
        np.argmin([np.min(np.sum((flat[other, 1:] - flat[index, 0]) ** 2, axis=1)) for other in range(30)])
        for index in range(30)
    ]
    # Alike enough that comparing pixels finds most classes, different enough that it does not find all.
    assert np.mean(nearest == np.arange(30)) > 0.5


@pytest.mark.parametrize("name, numbers", [("classes", (1, 5)), ("drawings", (5, 1))])
def test_too_few_are_refused(name, numbers):
    with pytest.raises(ValueError, match=f"{name}: wanted a whole number of at least 2"):
        glyphs(*numbers)


@pytest.mark.parametrize("classes", [6, 7, 30])
def test_split_uses_every_class_once(classes):
    split = glyph_split(glyphs(classes, 2))
    assert np.concatenate(split).tolist() == list(range(classes))
    assert min(map(len, split)) >= 2


def test_split_needs_enough_classes():
    with pytest.raises(ValueError, match="at least 6 classes"):
        glyph_split(glyphs(5, 2))
