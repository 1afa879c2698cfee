"""The drawings of networks name what is in them, and refuse what is not."""

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.patches import FancyBboxPatch

from statmech_attention import plotting

PATHS = plotting.HIDDEN_MARKOV_PATHS


def test_every_path_of_the_drawing_runs_through_its_heads():
    axes = plotting.architecture((2, 3))
    boxes = {patch.get_label(): patch for patch in axes.patches if isinstance(patch, FancyBboxPatch)}
    lines = {line.get_label(): line.get_xydata() for line in axes.lines if line.get_label().startswith("(")}
    assert set(lines) == {f"({first},{second})" for first in (1, 2) for second in (1, 2, 3)}
    for name, points in lines.items():
        for layer, head in enumerate(map(int, name.strip("()").split(",")), start=1):
            box = boxes[rf"$V^{{({layer},{head})}},\ \Omega^{{({layer},{head})}}$"]
            left, right = box.get_x(), box.get_x() + box.get_width()
            inside = points[(points[:, 0] > left) & (points[:, 0] < right)]
            middle = points[np.argmin(np.abs(points[:, 0] - (left + right) / 2))]
            assert box.get_y() < middle[1] < box.get_y() + box.get_height()
            assert np.ptp(inside[:, 1]) < 1e-12, "level within the box"


def test_paths_have_the_same_colours_in_the_drawing_and_in_the_legend():
    axes = plotting.architecture((2, 2), paths=PATHS, legend=True)
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    assert texts == ["good (1,1)", "denoising (2,1)", "adversarial 1 (1,2)", "adversarial 2 (2,2)"]
    for line, name in zip(axes.get_legend().get_lines(), PATHS.values(), strict=True):
        assert same_color(line.get_color(), plotting.COLOURS[name])


@pytest.mark.parametrize("path", [(0, 2), (0,), (0, -1)])
def test_architecture_refuses_a_path_that_is_not_there(path):
    with pytest.raises(ValueError, match="one head a layer"):
        plotting.architecture((2, 2), paths={path: "good"})


def test_the_loop_has_its_four_boxes_and_an_arrow_between_any_two():
    axes = plotting.attention_loop()
    labels = [patch.get_label() for patch in axes.patches]
    assert sum("$" in label for label in labels) == 4
    assert len(axes.patches) == 8
