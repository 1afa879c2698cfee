"""The panels on dynamics carry the data that they are given, the one with a slider too, and refuse what does not fit."""

import numpy as np
import pytest

from attention_book import plotting


def test_a_raster_has_a_column_a_token():
    words = np.array([[1, -1, -1], [1, 1, -1]])
    axes = plotting.token_raster(words)
    np.testing.assert_array_equal(axes.images[0].get_array(), words.T)
    with pytest.raises(ValueError, match=r"words: wanted shape \(steps, sites\)"):
        plotting.token_raster(words[0])


def test_overlaps_begin_at_the_time_given():
    values = np.arange(6.0).reshape(3, 2)
    axes = plotting.overlap_series(values, start=5, symbol="m")
    np.testing.assert_array_equal(axes.lines[1].get_xydata(), [[5, 1], [6, 3], [7, 5]])
    assert axes.get_legend_handles_labels()[1] == ["$m_{1}$", "$m_{2}$"]
    assert plotting.overlap_series(values, symbol="").get_legend_handles_labels()[1] == []
    with pytest.raises(ValueError, match=r"values: wanted shape \(steps, features\)"):
        plotting.overlap_series(values[0])


@pytest.mark.parametrize(("turns", "marker"), [(7, "o"), (5000, ".")])
def test_few_points_get_dots_that_are_seen(turns, marker):
    angle = 2 * np.pi * np.arange(5000) / turns
    axes = plotting.phase_portrait(np.cos(angle), np.sin(angle), regime="periodic")
    line = axes.lines[0]
    assert line.get_marker() == marker
    assert line.get_color() == plotting.REGIME_COLOURS["periodic"]
    np.testing.assert_allclose(line.get_xydata()[3], [np.cos(angle[3]), np.sin(angle[3])])


def test_a_spectrum_leaves_out_frequency_zero():
    axes = plotting.spectrum([0, 0.25, 0.5], [1e9, 4.0, 1.0], decades=3.0)
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0.25, 4], [0.5, 1]])
    assert axes.get_ylim()[0] == pytest.approx(4e-3)


def test_errors_against_sites_are_drawn_to_both_sides():
    axes = plotting.against_sites([10, 100], [0.2, 0.1], [0.05, 0.01], label="run")
    np.testing.assert_allclose(axes.containers[0].lines[2][0].get_segments()[0], [[10, 0.15], [10, 0.25]])
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


def test_prediction_and_measurement_share_a_colour():
    axes = plotting.predicted_and_measured([0, 1], [2, 3], [0.5], [2.4], label="rate", colour="gp")
    line, dots = axes.lines
    np.testing.assert_allclose(line.get_xydata(), [[0, 2], [1, 3]])
    np.testing.assert_allclose(dots.get_xydata(), [[0.5, 2.4]])
    assert line.get_color() == dots.get_color() == plotting.COLOURS["gp"]


def portraits(**changes):
    random = np.random.default_rng(0)
    given = {
        "parameter": [1.25, 1.3, 1.4],
        "portraits": random.uniform(-0.4, 0.4, (3, 50, 2)),
        "frequencies": np.linspace(0, 0.5, 16),
        "powers": 10.0 ** random.uniform(-5, 0, (3, 16)),
        "regimes": ["periodic", "chaotic", "chaotic"],
        "description": "Portrait and spectrum.",
        "shown": [0, 2],
    }
    given |= changes
    return plotting.portrait_slider(**given), given


def test_the_slider_turns_over_portraits_and_spectra():
    shown, given = portraits(first=1)
    assert [frame.name for frame in shown.figure.frames] == ["0", "1", "2"]
    for frame, points, power, regime in zip(
        shown.figure.frames, given["portraits"], given["powers"], given["regimes"], strict=True
    ):
        portrait, spectrum = frame.data
        np.testing.assert_allclose(np.stack([portrait.x, portrait.y], 1), points, rtol=1e-6)
        np.testing.assert_allclose(spectrum.x, given["frequencies"], rtol=1e-6)
        np.testing.assert_allclose(spectrum.y, np.log10(power / power.max()), rtol=1e-6)
        assert portrait.marker.color == spectrum.line.color == plotting.REGIME_COLOURS[regime].lower()
    np.testing.assert_array_equal(shown.figure.data[0].x, shown.figure.frames[1].data[0].x)
    (knob,) = shown.figure.layout.sliders
    assert knob.currentvalue.prefix == "inverse temperature β = " and knob.active == 1
    assert [step.label for step in knob.steps] == ["1.25, periodic", "1.3, chaotic", "1.4, chaotic"]
    named, _ = portraits(names=["period 8", "a", "b"])
    assert named.figure.layout.sliders[0].steps[0].label == "1.25, period 8"


@pytest.mark.parametrize(("largest", "limit"), [(0.4, 0.5), (0.051, 0.1), (0.02, 0.02), (1.9, 2.0), (0.9, 1.0)])
def test_every_portrait_has_its_own_round_scale(largest, limit):
    shown, _ = portraits(portraits=largest * np.concatenate([np.ones((1, 50, 2)), 0.1 * np.ones((2, 50, 2))]))
    layout = shown.figure.frames[0].layout
    assert layout.xaxis.range == layout.yaxis.range == (-limit, limit)
    assert (layout.yaxis.scaleanchor, layout.xaxis.constrain) == ("x", "domain"), "a circle is to look like one"
    for axis, distance in ((layout.xaxis, 0.4 * limit), (layout.yaxis, 0.2 * limit), (layout.yaxis2, 2)):
        np.testing.assert_allclose(np.diff(axis.tickvals), distance, rtol=1e-9)
        assert axis.dtick is None, "a browser draws thousands of them on the way from a frame to the next"
    assert layout.yaxis2.scaleanchor is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"regimes": ["periodic"]}, "portraits, powers, regimes: wanted one of each for 3 values"),
        ({"powers": np.ones((3, 4))}, "portraits, powers, regimes: wanted one of each for 3 values"),
        ({"portraits": np.full((3, 50, 2), np.nan)}, "portraits: wanted finite numbers"),
        ({"powers": -np.ones((3, 16))}, "powers: wanted positive numbers"),
        ({"regimes": ["periodic", "wild", "chaotic"]}, "regimes: wanted names out of"),
        ({"shown": [3]}, r"shown: wanted numbers of networks in 0\.\.2, got \[3\]"),
        ({"first": 3}, r"first: wanted the number of a frame in 0\.\.2, got 3"),
    ],
)
def test_portraits_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        portraits(**changes)
