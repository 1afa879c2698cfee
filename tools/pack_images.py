"""Fetch the original images with torchvision (`make images`), or pack those that come with the book (`--pack`).

A pack is due when a page or a quick check draws other images. It takes five minutes, and new checksums go into
`attention_book/tasks/images.py`, which says what they are.
"""

import argparse
import io
import lzma
import os
import sys
import zipfile
from pathlib import Path
from unittest.mock import patch

import numpy as np

from attention_book.tasks import images

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("images_background", "images_evaluation")  # of Omniglot
PAGES = ("one_shot/task", "one_shot/pruning")  # that draw sequences
# Bytes of pictures are not aligned: 10 % smaller.
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 4, "lp": 0, "pb": 0}]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pack", action="store_true", help="make the images that come with the book")
    options = parser.parse_args()
    try:
        fetch(images.data_root(), omniglot=options.pack)
    except (OSError, RuntimeError) as error:
        print(f"error: not fetched ({error}). Copy the files to {images.data_root()}.", file=sys.stderr)
        return 1
    if options.pack:
        write("omniglot", omniglot(images.data_root()))
        for name, held in drawn().items():
            whole = images.original_drawings(images.folder(name))
            write(name, whole._replace(drawings=whole.drawings[held], held=held))
    return 0


def fetch(root: Path, omniglot: bool) -> None:
    """Download what is absent; torchvision compares it with its checksums."""
    datasets = _torchvision()
    for name in ("MNIST", "FashionMNIST"):
        for train in (True, False):
            getattr(datasets, name)(root, train=train, download=True)
    for part in PARTS if omniglot else ():
        if not (root / "omniglot-py" / f"{part}.zip").exists():
            datasets.Omniglot(root, background=part == PARTS[0], download=True)


def _torchvision():
    import torch

    # Beside a CPU-only torch, torchvision's import fails for want of two operators that data sets never use.
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            torch.library.define(
                f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
    from torchvision import datasets

    return datasets


def omniglot(root: Path) -> images.Drawings:
    """Omniglot's characters by part, alphabet and number; of every drawing eight pixels of a row in a byte."""
    from PIL import Image

    classes: dict[str, list] = {}
    for part in PARTS:
        with zipfile.ZipFile(root / "omniglot-py" / f"{part}.zip") as archive:
            for path in sorted(name for name in archive.namelist() if name.endswith(".png")):
                with Image.open(io.BytesIO(archive.read(path))) as image:
                    white = np.asarray(image.convert("L")) >= 128
                name = path.removeprefix("images_").rpartition("/")[0]
                classes.setdefault(name, []).append(np.packbits(white, axis=1))
    starts = np.cumsum([0, *map(len, classes.values())])
    drawings = np.concatenate(list(classes.values())).swapaxes(1, 2)  # shorter like this
    return images.Drawings(drawings, starts, tuple(classes), np.ones(starts[-1], bool))


def drawn() -> dict[str, np.ndarray]:
    """Execute the pages and recompute the quick records; return which drawings of MNIST and FashionMNIST they use."""
    import jupytext
    from verify import QUICK, RESULTS, verify

    held = {name: np.zeros(len(images.load(name).pixels), bool) for name in ("mnist", "fashion_mnist")}

    def note(self, drawings):
        if self.name in held:
            held[self.name][np.asarray(drawings)] = True

    with patch.object(images.ImageSet, "require", note):
        for page in PAGES:
            path = (ROOT / "book" / page).with_suffix(".md")
            os.chdir(path.parent)
            code = (cell.source for cell in jupytext.read(path).cells if cell.cell_type == "code")
            exec("\n".join(code), {"__name__": page})
        for record in QUICK:
            if record.startswith("one_shot/"):
                good, said = verify(RESULTS / record)
                print(f"{record}: {said}")
                assert good, said
    return held


def write(name: str, found: images.Drawings) -> None:
    """Write one data set of the pack, and print its size."""
    file = io.BytesIO()
    np.savez(file, **{**found._asdict(), "names": np.array(found.names)})
    path = images.PACK / f"{name}.npz.xz"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(lzma.compress(file.getvalue(), filters=FILTERS))
    print(f"{path}: {path.stat().st_size / 1e6:.2f} MB, {found.held.sum()} of {len(found.held)} drawings")


if __name__ == "__main__":
    sys.exit(main())
