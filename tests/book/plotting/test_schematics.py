"""The drawings of networks name what is in them, and refuse what is not."""

import numpy as np
import pytest
from matplotlib.colors import same_color
from matplotlib.patches import FancyBboxPatch

from attention_book import plotting

PATHS = plotting.HIDDEN_MARKOV_PATHS


def test_every_path_of_the_drawing_runs_through_its_heads():
    axes = plotting.architecture((2, 3))
    boxes = {patch.get_label(): patch for patch in axes.patches if isinstance(patch, FancyBboxPatch)}
    lines = {line.get_label(): line.get_xydata() for line in axes.lines if line.get_label().startswith("(")}
    assert set(lines) == {f"({first},{second})" for first in (1, 2) for second in (1, 2, 3)}
    for name, points in lines.items():
        for layer, head in enumerate(map(int, name.strip("()").split(",")), start=1):
            box = boxes[rf"$\Omega^{{({layer},{head})}}$"]
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


def test_the_flow_puts_the_scale_that_the_layer_above_gives_before_every_order_parameter():
    order = (np.diag(np.arange(1.0, 7.0)), np.array([[2.0, -1, 0], [-1, 3, 0], [0, 0, 1]]), 0.5)
    figure = plotting.order_parameter_flow({"one": order, "other": order}, variance=(1.0, 0.5, 4.0, 1.0))
    rows = [[axes.images[0].get_array() for axes in figure.axes[start : start + 5]] for start in (0, 5)]
    wanted = [np.full((1, 1), 0.5), 4.0 * 0.5 * np.eye(3), order[1], 0.5 * np.kron(np.eye(2), order[1]), order[0]]
    for row in rows:
        for shown, matrix in zip(row, wanted, strict=True):
            np.testing.assert_allclose(shown, matrix)
    limits = {image.get_clim() for axes in figure.axes[:10] for image in axes.images}
    assert limits == {(-6.0, 6.0)}, "one scale"
    assert len(figure.axes) == 11
    assert [axes.get_ylabel() for axes in figure.axes[:10:5]] == ["one", "other"]


def test_the_flow_shows_the_matrices_of_narrow_heads():
    inner = np.array([[[2.0]], [[3.0]]])
    figure = plotting.order_parameter_flow({"one": (np.eye(2), inner, 0.5)}, variance=(1.0, 4.0, 1.0))
    wanted = [np.full((1, 1), 0.5), np.diag([2.0, 3.0]), 2 * np.diag([2.0, 3.0]), np.eye(2)]
    for axes, matrix in zip(figure.axes[:4], wanted, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), matrix)
    assert [axes.get_title() for axes in figure.axes[:4:3]] == ["$U^{(2)}$", "$U^{(1)}$"]


def test_the_flow_refuses_sizes_that_do_not_follow_from_each_other():
    with pytest.raises(ValueError, match="multiples"):
        plotting.order_parameter_flow({"one": (np.eye(4), np.eye(3), 1.0)})
