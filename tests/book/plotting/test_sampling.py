"""The panels on sampling carry the numbers that they are given, and refuse what does not fit."""

import numpy as np
import pytest

from attention_book import plotting


def test_a_law_is_a_normalised_histogram_of_weighted_draws():
    draws, weights = np.array([[0.5, 0.5], [1.5, 1.5]]), np.array([[3.0, 1.0], [1.0, 1.0]])
    axes = plotting.law(draws, label="exact posterior", bins=[0.0, 1.0, 2.0], weights=weights, saddle_point=1.25)
    heights = axes.patches[0].get_xy()[:, 1]
    assert set(np.round(heights, 12)) == {0.0, round(4 / 6, 12), round(2 / 6, 12)}
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [1.25, 1.25])
    assert set(axes.get_legend_handles_labels()[1]) == {"exact posterior", "saddle point"}
    filled = plotting.law(draws, label="another", bins=[0.0, 1.0, 2.0], filled=True)
    assert filled.patches[0].get_fill() and not filled.lines
    with pytest.raises(ValueError, match="weights: wanted 4, one a draw, got 3"):
        plotting.law(draws, label="", weights=[1.0, 1.0, 1.0])


def test_estimates_stand_at_their_widths_with_their_errors():
    axes = plotting.estimates([10, 100], [0.9, 0.8], [0.01, 0.02], label="weights, NUTS")
    (bars,) = axes.containers
    np.testing.assert_allclose(bars.lines[0].get_xydata(), [[10, 0.9], [100, 0.8]])
    np.testing.assert_allclose(bars.lines[2][0].get_segments()[1], [[100, 0.78], [100, 0.82]])
    assert axes.get_xscale() == "log" and bars.lines[0].get_color() == plotting.SAMPLERS["weights, NUTS"][0]
    with pytest.raises(ValueError, match="means: wanted one mean and error a width"):
        plotting.estimates([10, 100], [0.9], [0.01], label="")


def test_distances_are_sorted_by_width_and_compared_with_powers():
    axes = plotting.distance_against_width([100, 10], {"a": [0.1, 1.0]}, errors={"a": [0.01, 0.1]}, slopes=(-2,))
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[10, 1.0], [100, 0.1]])
    guide = next(line for line in axes.lines if line.get_linestyle() == ":")
    np.testing.assert_allclose(guide.get_xydata(), [[10, 1.0], [100, 0.01]])
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_curves_against_temperature_mark_their_maxima():
    curves = {"theory": [-3.0, -1.0, -2.0], "$N$ = 10": [0.0, 1.0, 2.0]}
    errors = {"$N$ = 10": [0.1, 0.2, 0.3]}
    axes = plotting.over_temperatures([1.0, 0.1, 0.01], curves, errors=errors, mark=True)
    first, second = axes.containers
    np.testing.assert_allclose(first.lines[0].get_xydata(), [[0.01, -2.0], [0.1, -1.0], [1.0, -3.0]])
    assert first.lines[0].get_color() == plotting.COLOURS["theory"] and second.lines[0].get_color() == "0.0"
    np.testing.assert_allclose(second.lines[2][0].get_segments()[0], [[0.01, 1.7], [0.01, 2.3]])
    rings = [line.get_xydata().tolist() for line in axes.lines if line.get_markersize() == 10]
    assert rings == [[[0.1, -1.0]], [[0.01, 2.0]]] and axes.get_xscale() == "log"


def test_coverage_is_drawn_less_its_level_with_its_band():
    axes = plotting.coverage([0.5, 0.9], [0.4, 0.85], [0.05, 0.02], label="exact", colour="black")
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0.5, -0.1], [0.9, -0.05]])
    corners = axes.collections[0].get_paths()[0].vertices
    assert corners[:, 1].min() == pytest.approx(-0.15) and corners[:, 1].max() == pytest.approx(-0.03)
    with pytest.raises(ValueError, match="wanted a fraction and a band a level"):
        plotting.coverage([0.5], [0.4, 0.3], [0.1], label="", colour="black")


def test_traces_are_one_line_a_chain():
    axes = plotting.traces([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_allclose(axes.lines[1].get_xydata(), [[1, 4.0], [2, 5.0], [3, 6.0]])
    assert [line.get_label() for line in axes.lines] == ["chain 1", "chain 2"]
    with pytest.raises(ValueError, match=r"wanted one number a draw, \(chain, draw\)"):
        plotting.traces([1.0, 2.0])


def test_sampled_entries_stand_above_those_of_the_saddle_point():
    saddle = np.array([[2.0, -0.5], [-0.5, 1.0]])
    axes = plotting.entries_sampled(saddle, saddle + 0.3, np.full((2, 2), 0.1))
    points = {one.get_label(): one.lines[0].get_xydata() for one in axes.containers}
    np.testing.assert_allclose(points["on the diagonal"], [[2.0, 2.3], [1.0, 1.3]])
    np.testing.assert_allclose(points["off the diagonal"], [[-0.5, -0.2]])
    assert axes.lines[0].get_xydata().tolist() == [[-0.5, -0.5], [2.3, 2.3]]
    with pytest.raises(ValueError, match="wanted three square matrices of one size"):
        plotting.entries_sampled(saddle, saddle[:1], saddle)


def test_an_approach_has_a_line_to_compare_with():
    axes = plotting.approach([1.0, 0.01], {"a": [3.0, 0.02], "b": [1.0, 0.1]}, xlabel="variance", slope=1)
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0.01, 0.02], [1.0, 3.0]])
    guide = next(line for line in axes.lines if line.get_linestyle() == ":")
    np.testing.assert_allclose(guide.get_xydata(), [[0.01, 0.01], [1.0, 1.0]])
    assert axes.get_xscale() == axes.get_yscale() == "log" and axes.get_xlabel() == "variance"
    assert axes.get_legend_handles_labels()[1] == ["slope 1", "a", "b"]
    assert len(plotting.approach([1.0], {"a": [1.0]}, xlabel="").get_legend_handles_labels()[1]) == 1
    with pytest.raises(ValueError, match="distances: wanted 1 of 'a', one a value"):
        plotting.approach([1.0], {"a": [1.0, 2.0]}, xlabel="")
