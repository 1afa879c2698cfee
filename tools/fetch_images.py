"""Fetch the original images with torchvision: `make images`."""

import sys

from attention_book.one_shot.images import data_root


def main() -> int:
    """Download what is absent; torchvision compares it with its checksums."""
    import torch

    # Beside a CPU-only torch, torchvision's import fails for want of two operators that data sets never use.
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            torch.library.define(
                f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
            )
    from torchvision import datasets

    try:
        for name in ("MNIST", "FashionMNIST"):
            for train in (True, False):
                getattr(datasets, name)(data_root(), train=train, download=True)
    except (OSError, RuntimeError) as error:
        print(f"error: not fetched ({error}). Copy the files to {data_root()}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
