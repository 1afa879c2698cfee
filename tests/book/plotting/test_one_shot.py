"""The panels on the theory of trained networks carry the data that they are given, and refuse what does not fit."""

import numpy as np
import pytest

from attention_book import plotting


def test_a_line_a_width_against_temperature():
    values = {10.0: [[0.7, 0.8], [0.9, 0.8]], 1000.0: [[0.6, 0.5], [0.6, 0.5]]}
    axes = plotting.against_temperature([0.1, 1.0], values, limit=[[0.5, 0.4]])
    lines = [container.lines[0].get_xydata() for container in axes.containers]
    np.testing.assert_allclose(lines, [[[0.1, 0.8], [1, 0.8]], [[0.1, 0.6], [1, 0.5]], [[0.1, 0.5], [1, 0.4]]])
    np.testing.assert_allclose(axes.containers[0].lines[2][0].get_segments()[0], [[0.1, 0.7], [0.1, 0.9]])
    assert axes.get_legend_handles_labels()[1] == ["$N$ = 10", "$N$ = 1000", "GP limit"]
    with pytest.raises(ValueError, match=r"values: wanted shape \(draws, 2\)"):
        plotting.against_temperature([0.1, 1.0], {10.0: [[0.7, 0.8, 0.9]]})


def test_best_temperatures_are_geometric_means_and_a_dot_a_draw():
    axes = plotting.best_temperatures([10, 100], [[1.0, 0.1], [0.01, 0.1]], label="best", limit=[0.1, 0.001])
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[10, 0.1], [100, 0.1]])
    np.testing.assert_allclose(axes.lines[1].get_ydata(), 0.01)
    first, second = axes.collections
    np.testing.assert_allclose(first.get_offsets(), [[10, 0.01], [10, 1.0]])
    np.testing.assert_allclose(second.get_offsets(), [[100, 0.1]])
    assert second.get_sizes()[0] == 2 * first.get_sizes()[0]
    assert axes.get_ylim()[0] <= 0.01 and axes.get_ylim()[1] >= 1
    with pytest.raises(ValueError, match="values: wanted shape"):
        plotting.best_temperatures([10, 100], [[1.0]], label="best")


def test_best_temperatures_of_a_second_network_leave_those_of_the_first_in_view():
    axes = plotting.best_temperatures([10, 100], [[1.0, 0.01]], label="one", limit=[0.001])
    plotting.best_temperatures([10, 100], [[2.0, 0.5]], label="other", limit=[0.4], style=":", axes=axes)
    assert axes.get_ylim()[0] <= 0.001 and axes.get_ylim()[1] >= 2
    assert axes.get_legend_handles_labels()[1] == ["one", "GP limit, one", "other", "GP limit, other"]


def test_a_place_of_the_slider_is_a_width_with_the_limit_beside_it():
    values = {"new": [[0.7, 0.8], [0.6, 0.5]], "other": [[0.9, 0.9], [0.8, 0.8]]}
    limits = {"new": [0.5, 0.4], "other": [0.3, 0.2]}
    found = plotting.accuracy_slider([10, 1000], [0.1, 1.0], values, limits, first=1, description="a description")
    assert [step["label"] for step in found.figure.layout.sliders[0].steps] == ["10", "1000"]
    for place, frame in enumerate(found.figure.frames):
        drawn = {trace.name: trace for trace in frame.data}
        for name in values:
            line, limit = drawn[f"{name}, this width"], drawn[f"{name}, GP limit"]
            np.testing.assert_allclose(line.y, 100 * np.array(values[name][place]), rtol=1e-6)
            np.testing.assert_allclose(limit.y, 100 * np.array(limits[name]), rtol=1e-6)
            np.testing.assert_allclose(line.x, [0.1, 1.0], rtol=1e-6)
            assert line.line.color == plotting.COLOURS["theory"].lower()
    assert "a description" in found.html
    with pytest.raises(ValueError, match="values, limits: wanted shapes"):
        plotting.accuracy_slider([10], [0.1, 1.0], values, limits, description="")


def test_every_pair_of_paths_is_a_dot_in_units_of_the_mean_diagonal():
    matrix = np.array([[2.0, 1, 0, 0], [1, 2, 0, 3], [0, 0, 4, 1], [0, 3, 1, 4]])
    axes = plotting.entries_compared(matrix, -2 * matrix, heads=(2, 2))
    dots = {dots.get_label(): dots.get_offsets().tolist() for dots in axes.collections}
    third = 1 / 3
    np.testing.assert_allclose(dots["same path"], [[2 * third, 2 * third]] * 2 + [[4 * third, 4 * third]] * 2)
    np.testing.assert_allclose(dots["same head in layer 1"], [[third, third]] * 2)
    np.testing.assert_allclose(dots["other pairs"], [[0, 0], [0, 0], [0, 0], [1, 1]])
    with pytest.raises(ValueError, match="matrix and other: wanted shape"):
        plotting.entries_compared(matrix, matrix, heads=(2, 3))
