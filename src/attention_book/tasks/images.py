"""Omniglot, MNIST and FashionMNIST as arrays of 32 x 32 images, resized as by the paper's authors.

The first time they are decoded by torchvision and kept as one compressed file per data set. Ink is
0 on white (1) in Omniglot, 1 on black (0) in the others.
"""

import contextlib
import hashlib
import os
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int, UInt8

from statmech_attention import checks

VARIABLE = "STATMECH_ATTENTION_DATA"
DATA_SETS = ("omniglot", "mnist", "fashion_mnist")

_SIZE = 32
# Part of the file's name: a file of another version is another file.
_VERSION = 1
# SHA-256 of what each file holds, by `_digest`: it is the data set, or it is not used.
_DIGESTS = {
    "omniglot": "dcc43edc49b64beba459d0bc26a6203ee55e14023a8e0db50e95fe6a12cfc16b",
    "mnist": "70debcac22cc968a48b8a371668073f4fb2e280b5548d842ac4d2b5c63d4eded",
    "fashion_mnist": "dc181dd83e70240564fc542ae3cf0eb5d7592868a34476762bb3e53c72aed37b",
}
_VALIDATION_ALPHABETS = ("Armenian", "Bengali", "Early_Aramaic", "Hebrew", "Mkhedruli_(Georgian)")


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Drawings of several classes, one class after the other."""

    name: str  # of the data set
    pixels: UInt8[np.ndarray, "drawings height width"]  # grey values, 0 to 255
    starts: Int[np.ndarray, " boundaries"]  # the drawings of class `c` are `pixels[starts[c]:starts[c + 1]]`
    names: tuple[str, ...]  # of the classes; Omniglot "background/Greek/character03", MNIST "train/3" and "test/3"

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
        return self.pixels[np.asarray(drawings)] / 255.0


class Split(NamedTuple):
    """Class indices for training, validation and test."""

    train: Int[np.ndarray, " train"]
    validation: Int[np.ndarray, " validation"]
    test: Int[np.ndarray, " test"]


def load(name: str, root: str | os.PathLike | None = None) -> ImageSet:
    """Load a data set: 1623 characters of 20 drawings, or ten classes of 70,000 images.

    Classes 0 to 9 of MNIST and FashionMNIST are their training images, 10 to 19 their test images.
    """
    checks.choice("name", name, DATA_SETS)
    root = data_root(root)
    path = root / "decoded" / f"{name}-{_SIZE}-v{_VERSION}.npz"
    checks.refuse_folder(path)
    if not path.exists():
        # Only here: torch is slow to import and not needed again.
        from attention_book.locks import alone
        from attention_book.tasks._decode import decode

        # One process unpacks and decodes; those that come meanwhile wait for its file. Where no lock can be
        # written, the work itself says why.
        with contextlib.ExitStack() as held:
            with contextlib.suppress(OSError):
                held.enter_context(alone(path.with_suffix(".lock"), wait=True))
            if not path.exists():
                images = ImageSet(name, *decode(name, root, _SIZE, VARIABLE))
                if _digest(images.pixels, images.starts, images.names) != _DIGESTS[name]:
                    raise ValueError(
                        f"{name}: wanted other pixels. An original in {root} is truncated or altered: remove it; or "
                        "resizing differs here: install torchvision and Pillow in the versions of the folder "
                        f"constraints, or copy {path.name} from another machine to {path.parent}."
                    )
                _write(images, path)
                return images
    return _read(name, path)


def data_root(root: str | os.PathLike | None = None) -> Path:
    """Folder of the data sets: `root`, or STATMECH_ATTENTION_DATA, or the user's cache folder."""
    chosen = os.environ.get(VARIABLE) if root is None else root
    if chosen:
        return checks.path("root", chosen).expanduser()
    home = Path.home()
    by_system = {"darwin": home / "Library" / "Caches", "win32": Path(os.environ.get("LOCALAPPDATA", home))}
    cache = by_system.get(sys.platform, Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache"))
    return cache / "statmech_attention"


@checks.objects
def omniglot_split(images: ImageSet) -> Split:
    """Return Omniglot's few-shot split: 1028 training, 172 validation, 423 test characters.

    The last 423 of the sorted characters are for test; five background alphabets for validation.
    """
    if images.classes != 1623 or list(images.names) != sorted(images.names):
        raise ValueError(f"images: wanted the 1623 sorted characters of Omniglot, got {images.classes} classes.")
    alphabets = [name.split("/")[:2] for name in images.names[:1200]]
    held_out = np.array([part == "background" and name in _VALIDATION_ALPHABETS for part, name in alphabets])
    return Split(np.flatnonzero(~held_out), np.flatnonzero(held_out), np.arange(1200, 1623))


def _read(name: str, path: Path) -> ImageSet:
    try:
        # Opened here, since NumPy leaves a file open that it cannot read.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            pixels, starts, names = archive["pixels"], archive["starts"], tuple(archive["names"].tolist())
            digest = _digest(pixels, starts, names)
    except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path}: a damaged file of images ({error}). Remove this file; it will be made again."
        ) from error
    if digest != _DIGESTS[name]:
        raise ValueError(
            f"{path}: wanted the images of {name}, got others (SHA-256 {digest[:12]}..). "
            "Remove this file; it will be made again."
        )
    return ImageSet(name, pixels, starts, names)


def _write(images: ImageSet, path: Path) -> None:
    from statmech_attention.files import replacing

    arrays: dict[str, Any] = {"pixels": images.pixels, "starts": images.starts, "names": np.array(images.names)}
    with replacing(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)


def _digest(pixels, starts, names) -> str:
    digest = hashlib.sha256(str(pixels.shape).encode())
    digest.update(np.ascontiguousarray(pixels).data)
    digest.update(np.ascontiguousarray(starts, dtype=np.int64).data)
    digest.update("\n".join(names).encode())
    return digest.hexdigest()
