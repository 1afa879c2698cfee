"""Figures on several classes carry the right data and refuse data that does not fit."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention import plotting

plotting.use_style()


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_state_rows_show_every_state_with_its_number():
    hidden = np.array([[0, 1, 2, 1], [2, 2, 0, 1]])
    axes = plotting.state_rows(hidden, labels=["one", "two"])
    np.testing.assert_array_equal(axes.images[0].get_array(), hidden)
    assert [text.get_text() for text in axes.texts] == list("01212201")
    assert [text.get_position() for text in axes.texts][5] == (1, 1)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    assert plotting.state_rows(hidden, axes=axes) is axes


@pytest.mark.parametrize("hidden", [np.zeros(4, int), np.zeros((2, 2)), -np.ones((2, 2), int)])
def test_state_rows_wants_states(hidden):
    with pytest.raises(ValueError, match="hidden: wanted states 0, 1, .. of shape"):
        plotting.state_rows(hidden)


def test_order_parameter_of_pairs_is_centred_at_zero_and_parted_by_paths():
    heads = (2, 2, sma.Outputs(3))
    matrix = np.diag(np.arange(12.0) - 4)
    axes = plotting.output_order_parameter(matrix, heads)
    np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
    assert axes.images[0].get_clim() == (-7, 7)
    borders = sorted(float(line.get_ydata()[0]) for line in axes.lines if np.ptp(line.get_ydata()) == 0)
    assert borders == [2.5, 5.5, 8.5]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["(1,1)", "(1,2)", "(2,1)", "(2,2)"]
    np.testing.assert_allclose(axes.get_xticks(), [1, 4, 7, 10])
    assert plotting.output_order_parameter(matrix, heads, limit=2.0, axes=axes).images[1].get_clim() == (-2, 2)


def test_order_parameter_of_pairs_fits_the_heads():
    with pytest.raises(ValueError, match=r"matrix: wanted shape \(12, 12\) for heads"):
        plotting.output_order_parameter(np.eye(4), (2, 2, sma.Outputs(3)))
