"""The one-shot task in pictures: sequences of three labelled images, and what a head attends to in one."""

import numpy as np

from statmech_attention.plotting.style import COLOURS

_GAP = 3  # pixels between images


def one_shot_sequence(images, first, *, axes, patch: int | None = None, answer=None):
    """Three images side by side with their labels +, -, ?.

    Args:
        images: `(3, height, width)`, grey values in [0, 1].
        first: label of the first image, +1 or -1.
        axes: Matplotlib axes.
        patch: pixels a side of a patch, to draw their borders; none where None.
        answer: the right answer, to be written behind; not written where None.

    Returns:
        The axes.
    """
    _, height, width = np.shape(images)
    for place, (image, name) in enumerate(zip(images, _labels(first), strict=True)):
        left = place * (width + _GAP)
        axes.imshow(image, cmap="gray", vmin=0, vmax=1, extent=(left, left + width, height, 0), interpolation="nearest")
        axes.plot(*_outline(left, width, height), color="0.6", linewidth=0.8)
        for cut in range(patch or height, height, patch or height):
            axes.plot([left, left + width], [cut, cut], color=COLOURS["theory"], linewidth=0.6)
            axes.plot([left + cut, left + cut], [0, height], color=COLOURS["theory"], linewidth=0.6)
        axes.text(left + width / 2, height + 3, name, ha="center", va="top", fontsize=11)
    if answer is not None:
        axes.text(3 * width + 3 * _GAP, height / 2, f"→ {_sign(answer)}", va="center", fontsize=12)
    _frame(axes, height, width)
    return axes


def attended(images, weights, *, axes, patch: int, title: str = ""):
    """Three images, each patch with a tint as deep as the attention that it gets.

    Args:
        images: `(3, height, width)`, grey values in [0, 1].
        weights: `(tokens,)`, one number a patch, image by image, row by row; 0 or more.
        axes: Matplotlib axes.
        patch: pixels a side of a patch.
        title: above.

    Returns:
        The axes; the deepest tint stands for the largest weight.
    """
    _, height, width = np.shape(images)
    rows = height // patch
    depth = np.reshape(weights, (3, rows, rows)) / np.max(weights)
    for place, (image, share) in enumerate(zip(images, depth, strict=True)):
        extent = (place * (width + _GAP), place * (width + _GAP) + width, height, 0)
        axes.imshow(image, cmap="gray", vmin=-0.5, vmax=1, extent=extent, interpolation="nearest")
        axes.imshow(share, cmap="Oranges", vmin=0, vmax=1, alpha=0.65 * share, extent=extent, interpolation="nearest")
        axes.plot(*_outline(extent[0], width, height), color="0.6", linewidth=0.8)
    axes.set_title(title, fontsize=10)
    _frame(axes, height, width)
    return axes


def _labels(first) -> tuple[str, str, str]:
    return _sign(first), _sign(-first), "?"


def _sign(label) -> str:
    return "+" if label > 0 else "\N{MINUS SIGN}"


def _outline(left: int, width: int, height: int):
    return [left, left + width, left + width, left, left], [0, 0, height, height, 0]


def _frame(axes, height: int, width: int) -> None:
    axes.set(xlim=(-1, 3 * width + 2 * _GAP + 1), ylim=(height + 1, -1), aspect="equal")
    axes.axis("off")
