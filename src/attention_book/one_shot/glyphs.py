"""Glyphs: procedurally drawn characters, for tests and small examples.

A class is two to four curved strokes; its drawings differ a little in angle, shear, size, place and
the bend of the strokes. Ink is 0 on white, as in Omniglot.
"""

import numpy as np
from jaxtyping import Float

from attention_book.one_shot.images import ImageSet, Split
from statmech_attention import checks

_SIZE = 32
_POINTS = 24  # of the polyline that stands for a stroke
_WIDTH = 0.022  # half a stroke's width, in units of the image
_SHARES = (1028 / 1623, 172 / 1623)  # of Omniglot's classes for training and validation


def glyphs(classes: int = 200, drawings: int = 20, *, seed: int = 0) -> ImageSet:
    """Draw glyphs of 32 x 32 pixels; a class looks the same however many others are drawn."""
    seed = checks.whole("seed", seed, 0)
    classes, drawings = checks.whole("classes", classes, 2), checks.whole("drawings", drawings, 2)
    pixels = np.concatenate([_draw(np.random.default_rng([seed, index]), drawings) for index in range(classes)])
    names = tuple(f"glyph/{index}" for index in range(classes))
    return ImageSet("glyphs", pixels, drawings * np.arange(classes + 1), names)


def glyph_split(images: ImageSet) -> Split:
    """Split the classes in Omniglot's proportions, in their order, at least two for each part."""
    if images.classes < 6:
        raise ValueError(f"images: wanted at least 6 classes to split, got {images.classes}. Draw more glyphs.")
    validation = max(2, round(_SHARES[1] * images.classes))
    train = min(max(2, round(_SHARES[0] * images.classes)), images.classes - validation - 2)
    return Split(*np.split(np.arange(images.classes), [train, train + validation]))


def _draw(rng: np.random.Generator, drawings: int) -> np.ndarray:
    strokes = rng.integers(2, 5)
    # Quadratic Bezier curves; the ends well apart, the middle anywhere.
    control = rng.uniform(-0.4, 0.4, (strokes, 3, 2))
    jittered = control + 0.025 * rng.standard_normal((drawings, *control.shape))
    angle, shear = 0.1 * rng.standard_normal((2, drawings))
    stretch = np.exp(0.08 * rng.standard_normal((drawings, 2)))
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]).transpose(2, 0, 1)
    slant = np.broadcast_to(np.eye(2), (drawings, 2, 2)).copy()
    slant[:, 0, 1] = shear
    transform = turn @ slant * stretch[:, None, :]
    points = np.einsum("dij,dscj->dsci", transform, jittered) + 0.03 * rng.standard_normal((drawings, 1, 1, 2))
    along = np.linspace(0, 1, _POINTS)
    bezier = np.stack([(1 - along) ** 2, 2 * along * (1 - along), along**2])
    lines = np.einsum("cp,dsci->dspi", bezier, points)
    return _render(lines.reshape(drawings, -1, 2))


def _render(points: Float[np.ndarray, "drawings points 2"]) -> np.ndarray:
    """Grey images of points so dense that they join, with soft edges one pixel wide."""
    centres = (np.arange(_SIZE) + 0.5) / _SIZE - 0.5
    across = (points[:, :, None, 0] - centres) ** 2
    down = (points[:, :, None, 1] - centres) ** 2
    distance = np.sqrt(np.min(down[:, :, :, None] + across[:, :, None, :], axis=1))
    ink = np.clip(0.5 - (distance - _WIDTH) * _SIZE, 0, 1)
    return np.round(255 * (1 - ink)).astype(np.uint8)
