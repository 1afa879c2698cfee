"""The panels of results carry the right data, names and colours, and refuse data that does not fit."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import same_color

from attention_book import plotting


def test_what_stands_together_in_a_figure_differs_in_colour():
    assert len(set(plotting.COLOURS.values())) == len(plotting.COLOURS)


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


def test_groups_show_every_draw_in_the_colour_of_its_path():
    values = np.array([[0.9, 0.5], [0.8, 0.6]])
    axes = plotting.groups(values, ["good", "other"], colours=["good", "#000000"])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [0.9, 0.8])
    assert same_color(axes.lines[0].get_color(), plotting.COLOURS["good"])
    with pytest.raises(ValueError, match="one name and colour a group"):
        plotting.groups(values, ["good"])


def test_drawing_into_given_axes_makes_no_new_figure():
    figure, axes = plotting.new_figure(1, 2)
    assert plotting.order_parameter(np.eye(4), heads=(2, 2), axes=axes[0]) is axes[0]
    assert plotting.architecture((2, 2), axes=axes[1]) is axes[1]
    assert plt.get_fignums() == [figure.number]
