"""A table of a model's heads: `python -m statmech_attention heads MODEL TEXTS.csv [--picture FILE]`.

MODEL is a name or a folder of Hugging Face's transformers. TEXTS.csv has a column `text` and a column `label`.
"""

import argparse
import csv
import sys
from pathlib import Path

import numpy as np


def main(arguments: list[str] | None = None) -> None:
    """Print the table, and draw it if a picture is asked for."""
    parser = argparse.ArgumentParser("statmech_attention", description=__doc__)
    parser.add_argument("command", choices=["heads"])
    parser.add_argument("model")
    parser.add_argument("texts", type=Path)
    parser.add_argument("--readout", default="mean", help="mean, first or last")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--without-theory", action="store_true", help="leave out the second column")
    parser.add_argument("--picture", type=Path, help="file of a picture of the table, such as heads.svg")
    asked = parser.parse_args(arguments)

    import statmech_attention as sma

    with asked.texts.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"text", "label"} <= set(rows[0]):
        parser.error(f"{asked.texts}: wanted columns text and label, got {', '.join(rows[0]) if rows else 'none'}.")
    try:
        from transformers import AutoModel, AutoTokenizer
    except ImportError:
        parser.error("transformers: wanted it installed, with PyTorch: pip install torch transformers.")
    sma.enable_x64()
    try:
        found = sma.report(
            AutoModel.from_pretrained(asked.model).eval(),
            AutoTokenizer.from_pretrained(asked.model),
            [row["text"] for row in rows],
            [row["label"] for row in rows],
            batch_size=asked.batch_size,
            readout=asked.readout,
            theory=not asked.without_theory,
            progress=_bar,
        )
    except (ValueError, MemoryError, OSError) as error:
        parser.error(str(error))
    print(found)
    if asked.picture:
        _draw(found, asked.picture)


def _bar(done: float) -> None:
    """Show on a line of the terminal how much is done."""
    print(f"\r[{'#' * int(20 * done):20}]", end="\n" if done == 1 else "", file=sys.stderr, flush=True)


def _draw(found, path: Path) -> None:
    """One panel for each column of the table, layers by heads."""
    import matplotlib.pyplot as plt

    panels = {"the model as it is": found.own} | ({} if found.learned is None else {"learned again": found.learned})
    figure, axes = plt.subplots(1, len(panels), squeeze=False, layout="constrained")
    for axis, (name, worth) in zip(axes[0], panels.items(), strict=True):
        table = np.full(found.heads.max(axis=0) + 1, np.nan)
        table[tuple(found.heads.T)] = worth
        most = np.abs(worth).max()
        image = axis.imshow(table, cmap="RdBu_r", vmin=-most, vmax=most)
        axis.set(title=name, xlabel="head", ylabel="layer")
        figure.colorbar(image, ax=axis, label="nats", shrink=0.6)
    figure.savefig(path)


if __name__ == "__main__":
    main()
