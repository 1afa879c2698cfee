"""Images from torchvision's data sets: the one place that imports torch. `images.load` checks them."""

import os
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from statmech_attention.installed import need

_PARTS = ("images_background", "images_evaluation")  # of Omniglot


def decode(name: str, root: Path, size: int, variable: str):
    """Read a data set, downloading it where absent, and resize its images."""
    folder = root / {"omniglot": "omniglot-py", "mnist": "MNIST", "fashion_mnist": "FashionMNIST"}[name]
    try:
        datasets = _torchvision()
    except ImportError as error:
        raise FileNotFoundError(
            f"{name}: no decoded images in {root / 'decoded'}; {error}, or set {variable} to a folder "
            "whose subfolder `decoded` was made elsewhere: its files are checked as they are read."
        ) from error
    try:
        root.mkdir(parents=True, exist_ok=True)
        classes = _omniglot(datasets, folder) if name == "omniglot" else _digits(datasets, folder)
    except (OSError, RuntimeError, ValueError, AssertionError, SyntaxError, EOFError, zipfile.BadZipFile) as error:
        raise FileNotFoundError(
            f"{name}: not read from {folder}, and not to be had by download ({error}). Remove what is damaged there. "
            "Without a network, copy the data set (torchvision's layout, archives are enough) to a folder that can be "
            f"written, and set {variable} to the folder above {folder.name}."
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
    classes = {}
    for part in ("train", "test"):
        loaded = getattr(datasets, folder.name)(folder.parent, train=part == "train", download=True)
        images, targets = loaded.data.numpy(), loaded.targets.numpy()
        classes.update({f"{part}/{digit}": images[targets == digit] for digit in range(10)})
    return classes


def _omniglot(datasets, folder: Path) -> dict[str, np.ndarray]:
    """Omniglot's characters by part, alphabet and number, in ASCII order."""

    class Unpacked(datasets.Omniglot):
        def _check_integrity(self):
            return Path(self.root, self._get_target_folder()).is_dir()

    classes: dict[str, list] = {}
    for part in _PARTS:
        _unpack(folder, part)
        loaded = Unpacked(folder.parent, background=part == _PARTS[0], download=True)
        for character, name in sorted((loaded._characters[i], name) for name, i in loaded._flat_character_images):
            drawings = classes.setdefault(f"{part.removeprefix('images_')}/{character}", [])
            drawings.append(_ink(folder / part / character / name))
    return {name: np.where(drawings, np.uint8(0), np.uint8(255)) for name, drawings in classes.items()}


def _unpack(folder: Path, part: str) -> None:
    """Unpack an archive, whole or not at all; torchvision accepts the original ones only."""
    archive = folder / f"{part}.zip"
    if (folder / part).is_dir() or not archive.exists():
        return
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(temporary)
        os.replace(Path(temporary, part), folder / part)


def _ink(path: Path) -> np.ndarray:
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert("L")) < 128


def _resize(originals: np.ndarray, size: int) -> np.ndarray:
    from PIL import Image
    from torchvision.transforms import functional

    images = (Image.fromarray(original.astype(np.uint8)) for original in originals)
    return np.array([np.asarray(functional.resize(image, [size, size])) for image in images])
