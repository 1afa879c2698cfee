"""Chains of mixed layers: what `heads` spells, paths, networks layer by layer and path by path, bad chains."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from layers import brute_force
from statmech_attention.layers import Chain, OneOutput, chain

EXAMPLES, TOKENS, FEATURES = 2, 3, 4


@pytest.fixture(params=brute_force.CHAINS, scope="module")
def case(request):
    layers, widths, outputs = brute_force.CHAINS[request.param]
    rng = np.random.default_rng(1)
    variances = rng.uniform(0.5, 2.0, size=len(layers) + 2)
    plain = brute_force.weights(rng, layers, widths, outputs, variances, FEATURES)
    weights = sma.Weights(jnp.asarray(plain[0]), tuple(jax.tree.map(jnp.asarray, plain[1])), jnp.asarray(plain[2]))
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    matrices = brute_force.attention(rng, layers, EXAMPLES, TOKENS)
    return layers, outputs, plain, weights, inputs, matrices


def test_forward_agrees_with_loops(case):
    layers, outputs, plain, weights, inputs, matrices = case
    wanted = brute_force.forward(*plain, inputs, matrices, layers)
    found = sma.forward(weights, inputs, matrices, heads=brute_force.spelled(layers, outputs))
    assert found.shape == wanted.shape == (EXAMPLES, *([] if outputs is None else [outputs]))
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("readout", ["last", "mean"])
def test_layers_and_paths_give_the_same_output(case, readout):
    layers, outputs, _, weights, inputs, matrices = case
    heads = brute_force.spelled(layers, outputs)
    xi = sma.attentioned_inputs(inputs, matrices, readout=readout, heads=heads)
    assert xi.heads == chain(heads).spelled and xi.values.shape[1] == len(brute_force.paths(layers))
    wanted = sma.forward(weights, inputs, matrices, readout=readout, heads=heads)
    np.testing.assert_allclose(sma.forward_paths(weights, xi), wanted, rtol=1e-11, atol=1e-12)


def test_effective_weights_and_order_parameters_agree_with_loops(case):
    layers, outputs, plain, weights, *_ = case
    heads = brute_force.spelled(layers, outputs)
    wanted = brute_force.partial_weights(*plain[1:], layers, 0)
    np.testing.assert_allclose(sma.effective_weights(weights, heads=heads), wanted, rtol=1e-12, atol=1e-13)
    found = sma.weights_order_parameters(weights, heads=heads)
    for one, other in zip(found, brute_force.order_parameters(*plain[1:], layers), strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_drawn_weights_have_the_shapes_and_variances_of_the_layers():
    heads, widths, variances = (2, sma.Linear(), sma.SkipHeads(3), sma.Outputs(4)), (20, 30, 40, 40), (1, 2, 3, 0.5, 4)
    weights = sma.sample_weights(jax.random.key(0), heads=heads, width=widths, features=10, variance=variances)
    assert [value.shape for value in weights.values] == [(2, 30, 20), (1, 40, 30), (3, 40, 40)]
    assert weights.projection.shape == (20, 10) and weights.readout.shape == (40, 4)
    for block, variance in zip((weights.projection, *weights.values, weights.readout), variances, strict=True):
        assert abs(jnp.mean(block**2) / variance - 1) < 4 * math.sqrt(2 / block.size)


def test_numbers_stand_for_heads():
    assert chain((2, 3)) == chain((sma.Heads(2), sma.Heads(3))) == Chain((sma.Heads(2), sma.Heads(3)), OneOutput())
    assert chain([sma.Heads(2), np.int64(3)]).spelled == (2, 3)
    mixed = (2, sma.SkipHeads(2), sma.Outputs(3))
    assert chain(mixed).spelled == mixed


def test_paths_run_over_branches_with_the_first_layer_slowest():
    heads = (2, sma.SkipHeads(2), sma.Linear(), sma.Outputs(3))
    assert sma.path_indices(heads).tolist() == [[h, g, -1] for h in range(2) for g in (-1, 0, 1)]
    assert chain(heads).divisor == 2
    np.testing.assert_allclose(chain(heads).path_gains, [1, 0.5**0.5, 0.5**0.5] * 2)


def test_partial_paths_count_the_branches_from_each_layer_up():
    assert chain((2, 3, 4)).partial_paths == (24, 12, 4, 1)
    assert chain((2, sma.SkipHeads(2), sma.Outputs(3))).partial_paths == (18, 9, 3)


def test_a_layer_without_heads_takes_no_attention():
    rng = np.random.default_rng(2)
    inputs, matrices = rng.normal(size=(2, 3, 4)), [rng.normal(size=(2, 2, 3, 3))]
    plain = sma.attentioned_inputs(inputs, matrices)
    for heads in ((sma.Linear(), 2), (2, sma.Linear())):
        np.testing.assert_array_equal(sma.attentioned_inputs(inputs, matrices, heads=heads).values, plain.values)
    bare = sma.attentioned_inputs(inputs, (), heads=(sma.Linear(), sma.Linear()))
    np.testing.assert_array_equal(bare.values[:, 0], inputs[:, -1])


def test_keeping_heads_leaves_skips_alone():
    rng = np.random.default_rng(3)
    inputs, heads = rng.normal(size=(2, 3, 4)), (2, sma.SkipHeads(2), sma.Linear())
    matrices = [rng.normal(size=(2, 2, 3, 3)) for _ in range(2)]
    xi = sma.attentioned_inputs(inputs, matrices, heads=heads)
    found = xi.keep_heads(((1,), (0,), ()))
    fewer = [matrices[0][:, 1:], matrices[1][:, :1]]
    wanted = sma.attentioned_inputs(inputs, fewer, heads=(1, sma.SkipHeads(1), sma.Linear()))
    assert found.heads == wanted.heads == (1, sma.SkipHeads(1), sma.Linear())
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-12)
    without = xi.keep_heads(((0, 1), (), ()))
    assert without.heads == (2, sma.SkipHeads(0), sma.Linear())
    np.testing.assert_allclose(without.values, sma.attentioned_inputs(inputs, matrices[:1]).values, rtol=1e-12)


def bad(heads, **options):
    return lambda: sma.sample_weights(jax.random.key(0), heads=heads, features=2, **({"width": 3} | options))


INPUTS, ONE = np.ones((2, 3, 4)), [np.ones((2, 2, 3, 3))]
SKIP = sma.SkipHeads(2)
BAD = [
    (bad((sma.Outputs(2),)), "heads: wanted at least one attention layer, got none"),
    (bad((sma.Outputs(2), 2)), "heads: wanted outputs at the end of the chain alone"),
    (bad((2, sma.Outputs(2), sma.Outputs(2))), "heads: wanted outputs at the end of the chain alone"),
    (bad((2, "skip")), r"heads: wanted whole numbers of at least 1, got .* Or layers, as in \(2, SkipHeads"),
    (bad((2, sma.SkipHeads)), "heads: wanted whole numbers of at least 1"),
    (bad((2, SKIP), width=(3, 4, 5)), "width: wanted the same width before and after layer 2, .* N_2 = 4 and N_3 = 5"),
    (bad((SKIP,), width=(3, 4)), "width: wanted the same width before and after layer 1"),
    (bad((2, SKIP, sma.Linear()), width=3, variance=(1.0,) * 4), "variance: wanted one number or 5 of them"),
    (lambda: sma.Heads(0), "Heads: wanted a whole number of at least 1, got 0"),
    (lambda: sma.SkipHeads(-1), "SkipHeads: wanted a whole number of at least 0, got -1"),
    (lambda: sma.Outputs(0), "Outputs: wanted a whole number of at least 1, got 0"),
    (
        lambda: sma.attentioned_inputs(INPUTS, ONE, heads=(2, 2)),
        r"attention: wanted matrices of \(2, 2\) heads .* got \(2,\)",
    ),
    (
        lambda: sma.attentioned_inputs(INPUTS, ONE, heads=(3, sma.Linear())),
        r"attention: wanted matrices of \(3,\) heads",
    ),
    (lambda: sma.attentioned_inputs(INPUTS, ONE, heads=(sma.Linear(),)), r"attention: wanted none.* Pass \(\)"),
    (
        lambda: sma.attentioned_inputs(INPUTS, ONE, heads=(SKIP,)).keep_heads(((2,),)),
        r"kept, layer 1: wanted different heads out of 0\.\.1, got \(2,\)",
    ),
    (
        lambda: sma.forward(bad((2,))(), INPUTS[..., :2], ONE, heads=(SKIP, sma.Linear())),
        r"weights: wanted",
    ),
    (lambda: sma.effective_weights(bad((2,))(), heads=(2, sma.Outputs(2))), r"weights: wanted .* \(N, outputs\)"),
    (
        lambda: sma.effective_weights(bad((2, sma.Outputs(2)))(), heads=(2, sma.Outputs(3))),
        "weights: wanted 3 outputs, got 2",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=range(len(BAD)))
def test_impossible_chains_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
