"""Image data sets: decoding, integrity, the array file, the split. Real data only where they are at hand."""

import gzip
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from attention_book.tasks import _decode
from attention_book.tasks import images as module
from attention_book.tasks.images import VARIABLE, ImageSet, data_root, load, omniglot_split

ROOT = os.environ.get(VARIABLE)
FILES = {
    "omniglot": [f"omniglot-py/images_{part}.zip" for part in ("background", "evaluation")],
    "mnist": [
        f"MNIST/raw/{part}-ubyte.gz"
        for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    ],
}
FILES["fashion_mnist"] = [path.replace("MNIST", "FashionMNIST") for path in FILES["mnist"]]


def missing() -> str:
    """Why real data cannot be tested, or nothing."""
    if not ROOT:
        return f"{VARIABLE} is not set: it names the folder with the original image files"
    absent = [path for paths in FILES.values() for path in paths if not Path(ROOT, path).is_file()]
    if absent:
        return f"{VARIABLE}: {absent[0]} is not there"
    try:
        import torch  # noqa: F401
    except ImportError:
        return "torch is not installed: make images"
    return ""


real_data = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def small():
    pixels = np.arange(5 * 32 * 32).reshape(5, 32, 32).astype(np.uint8)
    return ImageSet("omniglot", pixels, np.array([0, 2, 5]), ("one", "two"))


@pytest.fixture
def small_is_omniglot(small, monkeypatch):
    monkeypatch.setitem(module._DIGESTS, "omniglot", module._digest(small.pixels, small.starts, small.names))


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The original files where they can be unpacked, away from the user's folder."""
    root = tmp_path_factory.mktemp("data")
    for path in (path for paths in FILES.values() for path in paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        os.symlink(Path(ROOT, path).resolve(), root / path)
    return root


@pytest.fixture
def offline(monkeypatch):
    """Fail at once whatever torchvision tries to open."""

    def refuse(*_, **__):
        raise OSError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


def test_array_file_is_read_back_and_torch_not_imported(small, tmp_path):
    module._write(small, tmp_path / "decoded" / "omniglot-32-v1.npz")
    code = (
        "import sys; from attention_book.tasks.images import _DIGESTS, load; "
        f"_DIGESTS['omniglot'] = {module._digest(small.pixels, small.starts, small.names)!r}; "
        f"images = load('omniglot', {str(tmp_path)!r}); "
        "print(images.pixels.sum(), images.classes, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(small.pixels.sum()), "2", "False"]
    assert [path.name for path in (tmp_path / "decoded").iterdir()] == ["omniglot-32-v1.npz"]  # no half-written files


@pytest.mark.parametrize("damage", ["truncated", "empty", "altered", "other"])
@pytest.mark.usefixtures("small_is_omniglot")
def test_damaged_array_file_is_named_and_not_used(small, tmp_path, damage):
    path = tmp_path / "decoded" / "omniglot-32-v1.npz"
    module._write(small, path)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "other":
        np.savez(path.with_suffix(""), pixels=small.pixels)
    else:
        with np.load(path) as archive:
            parts = dict(archive)
        parts["pixels"][3, 1, 1] ^= 1
        np.savez(path.with_suffix(""), **parts)
    with pytest.raises(ValueError, match="omniglot-32-v1.npz.*Remove this file"):
        load("omniglot", tmp_path)


@pytest.mark.parametrize("name", ["omniglot", "mnist", "fashion_mnist"])
def test_a_whole_file_of_other_images_is_named_and_not_used(small, tmp_path, name):
    module._write(small, tmp_path / "decoded" / f"{name}-32-v1.npz")
    with pytest.raises(
        ValueError, match=f"{name}-32-v1.npz: wanted the images of {name}, got others.*Remove this file"
    ):
        load(name, tmp_path)


def test_originals_that_are_resized_to_other_pixels_are_not_used(small, tmp_path, monkeypatch):
    monkeypatch.setattr(_decode, "decode", lambda *_: (small.pixels, small.starts, small.names))
    with pytest.raises(ValueError, match="omniglot: wanted other pixels.*install torchvision and Pillow"):
        load("omniglot", tmp_path)
    assert not list(tmp_path.rglob("*.npz"))


def test_interrupted_write_leaves_nothing_behind(small, tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", interrupted)
    with pytest.raises(KeyboardInterrupt):
        module._write(small, tmp_path / "x.npz")
    assert not list(tmp_path.iterdir())


def test_processes_that_start_together_decode_once(tmp_path):
    # As two pages of a first build do. The stand-in for the decoder is slow, and fails where another is at it already.
    code = f"""
import pathlib, time, numpy as np
from attention_book.tasks import _decode, images
decoded = np.full((2, 32, 32), 7, np.uint8), np.array([0, 2]), ("one",)
def decode(name, root, *_):
    pathlib.Path(root, "unpacked").mkdir()
    time.sleep(0.5)
    return decoded
_decode.decode = decode
images._DIGESTS["omniglot"] = images._digest(*decoded)
print(images.load("omniglot", {str(tmp_path)!r}).pixels.sum())
"""
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=120)[0].strip() for process in started] == [str(2 * 32 * 32 * 7)] * 3
    assert [path.name for path in (tmp_path / "decoded").iterdir()] == ["omniglot-32-v1.npz"]


def test_data_root_argument_before_variable_before_cache(monkeypatch, tmp_path):
    monkeypatch.setenv(VARIABLE, str(tmp_path / "variable"))
    assert data_root(tmp_path) == tmp_path
    assert data_root() == tmp_path / "variable"
    monkeypatch.delenv(VARIABLE)
    assert data_root().name == "statmech_attention"


def test_unknown_name_is_refused():
    with pytest.raises(ValueError, match="omniglot, mnist, fashion_mnist, got 'cifar'"):
        load("cifar")


def test_missing_torch_is_said(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(FileNotFoundError, match=rf"torch.*statmech-attention\[images\].*{VARIABLE}"):
        load("mnist", tmp_path)


def test_images_need_boundaries_that_fit(small):
    with pytest.raises(ValueError, match="starts of x"):
        ImageSet("x", small.pixels, np.array([0, 2, 4]), ("one", "two"))


def test_grey_values(small):
    grey = small.grey([2, 3, 4])
    assert grey.shape == (3, 32, 32) and grey.min() == 0 and grey.max() == 1


def test_split_refuses_anything_but_omniglot(small):
    with pytest.raises(ValueError, match="1623"):
        omniglot_split(small)


@real_data
def test_omniglot_decodes_and_splits_by_the_rule(copied, offline):
    images = load("omniglot", copied)
    assert images.pixels.shape == (32460, 32, 32) and set(np.diff(images.starts)) == {20}
    split = omniglot_split(images)
    assert [len(part) for part in split] == [1028, 172, 423]
    assert sorted(np.concatenate(split)) == list(range(1623))
    assert sum(images.names[index].startswith("background") for index in split.train) == 792
    # The cut falls inside an alphabet.
    assert images.names[split.train[-1]] == "evaluation/Gurmukhi/character41"
    assert images.names[split.test[0]] == "evaluation/Gurmukhi/character42"
    assert {images.names[index].split("/")[1] for index in split.validation} == {
        "Armenian",
        "Bengali",
        "Early_Aramaic",
        "Hebrew",
        "Mkhedruli_(Georgian)",
    }
    # Ink is dark on white, and little of it.
    assert 0.9 < images.pixels.mean() / 255 < 0.94
    again = load("omniglot", copied)
    np.testing.assert_array_equal(again.pixels, images.pixels)


@real_data
@pytest.mark.parametrize("name, folder, grey", [("mnist", "MNIST", 0.1307), ("fashion_mnist", "FashionMNIST", 0.2860)])
def test_digits_decode_and_altered_unpacked_files_are_named(copied, offline, name, folder, grey):
    images = load(name, copied)
    assert len(images.pixels) == 70000 and images.names[0] == "train/0" and images.names[19] == "test/9"
    assert images.starts[10] == 60000
    assert images.pixels.mean() / 255 == pytest.approx(grey, abs=1e-3)  # as published for the originals
    if name == "mnist":  # both are read by the same lines
        return
    (copied / "decoded" / f"{name}-32-v1.npz").unlink()
    labels = copied / folder / "raw" / "train-labels-idx1-ubyte"
    content = bytearray(labels.read_bytes())
    for changed in (bytes(content[:-7]), bytes(content[:8]) + bytes(reversed(content[8:]))):
        labels.write_bytes(changed)
        with pytest.raises((ValueError, FileNotFoundError), match=f"{name}: (wanted other pixels|not read from)"):
            load(name, copied)
    labels.unlink()


@real_data
def test_truncated_archive_of_digits_is_named(tmp_path, offline):
    for path in FILES["mnist"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(ROOT, path), tmp_path / path)
    broken = tmp_path / FILES["mnist"][2]
    broken.write_bytes(broken.read_bytes()[:1000])
    with pytest.raises(FileNotFoundError, match="mnist: not read from"):
        load("mnist", tmp_path)


@real_data
@pytest.mark.parametrize("name", ["omniglot", "mnist"])
def test_no_data_and_no_network_says_what_to_do(tmp_path, offline, name):
    with pytest.raises(FileNotFoundError, match=f"not read from {tmp_path}.*Without a network.*{VARIABLE}"):
        load(name, tmp_path)


@real_data
def test_damaged_omniglot_is_named(tmp_path, offline):
    folder = tmp_path / "omniglot-py"
    folder.mkdir()
    archive = folder / "images_background.zip"
    archive.write_bytes(Path(ROOT, FILES["omniglot"][0]).read_bytes()[:100_000])
    with pytest.raises(FileNotFoundError, match="omniglot: not read from .*zip file"):
        load("omniglot", tmp_path)
    archive.write_bytes(gzip.compress(b"not a zip"))
    with pytest.raises(FileNotFoundError, match="omniglot: not read from .*zip file"):
        load("omniglot", tmp_path)
    # Unpacked, but only in part.
    archive.unlink()
    with zipfile.ZipFile(Path(ROOT, FILES["omniglot"][0])) as opened:
        opened.extractall(folder, [name for name in opened.namelist() if "Greek/character0" in name])
    with pytest.raises(FileNotFoundError, match="omniglot: not read from"):
        load("omniglot", tmp_path)
