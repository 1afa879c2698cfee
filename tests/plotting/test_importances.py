"""The panel that compares measures of importance carries the data that it is given."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

from statmech_attention import plotting

ROWS = {
    "theory, both, N = 10": ([0.1, 0.3, np.nan], (0.2, -1.0, 1.0)),
    "evidence lost, N = 10": ([0.5, 0.7, 0.6], (0.6, 0.4, 0.8)),
}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


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


def test_other_numbers_of_networks_are_refused():
    with pytest.raises(ValueError, match="rows: wanted 2 coefficients of 'theory, both, N = 10'"):
        plotting.importances_compared(ROWS, ["a", "b"])
