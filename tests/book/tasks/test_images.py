"""Image data sets: what comes with the book, the originals, integrity, the split."""

import gzip
import os
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import pack_images
import pytest

from attention_book.tasks import images as module
from attention_book.tasks import one_shot_suite
from attention_book.tasks.images import VARIABLE, ImageSet, NotPacked, load, omniglot_split

ROOT = os.environ.get(VARIABLE, "")
FILES = {
    "mnist": [
        f"MNIST/raw/{part}-ubyte.gz"
        for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    ],
}
FILES["fashion_mnist"] = [path.replace("MNIST", "FashionMNIST") for path in FILES["mnist"]]
FILES["omniglot"] = [f"omniglot-py/{part}.zip" for part in pack_images.PARTS]

originals = pytest.mark.skipif(
    not all(Path(ROOT, path).is_file() for paths in FILES.values() for path in paths),
    reason=f"the originals are not in {ROOT or f'a folder that {VARIABLE} names'}",
)


@pytest.fixture(scope="module")
def small():
    pixels = np.arange(5 * 32 * 32).reshape(5, 32, 32).astype(np.uint8)
    return ImageSet("small", pixels, np.array([0, 2, 5]), ("one", "two"), np.arange(5) != 3)


@pytest.fixture(scope="module")
def omniglot():
    return load("omniglot")


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """Without originals."""
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    return tmp_path


def test_omniglot_comes_whole_and_is_split_by_the_rule(alone, omniglot):
    assert omniglot.held is None
    assert omniglot.pixels.shape == (32460, 32, 32) and set(np.diff(omniglot.starts)) == {20}
    split = omniglot_split(omniglot)
    assert [len(part) for part in split] == [1028, 172, 423]
    assert sorted(np.concatenate(split)) == list(range(1623))
    assert sum(omniglot.names[index].startswith("background") for index in split.train) == 792
    # The cut falls inside an alphabet.
    assert omniglot.names[split.train[-1]] == "evaluation/Gurmukhi/character41"
    assert omniglot.names[split.test[0]] == "evaluation/Gurmukhi/character42"
    assert {omniglot.names[index].split("/")[1] for index in split.validation} == {
        "Armenian",
        "Bengali",
        "Early_Aramaic",
        "Hebrew",
        "Mkhedruli_(Georgian)",
    }
    # Ink is dark on white, and little of it.
    assert 0.9 < omniglot.pixels.mean() / 255 < 0.94


def test_the_pack_is_small():
    assert sum(path.stat().st_size for path in module.PACK.iterdir()) < 5e6


def test_resizing_is_that_of_single_images():
    from PIL import Image

    drawings = np.random.default_rng(0).integers(0, 256, (3, 28, 105), np.uint8)
    each = [Image.fromarray(one).resize((32, 32), Image.Resampling.BILINEAR) for one in drawings]
    np.testing.assert_array_equal(module._resized(drawings), np.array(each))


def test_what_is_not_packed_is_refused_and_said(alone):
    suite = one_shot_suite()
    for name in ("FashionMNIST", "MNIST"):
        with pytest.raises(NotPacked, match=f"do not come with the book.*`make images` fetches them to {alone}"):
            suite.test(jax.random.key(1), 1000, name)
    suite.train(jax.random.key(1), 1000)


def test_drawings_that_are_not_at_hand_are_refused(small):
    grey = small.grey([2, 4])
    assert grey.shape == (2, 32, 32) and grey.min() == 0 and grey.max() == 1
    with pytest.raises(NotPacked, match="small: wanted drawings that do not come"):
        small.grey([2, 3])


@pytest.mark.parametrize("damage", ["truncated", "empty", "altered", "absent"])
def test_a_damaged_pack_is_named_and_not_used(alone, monkeypatch, damage):
    path = alone / "mnist.npz.xz"
    shutil.copyfile(module.PACK / path.name, path)
    monkeypatch.setattr(module, "PACK", alone)
    if damage == "altered":
        drawings = module.packed_drawings("mnist")
        drawings.drawings[7, 14, 14] ^= 255
        pack_images.write("mnist", drawings)
    elif damage == "absent":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:1000] if damage == "truncated" else b"")
    with pytest.raises(ValueError, match=f"mnist: (not read|wanted other pixels).*from {alone}.*Restore the file"):
        load("mnist")


def test_images_need_boundaries_that_fit(small):
    with pytest.raises(ValueError, match="starts of x"):
        ImageSet("x", small.pixels, np.array([0, 2, 4]), ("one", "two"))


def test_split_refuses_anything_but_omniglot(small):
    with pytest.raises(ValueError, match="1623"):
        omniglot_split(small)


@originals
def test_omniglot_of_the_pack_is_the_original():
    packed, original = module.packed_drawings("omniglot"), pack_images.omniglot(Path(ROOT))
    bits = np.packbits(packed.drawings, axis=2).swapaxes(1, 2)
    np.testing.assert_array_equal(bits, original.drawings)
    np.testing.assert_array_equal(packed.starts, original.starts)
    assert packed.names == original.names


@originals
@pytest.mark.parametrize("name, grey", [("mnist", 0.1307), ("fashion_mnist", 0.2860)])
def test_images_of_the_pack_are_the_originals(monkeypatch, tmp_path, name, grey):
    whole = load(name)
    assert whole.held is None and whole.names == ("train/0", "train/1", "test/0", "test/1")
    # As published for all classes of the originals.
    every = module._bytes(module.folder(name) / "train-images-idx3-ubyte", 16)
    assert every.mean() / 255 == pytest.approx(grey, abs=1e-4)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    packed = load(name)
    assert packed.names == whole.names and 4000 < np.sum(packed.held) < 8000
    np.testing.assert_array_equal(packed.starts, whole.starts)
    np.testing.assert_array_equal(packed.pixels[packed.held], whole.pixels[packed.held])


@originals
@pytest.mark.parametrize("damage", ["truncated", "not gzip", "absent", "other labels"])
def test_damaged_originals_are_named_and_not_used(monkeypatch, tmp_path, damage):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    for path in FILES["mnist"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(Path(ROOT, path).resolve(), tmp_path / path)
    path = tmp_path / FILES["mnist"][1]
    content = path.read_bytes()
    path.unlink()
    if damage == "truncated":
        path.write_bytes(content[:1000])
    elif damage == "not gzip":
        path.write_bytes(b"nothing")
    elif damage == "other labels":
        labels = gzip.decompress(content)
        path.with_suffix("").write_bytes(labels[:8] + labels[:7:-1])
    with pytest.raises(ValueError, match=f"mnist: (not read|wanted other pixels).*from {tmp_path}.*then `make images`"):
        load("mnist")


@originals
def test_originals_that_are_there_are_not_fetched_again(monkeypatch, tmp_path):
    pytest.importorskip("torch", reason="needs PyTorch, as `make images` installs it")
    for path in FILES["mnist"] + FILES["fashion_mnist"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(Path(ROOT, path).resolve(), tmp_path / path)

    def refuse(*_, **__):
        raise OSError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    pack_images.fetch(tmp_path, omniglot=False)
    (tmp_path / FILES["mnist"][0]).unlink()
    shutil.rmtree(tmp_path / "FashionMNIST")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["pack_images.py"])
    assert pack_images.main() == 1
