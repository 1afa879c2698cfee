"""The panels on pruning carry the data that they are given, and refuse what does not fit."""

import numpy as np
import pytest

from attention_book import plotting

ROWS = {
    "theory, both, N = 10": ([0.1, 0.3, np.nan], (0.2, -1.0, 1.0)),
    "evidence lost, N = 10": ([0.5, 0.7, 0.6], (0.6, 0.4, 0.8)),
}


def test_every_head_is_at_its_mean_score_and_its_drop():
    scores = np.array([[1.0, 0.2, 0.5], [1.0, 0.4, 0.5]])
    drops, layers = np.array([0.1, -0.02, 0.03]), np.array([1, 1, 2])
    axes = plotting.scores_and_drops(scores, drops, np.full(3, 0.01), layers)
    first, second = axes.containers
    np.testing.assert_allclose(first.lines[0].get_xydata(), [[1.0, 0.1], [0.3, -0.02]])
    np.testing.assert_allclose(second.lines[0].get_xydata(), [[0.5, 0.03]])
    assert [first.get_label(), second.get_label()] == ["layer 1", "layer 2"]
    # Standard errors: over two draws across, of the drop upwards.
    across, upwards = first.lines[2]
    np.testing.assert_allclose(across.get_segments()[1], [[0.2, -0.02], [0.4, -0.02]])
    np.testing.assert_allclose(upwards.get_segments()[0], [[1.0, 0.09], [1.0, 0.11]])
    with pytest.raises(ValueError, match=r"scores: wanted shape \(draws, heads\)"):
        plotting.scores_and_drops(scores, drops[:2], np.full(3, 0.01), layers)


def test_curves_are_means_over_draws_beside_the_random_band():
    curves = {"theory, both": [[0.8, 0.7], [0.9, 0.6]], "greedy": [[0.85, 0.8]]}
    axes = plotting.pruning_curves(curves, random=[[0.85, 0.6], [0.0, 0.1]])
    np.testing.assert_allclose(axes.containers[0].lines[0].get_xydata(), [[0, 0.85], [1, 0.65]])
    np.testing.assert_allclose(axes.containers[1].lines[0].get_xydata(), [[0, 0.85], [1, 0.8]])
    band = axes.collections[0].get_paths()[0].vertices
    assert (band[band[:, 0] == 1, 1].min(), band[band[:, 0] == 1, 1].max()) == pytest.approx((0.5, 0.7))
    assert set(axes.get_legend_handles_labels()[1]) == {"random orders", *curves}


def test_every_network_its_mean_and_interval_are_drawn():
    axes = plotting.importances_compared(ROWS, ["a", "b", "c"], chance=(-0.3, 0.4))
    assert [text.get_text() for text in axes.get_yticklabels()] == list(ROWS) and axes.yaxis_inverted()
    lines = axes.lines[1:]  # the first is at zero
    for row, (each, (value, low, high)) in enumerate(ROWS.values()):
        *marks, mean = lines[4 * row : 4 * row + 4]
        np.testing.assert_array_equal([mark.get_xdata()[0] for mark in marks], each)
        heights = [mark.get_ydata()[0] for mark in marks]
        assert len(set(heights)) == 3 and all(abs(height - row) < 0.5 for height in heights)
        np.testing.assert_allclose(mean.get_xydata(), [[value, row]])
        np.testing.assert_allclose(axes.collections[row].get_segments()[0], [[low, row], [high, row]])
    # One entry a network, however many rows.
    assert axes.get_legend_handles_labels()[1] == ["a", "b", "c"]
    assert len({mark.get_marker() for mark in lines[:3]}) == 3
    assert lines[0].get_color() == plotting.COLOURS["theory"] != lines[4].get_color()
    band = axes.patches[0].get_extents().transformed(axes.transData.inverted())
    np.testing.assert_allclose([band.x0, band.x1], [-0.3, 0.4])


def test_networks_of_a_group_share_a_mark():
    axes = plotting.importances_compared(ROWS, ["a", "b", "a"])
    assert axes.get_legend_handles_labels()[1] == ["a", "b"]
    first, second, third, _ = (line.get_marker() for line in axes.lines[1:5])
    assert first == third != second


def test_other_numbers_of_networks_are_refused():
    with pytest.raises(ValueError, match="rows: wanted 2 coefficients of 'theory, both, N = 10'"):
        plotting.importances_compared(ROWS, ["a", "b"])
