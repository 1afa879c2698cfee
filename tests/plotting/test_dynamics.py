"""The panels on dynamics carry the data that they are given; the interactive figure holds them, and refuses what does not fit."""

import json
import re

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from statmech_attention import plotting
from statmech_attention.dmft import Regime


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_names_of_regimes_are_those_of_the_package():
    assert [name.upper().replace("-", "_") for name in plotting.REGIMES] == [regime.name for regime in Regime]


def test_the_loop_has_its_four_boxes_and_an_arrow_between_any_two():
    axes = plotting.attention_loop()
    labels = [patch.get_label() for patch in axes.patches]
    assert sum("$" in label for label in labels) == 4
    assert len(axes.patches) == 8


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


def test_errors_against_sites_are_drawn_to_both_sides():
    axes = plotting.against_sites([10, 100], [0.2, 0.1], [0.05, 0.01], label="run")
    np.testing.assert_allclose(axes.containers[0].lines[2][0].get_segments()[0], [[10, 0.15], [10, 0.25]])
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")


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


def test_a_diagram_draws_periodic_networks_whole_and_others_by_their_section():
    visited = np.array([[True, True, False], [True, False, True]])
    sections = np.array([[True, False, False], [False, False, True]])
    values = np.array([-1.0, 0.0, 1.0])
    regimes = [Regime.PERIODIC, Regime.CHAOTIC]
    axes = plotting.bifurcation([1.0, 2.0], visited, values, regimes=regimes, sections=sections)
    pale, periodic, _, chaotic, _ = axes.lines
    np.testing.assert_array_equal(pale.get_xydata(), [[1, -1], [1, 0], [2, -1], [2, 1]])
    np.testing.assert_array_equal(periodic.get_xydata(), [[1, -1], [1, 0]])
    np.testing.assert_array_equal(chaotic.get_xydata(), [[2, 1]])
    assert axes.get_legend_handles_labels()[1] == ["periodic", "chaotic"]
    plain = plotting.bifurcation([1.0, 2.0], visited, values)
    assert len(plain.lines[0].get_xydata()) == 4
    with pytest.raises(ValueError, match=r"visited: wanted shape \(2, 2\), got \(2, 3\)"):
        plotting.bifurcation([1.0, 2.0], visited, values[:2])


def test_without_regimes_networks_of_few_values_are_drawn_whole():
    visited = np.zeros((2, 200), bool)
    visited[0, :79], visited[1, :80] = True, True
    sections = np.zeros((2, 200), bool)
    sections[1, 5] = True
    _, dark = plotting.bifurcation([1.0, 2.0], visited, np.arange(200.0), sections=sections).lines
    np.testing.assert_array_equal(dark.get_xydata(), [*([1.0, level] for level in range(79)), [2.0, 5.0]])


def test_of_very_many_dots_neighbours_are_drawn_as_one_and_none_goes_missing():
    visited = np.random.default_rng(0).uniform(size=(3000, 2000)) < 0.2
    parameter, values = np.arange(3000.0), np.arange(2000.0)
    shown = plotting.bifurcation(parameter, visited, values).lines[0].get_xydata().astype(int)
    assert visited[tuple(shown.T)].all()
    cells = {tuple(cell) for cell in np.argwhere(visited.reshape(1000, 3, 1000, 2).any(axis=(1, 3)))}
    assert {(place // 3, level // 2) for place, level in shown} == cells
    assert len(shown) == len(cells)


def test_exponents_are_lines_and_the_first_is_coloured_by_regime():
    values = np.array([[0.1, -0.2], [-0.1, -0.3], [0.2, -0.1]])
    regimes = [Regime.CHAOTIC, Regime.PERIODIC, Regime.CHAOTIC]
    axes = plotting.exponents([1, 2, 3], values, 0.01 * np.ones((3, 2)), regimes=regimes)
    by_name = {container.get_label(): container.lines[0].get_xydata() for container in axes.containers}
    np.testing.assert_allclose(by_name[r"$\lambda_{2}$"], [[1, -0.2], [2, -0.3], [3, -0.1]])
    np.testing.assert_allclose(by_name[r"$\lambda_1$, chaotic"], [[1, 0.1], [3, 0.2]])
    np.testing.assert_allclose(by_name[r"$\lambda_1$, periodic"], [[2, -0.1]])
    assert set(axes.get_legend_handles_labels()[1]) == set(by_name)
    with pytest.raises(ValueError, match=r"values: wanted shape \(2, count\), got \(3, 2\)"):
        plotting.exponents([1, 2], values)


def test_multipliers_stand_beside_the_unit_circle():
    axes = plotting.multipliers({"a": [0.5 + 0.5j, -1], "b": [1j]})
    np.testing.assert_allclose(np.hypot(*axes.lines[0].get_xydata().T), 1)
    found = {line.get_label(): line.get_xydata() for line in axes.lines}
    np.testing.assert_allclose(found["a"], [[0.5, 0.5], [-1, 0]])
    np.testing.assert_allclose(found["b"], [[0, 1]])


def test_prediction_and_measurement_share_a_colour():
    axes = plotting.predicted_and_measured([0, 1], [2, 3], [0.5], [2.4], label="rate", colour="gp")
    line, dots = axes.lines
    np.testing.assert_allclose(line.get_xydata(), [[0, 2], [1, 3]])
    np.testing.assert_allclose(dots.get_xydata(), [[0.5, 2.4]])
    assert line.get_color() == dots.get_color() == plotting.COLOURS["gp"]


def slider(**changes):
    random = np.random.default_rng(0)
    given = {
        "parameter": [1.25, 1.3, 1.4],
        "portraits": random.uniform(-0.4, 0.4, (3, 50, 2)),
        "frequencies": np.linspace(0, 0.5, 16),
        "powers": 10.0 ** random.uniform(-5, 0, (3, 16)),
        "regimes": ["periodic", "chaotic", "chaotic"],
        "description": 'Two "panels".',
        "shown": [0, 2],
    }
    given |= changes
    return plotting.portrait_slider(**given), given


def test_the_slider_holds_its_numbers_to_its_resolution():
    figure, given = slider()
    data = json.loads(re.search(r"data = (\{.*?\});\n", figure.html).group(1))
    digits = re.search(r'digits = "(.*?)"', figure.html).group(1)

    def unpack(text):
        places = [digits.index(letter) for letter in text]
        return (64 * np.array(places[::2]) + places[1::2]) / 4095

    assert data["limits"] == [0.5, 0.5, 0.5]
    for packed, points in zip(data["points"], given["portraits"], strict=True):
        np.testing.assert_allclose((2 * unpack(packed) - 1) * 0.5, points.ravel(), atol=0.5 / 4000)
    for packed, power in zip(data["powers"], given["powers"], strict=True):
        logs = np.log10(power / power.max()).clip(-10, 0)
        np.testing.assert_allclose((unpack(packed) - 1) * 10, logs, atol=10 / 8000)
    assert data["values"] == ["1.25", "1.3", "1.4"]
    assert data["names"] == given["regimes"]
    assert data["colours"][0] == plotting.REGIME_COLOURS["periodic"]


@pytest.mark.parametrize(("largest", "limit"), [(0.4, 0.5), (0.051, 0.1), (0.02, 0.02), (1.9, 2.0), (0.9, 1.0)])
def test_every_portrait_has_its_own_round_scale(largest, limit):
    figure, _ = slider(portraits=largest * np.concatenate([np.ones((1, 50, 2)), 0.1 * np.ones((2, 50, 2))]))
    assert json.loads(re.search(r'"limits":(\[.*?\])', figure.html).group(1))[0] == limit


def test_the_slider_is_complete_in_itself_and_has_a_picture_for_print():
    figure, _ = slider()
    assert "%" not in re.sub(r"\d+%", "", re.sub(r"<script>.*</script>|base64,[^\"]*", "", figure.html, flags=re.S))
    assert not re.search(r"https?://|src=\"(?!data:)", figure.html)
    assert 'type="range"' in figure.html and "<label for=" in figure.html and "aria-valuetext" in figure.html
    assert figure.html.count("Two &quot;panels&quot;.") == 3
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png"}
    assert figure.png[:8] == b"\x89PNG\r\n\x1a\n"
    # Two on one page do not meet each other.
    other, _ = slider(parameter=[1.0, 1.1, 1.2])
    first_of = [re.search(r'<div id="(\w+)"', one.html).group(1) for one in (figure, other)]
    assert first_of[0] != first_of[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"regimes": ["periodic"]}, "portraits, powers, regimes: wanted one of each for 3 values"),
        ({"powers": np.ones((3, 4))}, "portraits, powers, regimes: wanted one of each for 3 values"),
        ({"regimes": ["periodic", "wild", "chaotic"]}, "regimes: wanted names out of"),
        ({"first": 3}, "first, shown: wanted numbers of networks in 0..2, got 3"),
    ],
)
def test_the_slider_refuses_what_does_not_fit(changes, message):
    with pytest.raises(ValueError, match=message):
        slider(**changes)
