"""Omniglot, MNIST and FashionMNIST as arrays of 32 x 32 images, resized as by the paper's authors.

All of Omniglot comes with the book. Of classes 0 and 1 of the others come the drawings that pages
and quick checks use; with the originals at hand all of them are there.
Ink is 0 on white (1) in Omniglot, 1 on black (0) in the others.
"""

import gzip
import hashlib
import io
import lzma
import os
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int, UInt8

from statmech_attention import checks

VARIABLE = "STATMECH_ATTENTION_DATA"
DATA_SETS = ("omniglot", "mnist", "fashion_mnist")
PACK = Path(__file__).parent / "packed"

_SIZE = 32
_TOGETHER = 500  # drawings that are resized at once
# SHA-256 of all drawings, by `digest`: they are the data set, or they are not used.
_DIGESTS = {
    "omniglot": "dcc43edc49b64beba459d0bc26a6203ee55e14023a8e0db50e95fe6a12cfc16b",
    "mnist": "2e9779d9f419edb4373f251bb7d29d07768ac0fd4da7dba6a9f7c6981fad4131",
    "fashion_mnist": "78013afb501e556987628aecb6808e714fee3147ec3b967ab163fc2e96122913",
}
# Of those that come with the book.
_PACKED = _DIGESTS | {
    "mnist": "14a30f3a3ca46232d99ffd7cd48c73b7cc091ea5d3972e369c4b3398d4bf55fe",
    "fashion_mnist": "105da6e3772ea7d6515ad81f96418d8c1c4633f80668e384f0f11e042fd2b01b",
}
_VALIDATION_ALPHABETS = ("Armenian", "Bengali", "Early_Aramaic", "Hebrew", "Mkhedruli_(Georgian)")


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Drawings of several classes, one class after the other."""

    name: str  # of the data set
    pixels: UInt8[np.ndarray, "drawings height width"]  # grey values, 0 to 255
    starts: Int[np.ndarray, " boundaries"]  # the drawings of class `c` are `pixels[starts[c]:starts[c + 1]]`
    names: tuple[str, ...]  # of the classes; Omniglot "background/Greek/character03", MNIST "train/1" and "test/1"
    held: Bool[np.ndarray, " drawings"] | None = None  # those that are at hand, if not all are

    def __post_init__(self):
        if self.pixels.dtype != np.uint8 or self.pixels.ndim != 3:
            got = f"{self.pixels.dtype} of shape {self.pixels.shape}"
            raise ValueError(f"pixels of {self.name}: wanted uint8, (drawings, height, width), got {got}.")
        object.__setattr__(self, "starts", np.asarray(self.starts, int))
        ends = self.starts[[0, -1]].tolist() == [0, len(self.pixels)] and len(self.names) == len(self.starts) - 1
        if not ends or np.any(np.diff(self.starts) < 1):
            raise ValueError(
                f"starts of {self.name}: wanted the {len(self.names)} classes' boundaries, got {self.starts}."
            )

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.names)

    def grey(self, drawings: ArrayLike) -> Float[np.ndarray, "*chosen height width"]:
        """Return some drawings as grey values in [0, 1]."""
        self.require(drawings)
        return self.pixels[np.asarray(drawings)] / 255.0

    def require(self, drawings: ArrayLike) -> None:
        """Refuse drawings that are not at hand."""
        if self.held is not None and not np.all(self.held[np.asarray(drawings)]):
            raise NotPacked(
                f"{self.name}: wanted drawings that do not come with the book. Long runs, and pages with other "
                f"parameters than their own, need the originals: `make images` fetches them to {data_root()}."
            )


class Drawings(NamedTuple):
    """Drawings at hand, in their original size."""

    drawings: UInt8[np.ndarray, "held rows columns"]
    starts: Int[np.ndarray, " boundaries"]
    names: tuple[str, ...]
    held: Bool[np.ndarray, " drawings"]  # which of all drawings these are


class NotPacked(FileNotFoundError):
    """Raised where drawings are wanted that do not come with the book."""


class Split(NamedTuple):
    """Class indices for training, validation and test."""

    train: Int[np.ndarray, " train"]
    validation: Int[np.ndarray, " validation"]
    test: Int[np.ndarray, " test"]


def load(name: str) -> ImageSet:
    """Load a data set: 1623 characters of 20 drawings, or classes "train/0", "train/1", "test/0", "test/1"."""
    checks.choice("name", name, DATA_SETS)
    from_pack = name == "omniglot" or not any(folder(name).glob("*"))
    source, wanted = (PACK, _PACKED) if from_pack else (folder(name), _DIGESTS)
    remedy = "Restore the file of the repository" if from_pack else "Remove what is damaged there, then `make images`"
    try:
        drawings, starts, names, held = packed_drawings(name) if from_pack else original_drawings(folder(name))
        pixels = np.zeros((len(held), _SIZE, _SIZE), np.uint8)
        pixels[held] = _resized(drawings)
        images = ImageSet(name, pixels, starts, names, None if held.all() else held)
    except (OSError, EOFError, ValueError, KeyError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{name}: not read from {source} ({error}). {remedy}.") from error
    if digest(images) != wanted[name]:
        raise ValueError(
            f"{name}: wanted other pixels than those from {source} (SHA-256 {digest(images)}). {remedy}; or resizing "
            "differs here: install Pillow in the version of the folder constraints."
        )
    return images


def data_root() -> Path:
    """Folder of the originals: STATMECH_ATTENTION_DATA, or in the user's cache folder."""
    if chosen := os.environ.get(VARIABLE):
        return Path(chosen).expanduser()
    home = Path.home()
    by_system = {"darwin": home / "Library" / "Caches", "win32": Path(os.environ.get("LOCALAPPDATA", home))}
    cache = by_system.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache"))
    return cache / "statmech_attention"


def folder(name: str) -> Path:
    """Folder in which torchvision leaves the originals of MNIST or FashionMNIST."""
    return data_root() / {"mnist": "MNIST", "fashion_mnist": "FashionMNIST"}[name] / "raw"


def omniglot_split(images: ImageSet) -> Split:
    """Return Omniglot's few-shot split: 1028 training, 172 validation, 423 test characters.

    The last 423 of the sorted characters are for test; five background alphabets for validation.
    """
    if images.classes != 1623 or list(images.names) != sorted(images.names):
        raise ValueError(f"images: wanted the 1623 sorted characters of Omniglot, got {images.classes} classes.")
    alphabets = [name.split("/")[:2] for name in images.names[:1200]]
    held_out = np.array([part == "background" and name in _VALIDATION_ALPHABETS for part, name in alphabets])
    return Split(np.flatnonzero(~held_out), np.flatnonzero(held_out), np.arange(1200, 1623))


def digest(images: ImageSet) -> str:
    """SHA-256 of the drawings at hand, where they are, and the classes."""
    held = np.ones(len(images.pixels), bool) if images.held is None else images.held
    hashed = hashlib.sha256(str(images.pixels.shape).encode())
    for part in (images.pixels, images.starts.astype(np.int64), *([] if held.all() else [held])):
        hashed.update(np.ascontiguousarray(part).data)
    hashed.update("\n".join(images.names).encode())
    return hashed.hexdigest()


def packed_drawings(name: str) -> Drawings:
    """Drawings that come with the book."""
    with lzma.open(PACK / f"{name}.npz.xz") as file, np.load(io.BytesIO(file.read()), allow_pickle=False) as archive:
        drawings, starts, names, held = (archive[part] for part in Drawings._fields)
    if name == "omniglot":  # a bit per pixel, eight of a row in a byte, and these bytes column by column
        drawings = np.unpackbits(drawings.swapaxes(1, 2), axis=2, count=drawings.shape[2]) * np.uint8(255)
    return Drawings(drawings, starts, tuple(names.tolist()), held)


def original_drawings(folder: Path) -> Drawings:
    """Classes 0 and 1 from the files that torchvision leaves, packed or unpacked."""
    classes = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images = _bytes(folder / f"{prefix}-images-idx3-ubyte", 16).reshape(-1, 28, 28)
        labels = _bytes(folder / f"{prefix}-labels-idx1-ubyte", 8)
        classes.update({f"{part}/{number}": images[labels == number] for number in (0, 1)})
    starts = np.cumsum([0, *map(len, classes.values())])
    return Drawings(np.concatenate(list(classes.values())), starts, tuple(classes), np.ones(starts[-1], bool))


def _bytes(path: Path, header: int) -> UInt8[np.ndarray, " bytes"]:
    with open(path, "rb") if path.exists() else gzip.open(f"{path}.gz") as file:
        return np.frombuffer(file.read(), np.uint8, offset=header)


def _resized(drawings: UInt8[np.ndarray, "drawings rows columns"]) -> UInt8[np.ndarray, "drawings height width"]:
    """Bilinear with antialiasing, as by Pillow: rows first, then columns, many drawings at once."""
    parts = (drawings[start : start + _TOGETHER] for start in range(0, len(drawings), _TOGETHER))
    return np.concatenate([_narrowed(_narrowed(part).swapaxes(1, 2)).swapaxes(1, 2) for part in parts])


def _narrowed(images):
    """Resize every row of every image."""
    from PIL import Image

    count, rows, columns = images.shape
    tall = Image.fromarray(images.reshape(-1, columns))
    return np.asarray(tall.resize((_SIZE, count * rows), Image.Resampling.BILINEAR)).reshape(count, rows, _SIZE)
