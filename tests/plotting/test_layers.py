"""The panels on chains of layers carry the numbers that they are given, and refuse what does not fit."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention import plotting

CHAIN = (sma.SkipHeads(1), sma.Linear(), 2, sma.Outputs(2))


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def names(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def test_rows_are_named_by_their_heads_and_outputs():
    axes = plotting.chain_order_parameter(np.diag(np.arange(8.0)), CHAIN)
    wanted = [f"({skip},·,{head};{output})" for skip in "·1" for head in "12" for output in "12"]
    assert names(axes) == [text.get_text() for text in axes.get_xticklabels()] == wanted
    np.testing.assert_allclose(axes.images[0].get_array(), np.diag(np.arange(8.0)))
    assert names(plotting.chain_order_parameter(np.eye(4), CHAIN, layer=3)) == ["(1;1)", "(1;2)", "(2;1)", "(2;2)"]
    assert names(plotting.chain_order_parameter(np.eye(2), CHAIN, layer=4)) == ["(;1)", "(;2)"]
    assert names(plotting.chain_order_parameter(np.eye(3), (sma.SkipHeads(2),))) == ["(·)", "(1)", "(2)"]
    assert not names(plotting.chain_order_parameter(np.eye(18), (9, sma.Outputs(2))))


def test_what_a_skip_keeps_is_framed():
    (frame,) = plotting.chain_order_parameter(np.eye(8), CHAIN).patches
    assert (frame.get_xy(), frame.get_width(), frame.get_height()) == ((-0.5, -0.5), 4, 4)
    assert not plotting.chain_order_parameter(np.eye(4), CHAIN, layer=2).patches


def test_an_approach_has_a_line_to_compare_with():
    axes = plotting.approach([1.0, 0.01], {"a": [3.0, 0.02], "b": [1.0, 0.1]}, xlabel="variance", slope=1)
    np.testing.assert_allclose(axes.lines[0].get_xydata(), [[0.01, 0.02], [1.0, 3.0]])
    guide = next(line for line in axes.lines if line.get_linestyle() == ":")
    np.testing.assert_allclose(guide.get_xydata(), [[0.01, 0.01], [1.0, 1.0]])
    assert axes.get_xscale() == axes.get_yscale() == "log" and axes.get_xlabel() == "variance"
    assert axes.get_legend_handles_labels()[1] == ["slope 1", "a", "b"]
    assert len(plotting.approach([1.0], {"a": [1.0]}, xlabel="").get_legend_handles_labels()[1]) == 1


BAD = [
    (
        lambda: plotting.chain_order_parameter(np.eye(8), CHAIN, layer=5),
        "layer: wanted a whole number from 1 to 4, got 5",
    ),
    (
        lambda: plotting.chain_order_parameter(np.eye(8), CHAIN, layer=0),
        "layer: wanted a whole number from 1 to 4, got 0",
    ),
    (lambda: plotting.chain_order_parameter(np.eye(8), CHAIN, layer=2), r"matrix: wanted shape \(4, 4\) for layer 2"),
    (lambda: plotting.approach([1.0], {"a": [1.0, 2.0]}, xlabel=""), "distances: wanted 1 of 'a', one a value"),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=range(len(BAD)))
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
