"""Matrices in colours carry their numbers and the names of their rows, and refuse what does not fit."""

import numpy as np
import pytest

import statmech_attention as sma
from attention_book import plotting

CHAIN = (sma.SkipHeads(1), sma.Linear(), 2, sma.Outputs(2))


def names(axes):
    return [text.get_text() for text in axes.get_yticklabels()]


def test_order_parameter_is_centred_at_zero_and_named_by_heads():
    matrix = np.diag([11.7, 0.43, 5.73, 0.46])
    matrix[0, 2] = matrix[2, 0] = -4.1
    axes = plotting.order_parameter(matrix, heads=(2, 2))
    (image,) = axes.images
    np.testing.assert_array_equal(image.get_array(), matrix)
    assert image.norm.vmin == -image.norm.vmax
    np.testing.assert_allclose(image.cmap(image.norm(0.0))[:3], 0.97, atol=0.01)
    assert [text.get_text() for text in axes.get_yticklabels()] == ["(1,1)", "(1,2)", "(2,1)", "(2,2)"]
    assert [text.get_text() for text in axes.texts][:4] == ["12", "0", "-4.1", "0"]


def test_large_order_parameters_are_drawn_without_numbers():
    assert not plotting.order_parameter(np.eye(27), heads=(3, 3, 3)).texts
    with pytest.raises(ValueError, match="wanted shape"):
        plotting.order_parameter(np.eye(4), heads=(2, 3))


def test_correlations_are_those_of_numpy_with_a_blank_diagonal():
    draws = np.random.default_rng(0).normal(size=(4, 50)) * [[1], [10], [0.1], [3]]
    draws -= draws.mean(axis=1, keepdims=True)
    axes = plotting.path_correlations(draws @ draws.T, heads=(2, 2), limit=0.5)
    shown, off = axes.images[0].get_array(), ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(shown.data[off], np.corrcoef(draws)[off], rtol=1e-12)
    assert (shown.mask == np.eye(4, dtype=bool)).all() and len(axes.texts) == 12
    assert axes.images[0].get_clim() == (-0.5, 0.5)
    with pytest.raises(ValueError, match="matrix: wanted a positive diagonal"):
        plotting.path_correlations(np.zeros((4, 4)), heads=(2, 2))


def test_rows_are_named_by_their_heads_and_outputs():
    axes = plotting.chain_order_parameter(np.diag(np.arange(8.0)), heads=CHAIN)
    wanted = [f"({skip},·,{head};{output})" for skip in "·1" for head in "12" for output in "12"]
    assert names(axes) == [text.get_text() for text in axes.get_xticklabels()] == wanted
    np.testing.assert_allclose(axes.images[0].get_array(), np.diag(np.arange(8.0)))
    assert names(plotting.chain_order_parameter(np.eye(4), heads=CHAIN, layer=3)) == [
        "(1;1)",
        "(1;2)",
        "(2;1)",
        "(2;2)",
    ]
    assert names(plotting.chain_order_parameter(np.eye(2), heads=CHAIN, layer=4)) == ["(;1)", "(;2)"]
    assert names(plotting.chain_order_parameter(np.eye(3), heads=(sma.SkipHeads(2),))) == ["(·)", "(1)", "(2)"]
    assert not names(plotting.chain_order_parameter(np.eye(18), heads=(9, sma.Outputs(2))))


def test_what_a_skip_keeps_is_framed():
    (frame,) = plotting.chain_order_parameter(np.eye(8), heads=CHAIN).patches
    assert (frame.get_xy(), frame.get_width(), frame.get_height()) == ((-0.5, -0.5), 4, 4)
    assert not plotting.chain_order_parameter(np.eye(4), heads=CHAIN, layer=2).patches


BAD = [
    (
        lambda: plotting.chain_order_parameter(np.eye(8), heads=CHAIN, layer=5),
        "layer: wanted a whole number from 1 to 4, got 5",
    ),
    (
        lambda: plotting.chain_order_parameter(np.eye(8), heads=CHAIN, layer=0),
        "layer: wanted a whole number from 1 to 4, got 0",
    ),
    (
        lambda: plotting.chain_order_parameter(np.eye(8), heads=CHAIN, layer=2),
        r"matrix: wanted shape \(4, 4\) for layer 2",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=range(len(BAD)))
def test_other_layers_and_sizes_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_order_parameter_of_pairs_is_centred_at_zero_and_parted_by_paths():
    heads = (2, 2, sma.Outputs(3))
    matrix = np.diag(np.arange(12.0) - 4)
    axes = plotting.output_order_parameter(matrix, heads=heads)
    np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
    assert axes.images[0].get_clim() == (-7, 7)
    borders = sorted(float(line.get_ydata()[0]) for line in axes.lines if np.ptp(line.get_ydata()) == 0)
    assert borders == [2.5, 5.5, 8.5]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["(1,1)", "(1,2)", "(2,1)", "(2,2)"]
    np.testing.assert_allclose(axes.get_xticks(), [1, 4, 7, 10])
    assert plotting.output_order_parameter(matrix, heads=heads, limit=2.0, axes=axes).images[1].get_clim() == (-2, 2)


def test_order_parameter_of_pairs_fits_the_heads():
    with pytest.raises(ValueError, match=r"matrix: wanted shape \(12, 12\) for heads"):
        plotting.output_order_parameter(np.eye(4), heads=(2, 2, sma.Outputs(3)))


def test_blocks_of_the_first_layer_are_framed():
    matrix = np.diag(np.arange(1.0, 7.0))
    axes = plotting.path_blocks(matrix, heads=(2, 3), limit=5.0, title="theory")
    corners = [(frame.get_x(), frame.get_y(), frame.get_width(), frame.get_height()) for frame in axes.patches]
    assert corners == [(-0.5, -0.5, 3, 3), (2.5, 2.5, 3, 3)]
    np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
    assert axes.images[0].get_clim() == (-5, 5) and axes.get_title() == "theory"
    # The skip of layer 1 has a frame of its own, and layer 2 three branches.
    axes = plotting.path_blocks(np.eye(9), heads=(sma.SkipHeads(2), sma.SkipHeads(2)))
    assert [(frame.get_x(), frame.get_width()) for frame in axes.patches] == [(-0.5, 3), (2.5, 3), (5.5, 3)]


def test_kernel_is_sorted_by_class():
    labels = np.array([-1.0, 1, -1, 1])
    axes = plotting.kernel_matrix(np.outer(labels, labels), labels)
    block = np.array([1, 1, -1, -1])
    np.testing.assert_array_equal(axes.images[0].get_array(), np.outer(block, block))
    assert axes.lines[0].get_ydata()[0] == 1.5


def test_attention_keeps_its_axes():
    axes = plotting.attention_matrix(np.full((3, 4), 1 / 3))
    assert axes.images[0].get_array().shape == (3, 4)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("query", "key")
