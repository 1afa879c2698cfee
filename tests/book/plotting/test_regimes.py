"""The panels on regimes carry the data that they are given, and refuse what does not fit."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from attention_book import plotting
from statmech_attention.dmft import Regime


def test_names_of_regimes_are_those_of_the_package():
    assert [name.upper().replace("-", "_") for name in plotting.REGIMES] == [regime.name for regime in Regime]


def test_a_diagram_draws_periodic_networks_whole_and_others_by_their_section():
    visited = np.array([[True, True, False], [True, False, True]])
    sections = np.array([[True, False, False], [False, False, True]])
    values = np.array([-1.0, 0.0, 1.0])
    regimes = [Regime.PERIODIC, Regime.CHAOTIC]
    axes = plotting.bifurcation([1.0, 2.0], visited, values, regimes=regimes, sections=sections)
    pale, periodic, _, chaotic, _ = axes.lines
    np.testing.assert_array_equal(pale.get_xydata(), [[2, -1], [2, 1]])
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
    pale, dark = plotting.bifurcation([1.0, 2.0], visited, np.arange(200.0), sections=sections).lines
    assert len(pale.get_xydata()) == 80
    np.testing.assert_array_equal(dark.get_xydata(), [*([1.0, level] for level in range(79)), [2.0, 5.0]])


def test_of_very_many_dots_neighbours_are_drawn_as_one_and_none_goes_missing():
    visited = np.random.default_rng(0).uniform(size=(3000, 2000)) < 0.2
    parameter, values = np.arange(3000.0), np.arange(2000.0)
    shown = plotting.bifurcation(parameter, visited, values).lines[0].get_xydata().astype(int)
    assert visited[tuple(shown.T)].all()
    cells = {tuple(cell) for cell in np.argwhere(visited.reshape(1000, 3, 1000, 2).any(axis=(1, 3)))}
    assert {(place // 3, level // 2) for place, level in shown} == cells
    assert len(shown) == len(cells)


def test_maps_of_regimes_have_the_colours_of_each():
    regimes = np.array(
        [[Regime.PERIODIC, Regime.CHAOTIC], [Regime.CHAOTIC, Regime.QUASI_PERIODIC], [Regime.PERIODIC] * 2]
    )
    axes = plotting.regime_map([1, 2, 3], [0, 10], regimes)
    image = axes.images[0].get_array()
    assert image.shape == (2, 3, 3) and axes.images[0].get_extent() == [0.5, 3.5, -5, 15]
    for place, name in (((0, 1), "chaotic"), ((1, 1), "quasi-periodic"), ((1, 2), "periodic")):
        np.testing.assert_allclose(image[place], to_rgb(plotting.REGIME_COLOURS[name]))
    assert axes.get_legend_handles_labels()[1] == ["periodic", "quasi-periodic", "chaotic"]
    ribbon = plotting.regime_ribbon([1, 2, 3], regimes[:, 0])
    np.testing.assert_allclose(ribbon.images[0].get_array()[0], image[0])
    with pytest.raises(ValueError, match=r"regimes: wanted shape \(3, 2\), got \(2, 3\)"):
        plotting.regime_map([1, 2, 3], [0, 10], regimes.T)


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
