"""Panels draw without a warning, and show the right numbers where they transform them before."""

import inspect

import matplotlib.pyplot as plt
import numpy as np
import pytest

import statmech_attention as sma
from attention_book import plotting
from statmech_attention.dmft import Regime

RANDOM = np.random.default_rng(0)
PAIR = (2, 2)
IMAGES = np.linspace(0, 1, 3 * 8 * 8).reshape(3, 8, 8)
ROWS = {
    "theory, both, N = 10": ([0.1, 0.3, np.nan], (0.2, -1.0, 1.0)),
    "evidence lost, N = 10": ([0.5, 0.7, 0.6], (0.6, 0.4, 0.8)),
}


def call(*given, **named):
    return given, named


# All panels, with arguments.
PANELS = {
    "against_temperature": call([0.1, 1], {10.0: [[0.7, 0.8], [0.9, 0.8]]}, limit=[[0.5, 0.4]]),
    "against_width": call([10, 100], [[0.8, 0.9]], label="theory"),
    "architecture": call(PAIR, paths=plotting.HIDDEN_MARKOV_PATHS, legend=True),
    "attended": call(IMAGES, np.arange(12.0), patch=4, title="head"),
    "attention_matrix": call(np.full((3, 4), 1 / 3)),
    "best_temperatures": call([10, 100], [[1.0, 0.1], [0.01, 0.1]], label="best"),
    "entries_compared": call(np.eye(4), np.eye(4) - 0.2, layers=PAIR),
    "groups": call([[0.9, 0.5], [0.8, 0.6]], ["good", "other"], colours=["good", "black"]),
    "hidden_chains": call([[1, 1, -1, -1], [-1, 1, -1, 1]], labels=["slow", "fast"]),
    "importances_compared": call(ROWS, ["a", "b", "a"], chance=(-0.3, 0.4)),
    "noisy_tokens": call(RANDOM.normal(size=(5, 8))),
    "one_shot_sequence": call(IMAGES, 1, patch=4, answer=-1),
    "order_parameter": call(np.eye(4), layers=PAIR),
    "path_blocks": call(np.eye(4), layers=PAIR, title="theory"),
    "path_correlations": call(np.eye(4) + 0.1, layers=PAIR),
    "principal_overlaps": call(np.arange(12.0).reshape(2, 6), label="GP", count=4),
    "pruning_curves": call({"theory, both": [[0.8, 0.7], [0.9, 0.6]]}, random=[[0.8, 0.6], [0, 0.1]]),
    "reference_line": call([0.8, 0.9], label="GP"),
    "switching": call(0.3),
}


def drawn(name, **changes):
    """A panel of the table, in a new figure or in given axes."""
    given, named = PANELS[name]
    return getattr(plotting, name)(*given, **{"axes": changes.get("axes") or plt.figure().gca()} | named | changes)


def test_no_panel_is_missing():
    functions = {name: one for name, one in vars(plotting).items() if inspect.isfunction(one)}
    panels = {name for name, one in functions.items() if "axes" in inspect.signature(one).parameters}
    assert panels - {"legend_above", "label_panels"} == set(PANELS)


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_draws_into_the_given_axes_and_says_what_it_shows(name):
    figure, axes = plotting.new_figure()
    assert drawn(name, axes=axes) is axes
    figure.canvas.draw()
    assert plt.get_fignums() == [figure.number]  # and no other
    assert axes.lines or axes.images or axes.patches or axes.collections
    names = [
        text.get_text() for text in (*axes.texts, *axes.get_xticklabels()) if text.get_text().strip("−-.0123456789")
    ]
    assert any([axes.get_xlabel(), axes.get_ylabel(), axes.get_title(), axes.get_legend_handles_labels()[1], *names])


def names(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def close(artist, wanted):
    np.testing.assert_allclose(artist.get_xydata(), wanted, rtol=1e-12)


def test_order_parameters_are_centred_at_zero_and_named_by_heads():
    matrix = np.diag([11.7, 0.43, 5.73, 0.46])
    matrix[0, 2] = matrix[2, 0] = -4.1
    axes = plotting.order_parameter(matrix, layers=PAIR)
    np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
    assert axes.images[0].norm.vmin == -axes.images[0].norm.vmax
    assert names(axes) == ["1→1", "1→2", "2→1", "2→2"]
    assert [text.get_text() for text in axes.texts][:4] == ["12", "0", "-4.1", "0"]
    axes = plotting.path_blocks(np.eye(9), layers=(sma.SkipHeads(2), sma.SkipHeads(2)))
    assert [frame.get_x() for frame in axes.patches] == [-0.5, 2.5, 5.5]


def test_correlations_are_those_of_numpy():
    draws = RANDOM.normal(size=(4, 50)) * [[1], [10], [0.1], [3]]
    draws -= draws.mean(axis=1, keepdims=True)
    shown, off = plotting.path_correlations(draws @ draws.T, layers=PAIR).images[0].get_array(), ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(shown.data[off], np.corrcoef(draws)[off], rtol=1e-12)
    assert (shown.mask == ~off).all()


def test_curves_are_means_in_the_order_of_the_widths_with_errors():
    axes = plotting.against_width([1000, 10, 100], [[0.8, 0.9, 0.6], [0.9, 1.0, 0.8]], label="theory")
    close(axes.lines[0], [[10, 0.95], [100, 0.7], [1000, 0.85]])
    band = axes.collections[0].get_paths()[0].vertices
    np.testing.assert_allclose(np.sort(band[band[:, 0] == 100, 1])[[0, -1]], [0.6, 0.8])
    np.testing.assert_allclose(plotting.mean_and_error([[1.0, 5.0], [3.0, 5.0]]), [[2, 5], [1, 0]])
    np.testing.assert_allclose(drawn("reference_line").lines[0].get_ydata(), 0.85)
    close(drawn("principal_overlaps").lines[0], [[1, 3], [2, 4], [3, 5], [4, 6]])
    widths, limit = drawn("against_temperature").containers
    close(widths.lines[0], [[0.1, 0.8], [1, 0.8]])
    np.testing.assert_allclose(widths.lines[2][0].get_segments()[0], [[0.1, 0.7], [0.1, 0.9]])
    close(limit.lines[0], [[0.1, 0.5], [1, 0.4]])


def test_entries_are_grouped_by_their_heads_in_units_of_the_mean_diagonal():
    matrix = np.array([[2.0, 1, 0, 0], [1, 2, 0, 3], [0, 0, 4, 1], [0, 3, 1, 4]])
    axes = plotting.entries_compared(matrix, -2 * matrix, layers=PAIR)
    dots = {dots.get_label(): dots.get_offsets().tolist() for dots in axes.collections}
    np.testing.assert_allclose(dots["same path"], np.array([[2, 2]] * 2 + [[4, 4]] * 2) / 3)
    np.testing.assert_allclose(dots["same head in layer 1"], np.ones((2, 2)) / 3)
    np.testing.assert_allclose(dots["other pairs"], [[0, 0], [0, 0], [0, 0], [1, 1]])


def test_scores_and_curves_of_pruning_are_means_over_draws():
    close(drawn("pruning_curves").containers[0].lines[0], [[0, 0.85], [1, 0.65]])
    axes = drawn("importances_compared")
    *marks, mean = axes.lines[1:5]  # the first is at zero
    np.testing.assert_array_equal([mark.get_xdata()[0] for mark in marks], [0.1, 0.3, np.nan])
    close(mean, [[0.2, 0]])
    np.testing.assert_allclose(axes.collections[0].get_segments()[0], [[-1, 0], [1, 0]])
    assert marks[0].get_marker() == marks[2].get_marker() != marks[1].get_marker()


def test_regimes_have_their_colours():
    assert [name.upper().replace("-", "_") for name in plotting.REGIMES] == [regime.name for regime in Regime]


def test_the_flow_puts_the_scale_of_the_layer_above_before_every_order_parameter():
    order = (np.diag(np.arange(1.0, 7.0)), np.array([[2.0, -1, 0], [-1, 3, 0], [0, 0, 1]]), 0.5)
    figure = plotting.order_parameter_flow({"one": order, "other": order}, variance=(1.0, 0.5, 4.0, 1.0))
    wanted = [np.full((1, 1), 0.5), 4.0 * 0.5 * np.eye(3), order[1], 0.5 * np.kron(np.eye(2), order[1]), order[0]]
    for axes, matrix in zip(figure.axes[:10], 2 * wanted, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), matrix)
    figure = plotting.order_parameter_flow({"narrow": (np.eye(2), [[[2.0]], [[3.0]]], 0.5)}, variance=(1.0, 4.0, 1.0))
    wanted = [np.full((1, 1), 0.5), np.diag([2.0, 3.0]), 2 * np.diag([2.0, 3.0]), np.eye(2)]
    for axes, matrix in zip(figure.axes[:4], wanted, strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), matrix)
