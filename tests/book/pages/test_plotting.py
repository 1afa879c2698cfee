"""Panels draw without a warning, in the book's style, and show the numbers that they transform before."""

import inspect
import json
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.testing.compare import compare_images

import statmech_attention as sma
from attention_book.pages import plotting

PAIR = (2, 2)
PICTURES = sorted((Path(__file__).parent / "pictures").glob("*.png"))
# All panels, with arguments.
PANELS = {
    "against_width": (([10, 100], [[0.8, 0.9]]), {"label": "theory"}),
    "architecture": ((PAIR,), {"paths": plotting.HIDDEN_MARKOV_PATHS, "legend": True}),
    "attention_matrix": ((np.full((3, 4), 1 / 3),), {}),
    "groups": (([[0.9, 0.5], [0.8, 0.6]], ["good", "other"]), {"colours": ["good", "black"]}),
    "hidden_chains": (([[1, 1, -1, -1], [-1, 1, -1, 1]],), {"labels": ["slow", "fast"]}),
    "noisy_tokens": ((np.linspace(-1, 1, 40).reshape(5, 8),), {}),
    "one_shot_sequence": ((np.linspace(0, 1, 3 * 8 * 8).reshape(3, 8, 8), 1), {"patch": 4, "answer": -1}),
    "order_parameter": ((np.eye(4),), {"layers": PAIR}),
    "path_blocks": ((np.eye(4),), {"layers": PAIR, "title": "theory"}),
    "path_correlations": ((np.eye(4) + 0.1,), {"layers": PAIR}),
    "positive_cone": ((4.0,), {}),
    "principal_overlaps": ((np.arange(12.0).reshape(2, 6),), {"label": "GP", "count": 4}),
    "reference_line": (([0.8, 0.9],), {"label": "GP"}),
    "switching": ((0.3,), {}),
}


@pytest.fixture(autouse=True)
def _figures():
    with plt.rc_context():
        plotting.use_style()
        yield
    plt.close("all")


def test_every_panel_is_in_the_table_of_this_file():
    functions = {name: one for name, one in vars(plotting).items() if inspect.isfunction(one)}
    panels = {name for name, one in functions.items() if "axes" in inspect.signature(one).parameters}
    assert panels - {"legend_above"} == set(PANELS)


@pytest.mark.parametrize("name", PANELS)
def test_panel_draws_into_the_given_axes_and_no_others(name):
    figure, axes = plotting.new_figure()
    given, named = PANELS[name]
    assert getattr(plotting, name)(*given, axes=axes, **named) is axes
    figure.canvas.draw()
    assert plt.get_fignums() == [figure.number]
    assert axes.lines or axes.images or axes.patches or axes.collections


@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_panel_looks_like_its_picture(picture, tmp_path):
    """A change that is wanted: copy the new picture, whose place a failure prints, over the old one."""
    figure, axes = plotting.new_figure(figsize=(3, 2))
    given, named = PANELS[picture.stem]
    getattr(plotting, picture.stem)(*given, axes=axes, **named)
    figure.savefig(drawn := tmp_path / picture.name, dpi=60)
    assert compare_images(picture, drawn, tol=1) is None


def test_order_parameter_is_centred_at_zero_and_named_by_heads():
    matrix = np.diag([11.7, 0.43, 5.73, 0.46])
    matrix[0, 2] = matrix[2, 0] = -4.1
    axes = plotting.order_parameter(matrix, layers=PAIR)
    np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
    assert axes.images[0].norm.vmin == -axes.images[0].norm.vmax
    assert [text.get_text() for text in axes.get_yticklabels()] == ["1→1", "1→2", "2→1", "2→2"]
    assert [text.get_text() for text in axes.texts][:4] == ["12", "0", "-4.1", "0"]
    axes = plotting.path_blocks(np.eye(9), layers=(sma.SkipHeads(2), sma.SkipHeads(2)))
    assert [frame.get_x() for frame in axes.patches] == [-0.5, 2.5, 5.5]


def test_cone_holds_positive_matrices_and_no_others():
    axes = plotting.positive_cone(4.0)
    cone = axes.patches[0].get_path()
    roots = np.random.default_rng(0).normal(size=(200, 2, 2))
    positive = roots @ roots.mT
    positive *= 3 / np.maximum(3, np.trace(positive, axis1=1, axis2=2) / 2)[:, None, None]
    mixed = positive + 3 * np.array([[0, 1], [1, 0]])
    seen = [cone.contains_points(plotting.in_cone(one).T, radius=1e-9) for one in (positive, mixed)]
    lid = plotting.in_cone(np.eye(2) * 3)[1] - 3 * np.sin(np.radians(14))
    low = plotting.in_cone(positive)[1] < lid  # in front of the lid
    assert low.sum() > 100 and seen[0][low].all() and not seen[1].all()


def test_slider_has_a_picture_for_every_value_and_loads_nothing():
    def draw(value):
        figure, axes = plt.subplots(figsize=(2, 1 + value))
        axes.plot([0, 1], [0, value])
        return figure

    shown = plotting.slider(draw, (0.1, 0.3, 1.0), label="T", first=1, description='Two "panels" & a slider.')
    assert not plt.get_fignums() and shown.png[:4] == b"\x89PNG"
    assert 'alt="Two &quot;panels&quot; &amp; a slider."' in shown.html
    pictures = json.loads(re.search(r"pictures = (\[.*?\]), picture = ", shown.html)[1])
    heights = [float(re.search(r'height="([\d.]+)pt"', one)[1]) for one in pictures]
    assert len(pictures) == 3 and heights == sorted(set(heights))
    assert not re.findall(r"(?:src|href)=\W*https?:|@import|\.src = .*http", shown.html)


def test_curve_of_which_no_value_is_known_keeps_its_widths():
    axes = plotting.against_width([3.0], np.full((2, 1), np.nan), label="theory")
    axes.figure.canvas.draw()
    assert axes.get_xlim()[0] < 3 < axes.get_xlim()[1]
