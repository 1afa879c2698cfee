"""Images from torchvision's data sets: the one place that imports torch.

Every data set is checked by what it decodes to, whichever way its files came: torchvision checks
what it downloads, but takes unpacked files and folders on trust, and knows only the original
archives of Omniglot.
"""

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from statmech_attention.installed import need

_OMNIGLOT = {"images_background": 964, "images_evaluation": 659}
_DRAWINGS = 20
# SHA-256 of the originals: MNIST's and FashionMNIST's unpacked files; for Omniglot the ink of all drawings in order.
_HASHES = {
    "images_background": "6699ae4df8ffac22aee7951d7cba6e421d3c2f9276990b84beacf5bef54348ea",
    "images_evaluation": "afb28aaea14406a6cf3c19d26de4ed60d69ccb7f5e6373afffc637b4784c039c",
    "MNIST/raw/train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "MNIST/raw/train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "MNIST/raw/t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "MNIST/raw/t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    "FashionMNIST/raw/train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "FashionMNIST/raw/train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "FashionMNIST/raw/t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "FashionMNIST/raw/t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}


def decode(name: str, root: Path, size: int, variable: str):
    """Read a data set, downloading it where absent, and resize its images."""
    folder = root / {"omniglot": "omniglot-py", "mnist": "MNIST", "fashion_mnist": "FashionMNIST"}[name]
    try:
        datasets = _torchvision()
    except ImportError as error:
        raise FileNotFoundError(
            f"{name}: no decoded images in {root / 'decoded'}; {error}, "
            f"or set {variable} to a folder whose subfolder `decoded` was made elsewhere: its files are checked as they are read."
        ) from error
    try:
        root.mkdir(parents=True, exist_ok=True)
        classes = _omniglot(datasets, folder) if name == "omniglot" else _digits(datasets, folder)
    except (OSError, RuntimeError) as error:
        raise FileNotFoundError(
            f"{name}: not found in {folder}, and not to be had by download ({error}). Without a network, copy the data "
            "set (torchvision's layout, archives are enough) to a folder that can be written, and set "
            f"{variable} to the folder above {folder.name}."
        ) from error
    pixels = [_resize(originals, size) for originals in classes.values()]
    starts = np.cumsum([0, *(len(images) for images in pixels)])
    return np.concatenate(pixels), starts, tuple(classes)


def _torchvision():
    need("images", "reading the originals")
    import torch

    # Beside a CPU-only torch, torchvision's import fails for want of two operators that data sets never use.
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            torch.library.define(
                f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
    from torchvision import datasets

    return datasets


def _digits(datasets, folder: Path) -> dict[str, np.ndarray]:
    """MNIST or FashionMNIST, ten classes of training images and ten of test images."""
    data_set = getattr(datasets, folder.name)
    classes = {}
    for part in ("train", "test"):
        try:
            loaded = data_set(folder.parent, train=part == "train", download=True)
        except (OSError, RuntimeError, ValueError, AssertionError) as error:
            _check_unpacked(folder, error)
            _check_archives(folder, dict(data_set.resources), error)
            raise RuntimeError(str(error)) from error
        _check_unpacked(folder)
        images, targets = loaded.data.numpy(), loaded.targets.numpy()
        classes.update({f"{part}/{digit}": images[targets == digit] for digit in range(10)})
    return classes


def _check_unpacked(folder: Path, cause: Exception | None = None) -> None:
    """Refuse unpacked files that are not the originals."""
    for name, wanted in _HASHES.items():
        path = folder.parent / name
        if name.startswith(f"{folder.name}/") and path.exists() and _hash(path.read_bytes()) != wanted:
            raise ValueError(f"{path}: truncated or altered. Remove it; it is unpacked or downloaded again.") from cause


def _check_archives(folder: Path, checksums: dict[str, str], cause: Exception) -> None:
    """Name the archive at fault after reading failed, if there is one."""
    for name, wanted in checksums.items():
        path = folder / "raw" / name
        if path.exists() and hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() != wanted:
            raise ValueError(
                f"{path}: truncated or altered, and no whole one could be downloaded ({cause})."
            ) from cause


def _omniglot(datasets, folder: Path) -> dict[str, np.ndarray]:
    """Omniglot's characters by part, alphabet and number, in ASCII order."""

    class Unpacked(datasets.Omniglot):
        def _check_integrity(self):
            return Path(self.root, self._get_target_folder()).is_dir()

    classes = {}
    for part, characters in _OMNIGLOT.items():
        _unpack(folder, part)
        loaded = Unpacked(folder.parent, background=part == "images_background", download=True)
        paths = sorted((loaded._characters[index], name) for name, index in loaded._flat_character_images)
        found: dict[str, list] = {}
        for character, name in paths:
            found.setdefault(character, []).append(_ink(folder / part / character / name))
        if len(found) != characters or any(len(drawings) != _DRAWINGS for drawings in found.values()):
            raise ValueError(
                f"{folder / part}: wanted {characters} characters of {_DRAWINGS} drawings, got {len(found)} and "
                f"{len(paths)} drawings in all. Remove this folder; it is unpacked or downloaded again."
            )
        ink = np.array(list(found.values()))
        if _hash(np.packbits(ink).tobytes()) != _HASHES[part]:
            raise ValueError(f"{folder / part}: altered drawings. Remove this folder and its archive, and load again.")
        short = part.removeprefix("images_")
        classes.update(
            {
                f"{short}/{name}": np.where(drawings, np.uint8(0), np.uint8(255))
                for name, drawings in zip(found, ink, strict=True)
            }
        )
    return classes


def _unpack(folder: Path, part: str) -> None:
    """Unpack an archive, whole or not at all; torchvision accepts the original ones only."""
    archive = folder / f"{part}.zip"
    if (folder / part).is_dir() or not archive.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        try:
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(temporary)
        except (zipfile.BadZipFile, EOFError) as error:
            raise ValueError(
                f"{archive}: a truncated or damaged archive ({error}). Remove it, and load again."
            ) from error
        if not Path(temporary, part).is_dir():
            raise ValueError(f"{archive}: wanted a folder {part} in this archive, got none. Remove it, and load again.")
        os.replace(Path(temporary, part), folder / part)


def _ink(path: Path) -> np.ndarray:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return np.asarray(image.convert("L")) < 128
    except (OSError, SyntaxError) as error:
        raise ValueError(
            f"{path}: a damaged drawing ({error}). Remove the folder it is in; it is unpacked again."
        ) from error


def _resize(originals: np.ndarray, size: int) -> np.ndarray:
    from PIL import Image
    from torchvision.transforms import functional

    images = (Image.fromarray(original.astype(np.uint8)) for original in originals)
    return np.array([np.asarray(functional.resize(image, [size, size])) for image in images])


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
