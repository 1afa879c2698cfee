"""The figures carry the right data, names and colours, and refuse data that does not fit."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color, to_rgba
from matplotlib.patches import Circle, FancyBboxPatch

from statmech_attention import plotting

plotting.use_style()
PATHS = plotting.HIDDEN_MARKOV_PATHS


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


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


def test_what_stands_together_in_a_figure_differs_in_colour():
    assert len(set(plotting.COLOURS.values())) == len(plotting.COLOURS)


@pytest.mark.parametrize("path", [(0, 2), (0,), (0, -1)])
def test_architecture_refuses_a_path_that_is_not_there(path):
    with pytest.raises(ValueError, match="one head a layer"):
        plotting.architecture((2, 2), paths={path: "good"})


def test_order_parameter_is_centred_at_zero_and_named_by_heads():
    matrix = np.diag([11.7, 0.43, 5.73, 0.46])
    matrix[0, 2] = matrix[2, 0] = -4.1
    axes = plotting.order_parameter(matrix, (2, 2))
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), matrix)
    assert image.norm.vmin == -image.norm.vmax
    np.testing.assert_allclose(image.cmap(image.norm(0.0))[:3], 0.97, atol=0.01)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["(1,1)", "(1,2)", "(2,1)", "(2,2)"]
    assert [text.get_text() for text in axes.texts][:4] == ["12", "0", "-4.1", "0"]


def test_large_order_parameters_are_drawn_without_numbers():
    assert not plotting.order_parameter(np.eye(27), (3, 3, 3)).texts
    with pytest.raises(ValueError, match="wanted shape"):
        plotting.order_parameter(np.eye(4), (2, 3))


def test_mean_and_error():
    mean, error = plotting.mean_and_error([[1.0, 5.0], [3.0, 5.0]])
    np.testing.assert_allclose(mean, [2, 5])
    np.testing.assert_allclose(error, [1, 0])
    np.testing.assert_array_equal(plotting.mean_and_error([[1.0]])[1], [0])


def test_curve_is_the_mean_in_the_order_of_the_widths_with_its_error_as_band():
    values = np.array([[0.8, 0.9, 0.6], [0.9, 1.0, 0.8]])
    axes = plotting.against_width([1000, 10, 100], values, label="theory")
    (line,) = axes.lines
    np.testing.assert_allclose(line.get_xydata(), [[10, 0.95], [100, 0.7], [1000, 0.85]])
    band = axes.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose([band[band[:, 0] == 100, 1].min(), band[band[:, 0] == 100, 1].max()], [0.6, 0.8])
    assert axes.get_xscale() == "log" and line.get_label() == "theory"
    with pytest.raises(ValueError, match=r"wanted shape \(draws, 2\)"):
        plotting.against_width([10, 100], values, label="theory")


def test_reference_line_is_at_the_mean():
    (line,) = plotting.reference_line([0.8, 0.9], label="GP").lines
    np.testing.assert_allclose(line.get_ydata(), 0.85)


def test_overlaps_are_the_means_of_the_leading_components():
    overlaps = np.arange(12.0).reshape(2, 6)
    axes = plotting.principal_overlaps(overlaps, label="GP", count=4)
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[1, 3], [2, 4], [3, 5], [4, 6]])


def test_kernel_is_sorted_by_class():
    labels = np.array([-1.0, 1, -1, 1])
    axes = plotting.kernel_matrix(np.outer(labels, labels), labels)
    block = np.array([1, 1, -1, -1])
    np.testing.assert_array_equal(axes.images[0].get_array(), np.outer(block, block))
    assert axes.lines[0].get_ydata()[0] == 1.5


def test_groups_show_every_draw_in_the_colour_of_its_path():
    values = np.array([[0.9, 0.5], [0.8, 0.6]])
    axes = plotting.groups(values, ["good", "other"], colours=["good", "#000000"])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [0.9, 0.8])
    assert same_color(axes.lines[0].get_color(), plotting.COLOURS["good"])
    with pytest.raises(ValueError, match="one name and colour a group"):
        plotting.groups(values, ["good"])


def test_chains_have_a_bar_at_every_switch_and_one_colour_a_state():
    hidden = np.array([[1, 1, -1, -1], [-1, 1, -1, 1]])
    axes = plotting.hidden_chains(hidden, labels=["slow", "fast"])
    assert [line.get_xdata()[0] for line in axes.lines] == [1.5, 0.5, 1.5, 2.5]
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    dark = [circle.get_facecolor() == to_rgba(plotting.COLOURS["state +"]) for circle in circles]
    assert dark == [state > 0 for state in hidden.ravel()]
    with pytest.raises(ValueError, match=r"states \+1 and -1"):
        plotting.hidden_chains([[1, 0]])


def test_switching_names_both_probabilities():
    texts = [text.get_text() for text in plotting.switching(0.3).texts]
    assert texts.count("0.7") == 2 and texts.count("0.3") == 1
    with pytest.raises(ValueError, match="probability"):
        plotting.switching(1.5)


def test_tokens_and_attention_keep_their_axes():
    tokens = np.random.default_rng(0).normal(size=(5, 8))
    np.testing.assert_array_equal(plotting.noisy_tokens(tokens).images[0].get_array(), tokens.T)
    axes = plotting.attention_matrix(np.full((3, 4), 1 / 3))
    assert axes.images[0].get_array().shape == (3, 4)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("query", "key")


def test_drawing_into_given_axes_makes_no_new_figure():
    figure, axes = plotting.new_figure(1, 2)
    assert plotting.order_parameter(np.eye(4), (2, 2), axes=axes[0]) is axes[0]
    assert plotting.architecture((2, 2), axes=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]
