"""Chains of mixed layers: what `layers` spells, paths, drawn weights, bad chains."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.layers import Chain, OneOutput


def test_drawn_weights_have_the_shapes_and_variances_of_the_layers():
    heads, widths, variances = (2, sma.Linear(), sma.SkipHeads(3), sma.Outputs(4)), (20, 30, 40, 40), (1, 2, 3, 0.5, 4)
    weights = sma.sample_weights(key=jax.random.key(0), layers=heads, width=widths, features=10, variance=variances)
    assert [value.shape for value in weights.values] == [(2, 30, 20), (1, 40, 30), (3, 40, 40)]
    assert weights.projection.shape == (20, 10) and weights.readout.shape == (40, 4)
    for block, variance in zip((weights.projection, *weights.values, weights.readout), variances, strict=True):
        assert abs(jnp.mean(block**2) / variance - 1) < 4 * math.sqrt(2 / block.size)


def test_numbers_stand_for_heads():
    assert (
        Chain.of((2, 3)) == Chain.of((sma.Heads(2), sma.Heads(3))) == Chain((sma.Heads(2), sma.Heads(3)), OneOutput())
    )
    assert Chain.of([sma.Heads(2), np.int64(3)]).shorthand == (2, 3)
    mixed = (2, sma.SkipHeads(2), sma.Outputs(3))
    assert Chain.of(mixed).shorthand == mixed


def test_paths_run_over_branches_with_the_first_layer_slowest():
    heads = (2, sma.SkipHeads(2), sma.Linear(), sma.Outputs(3))
    assert sma.model.path_indices(layers=heads).tolist() == [[h, g, -1] for h in range(2) for g in (-1, 0, 1)]
    assert Chain.of(heads).divisor == 2
    np.testing.assert_allclose(Chain.of(heads).path_gains, [1, 0.5**0.5, 0.5**0.5] * 2)


def test_a_layer_without_heads_takes_no_attention():
    rng = np.random.default_rng(2)
    inputs, matrices = rng.normal(size=(2, 3, 4)), [rng.dirichlet(np.ones(3), size=(2, 2, 3)).swapaxes(2, 3)]
    plain = sma.attentioned_inputs(inputs, matrices)
    for heads in ((sma.Linear(), 2), (2, sma.Linear())):
        np.testing.assert_array_equal(sma.attentioned_inputs(inputs, matrices, layers=heads).values, plain.values)
    bare = sma.attentioned_inputs(inputs, (), layers=(sma.Linear(), sma.Linear()))
    np.testing.assert_array_equal(bare.values[:, 0], inputs[:, -1])


def bad(heads, **options):
    return lambda: sma.sample_weights(key=jax.random.key(0), layers=heads, features=2, **({"width": 3} | options))


INPUTS, ONE = np.ones((2, 3, 4)), [np.full((2, 2, 3, 3), 1 / 3)]
SKIP = sma.SkipHeads(2)
BAD = [
    (bad((sma.Outputs(2),)), "layers: wanted at least one attention layer, got none"),
    (bad((sma.Outputs(2), 2)), r"layers: wanted whole numbers.* and Outputs\(3\) at the end alone"),
    (bad((2, "skip")), r"layers: wanted whole numbers of at least 1, got .* Or layers, as in \(2, SkipHeads"),
    (bad((2, SKIP), width=(3, 4, 5)), "width: wanted the same width before and after layer 2, .* N_2 = 4 and N_3 = 5"),
    (lambda: sma.Heads(0), "Heads: wanted a whole number of at least 1, got 0"),
    (
        lambda: sma.attentioned_inputs(INPUTS, ONE, layers=(2, 2)),
        r"attention: wanted matrices of \(2, 2\) heads .* got \(2,\)",
    ),
    (lambda: sma.attentioned_inputs(INPUTS, ONE, layers=(sma.Linear(),)), r"attention: wanted none.* Pass \(\)"),
    (
        lambda: sma.model.effective_weights(bad((2, sma.Outputs(2)))(), layers=(2, sma.Outputs(3))),
        r"weights: wanted shapes .*\(3, 3\)\) for .* got .*\(3, 2\)\)",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=range(len(BAD)))
def test_impossible_chains_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
