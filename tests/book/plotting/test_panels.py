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


def call(*given, **named):
    return given, named


# All panels, with arguments.
PANELS = {
    "against_width": call([10, 100], [[0.8, 0.9]], label="theory"),
    "architecture": call(PAIR, paths=plotting.HIDDEN_MARKOV_PATHS, legend=True),
    "attention_matrix": call(np.full((3, 4), 1 / 3)),
    "groups": call([[0.9, 0.5], [0.8, 0.6]], ["good", "other"], colours=["good", "black"]),
    "hidden_chains": call([[1, 1, -1, -1], [-1, 1, -1, 1]], labels=["slow", "fast"]),
    "noisy_tokens": call(RANDOM.normal(size=(5, 8))),
    "one_shot_sequence": call(IMAGES, 1, patch=4, answer=-1),
    "order_parameter": call(np.eye(4), layers=PAIR),
    "path_blocks": call(np.eye(4), layers=PAIR, title="theory"),
    "path_correlations": call(np.eye(4) + 0.1, layers=PAIR),
    "principal_overlaps": call(np.arange(12.0).reshape(2, 6), label="GP", count=4),
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


def test_regimes_have_their_colours():
    assert [name.upper().replace("-", "_") for name in plotting.REGIMES] == [regime.name for regime in Regime]
