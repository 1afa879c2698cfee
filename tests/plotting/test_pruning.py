"""The panels on pruning carry the data that they are given, and refuse what does not fit."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from statmech_attention import plotting


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


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


def test_rank_correlations_stand_in_the_order_given_with_their_intervals():
    axes = plotting.rank_correlations({"Taylor": (0.8, 0.3, 1.0), "weights": (-0.2, -0.7, 0.5)})
    assert [text.get_text() for text in axes.get_yticklabels()] == ["Taylor", "weights"]
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0.8, 0]])
    np.testing.assert_allclose(axes.collections[1].get_segments()[0], [[-0.7, 1], [0.5, 1]])
    assert axes.yaxis_inverted()
