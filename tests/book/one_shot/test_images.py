"""Image data sets: what comes with the book, integrity, the split of Omniglot; glyphs that are drawn instead."""

import shutil

import jax
import numpy as np
import pytest
from PIL import Image

from attention_book.one_shot import images as module
from attention_book.one_shot import one_shot_suite
from attention_book.one_shot.glyphs import glyph_split, glyphs
from attention_book.one_shot.images import VARIABLE, ImageSet, NotPacked, load, omniglot_split


@pytest.fixture(scope="module")
def small():
    pixels = np.arange(5 * 32 * 32).reshape(5, 32, 32).astype(np.uint8)
    return ImageSet("small", pixels, np.array([0, 2, 5]), ("one", "two"), np.arange(5) != 3)


@pytest.fixture
def without_originals(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def test_omniglot_comes_whole_and_is_split_by_the_rule(without_originals):
    omniglot = load("omniglot")
    assert omniglot.held is None
    assert omniglot.pixels.shape == (32460, 32, 32) and set(np.diff(omniglot.starts)) == {20}
    split = omniglot_split(omniglot)
    assert [len(part) for part in split] == [1028, 172, 423]
    assert sorted(np.concatenate(split)) == list(range(1623))
    # The cut falls inside an alphabet.
    assert omniglot.names[split.train[-1]] == "evaluation/Gurmukhi/character41"
    assert omniglot.names[split.test[0]] == "evaluation/Gurmukhi/character42"
    alphabets = {"Armenian", "Bengali", "Early_Aramaic", "Hebrew", "Mkhedruli_(Georgian)"}
    assert {omniglot.names[index].split("/")[1] for index in split.validation} == alphabets
    # Ink is dark on white, and little of it.
    assert 0.9 < omniglot.pixels.mean() / 255 < 0.94


def test_drawings_are_resized_as_single_images_are():
    drawings = np.random.default_rng(0).integers(0, 256, (3, 28, 105), np.uint8)
    each = [Image.fromarray(one).resize((32, 32), Image.Resampling.BILINEAR) for one in drawings]
    np.testing.assert_array_equal(module._resized(drawings), np.array(each))


@pytest.mark.parametrize("name", ["FashionMNIST", "MNIST"])
def test_sequences_of_images_that_do_not_come_with_the_book_are_refused(without_originals, name):
    with pytest.raises(NotPacked, match=f"do not come with the book.*`make images` fetches .*{without_originals}"):
        one_shot_suite().test(jax.random.key(1), 1000, name)


def test_drawings_that_are_not_at_hand_are_refused(small):
    grey = small.grey([2, 4])
    assert grey.shape == (2, 32, 32) and grey.min() == 0 and grey.max() == 1
    with pytest.raises(NotPacked, match="small: wanted drawings that do not come"):
        small.grey([2, 3])


@pytest.mark.parametrize("damage", ["truncated", "empty", "altered", "absent"])
def test_damaged_pack_of_images_is_named_and_not_used(without_originals, monkeypatch, damage):
    path = without_originals / "mnist.npz.xz"
    shutil.copyfile(module.PACK / path.name, path)
    monkeypatch.setattr(module, "PACK", without_originals)
    content = bytearray(path.read_bytes())
    if damage == "altered":
        content[100_000] ^= 255
    path.write_bytes({"truncated": content[:1000], "empty": b""}.get(damage, content))
    if damage == "absent":
        path.unlink()
    with pytest.raises(
        ValueError, match=f"mnist: (not read|wanted other pixels).*from {path.parent}.*Restore the file"
    ):
        load("mnist")


def test_images_and_splits_that_do_not_fit_are_refused(small):
    with pytest.raises(ValueError, match="starts of x"):
        ImageSet("x", small.pixels, np.array([0, 2, 4]), ("one", "two"))
    with pytest.raises(ValueError, match="1623"):
        omniglot_split(small)
    with pytest.raises(ValueError, match="at least 6 classes"):
        glyph_split(glyphs(5, 2))


def test_glyphs_are_dark_on_white_and_follow_the_seed():
    drawn = glyphs(classes=30, drawings=8, seed=3)
    assert drawn.pixels.shape == (240, 32, 32) and drawn.pixels.dtype == np.uint8 and drawn.classes == 30
    ink = 1 - drawn.grey(np.arange(240)).mean(axis=(1, 2))
    assert ink.min() > 0.02 and 0.04 < ink.mean() < 0.15
    np.testing.assert_array_equal(glyphs(12, 8, seed=3).pixels, drawn.pixels[:96])
    assert np.any(glyphs(12, 8, seed=4).pixels != drawn.pixels[:96])


@pytest.mark.parametrize("classes", [6, 7, 30])
def test_split_of_glyphs_uses_every_class_once(classes):
    split = glyph_split(glyphs(classes, 2))
    assert np.concatenate(split).tolist() == list(range(classes)) and min(map(len, split)) >= 2
