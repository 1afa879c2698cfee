"""The network layer by layer and path by path: equations (1), (2), (4) to (6), (13)."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import statmech_attention as sma

EXAMPLES, TOKENS, FEATURES = 2, 3, 4
# Heads, widths (N_1, .., N_{L+1}), variances (sigma_0^2, .., sigma_a^2).
NETWORKS = {
    "one layer": ((3,), (4, 2), (0.5, 2.0, 1.5)),
    "unequal": ((3, 2), (2, 6, 3), (0.7, 1.4, 0.6, 2.0)),
    "three layers": ((3, 1, 2), (4, 2, 5, 3), (1.3, 0.8, 1.1, 0.4, 1.7)),
    "four layers": ((2, 1, 2, 2), (3, 4, 2, 3, 5), (1.0, 2.0, 0.5, 1.5, 0.9, 1.2)),
}


@pytest.fixture(params=NETWORKS, scope="module")
def case(request):
    heads, widths, variances = NETWORKS[request.param]
    rng = np.random.default_rng(10)
    plain = reference.random_weights(rng, heads, widths, variances, FEATURES)
    weights = sma.Weights(jnp.asarray(plain[0]), tuple(map(jnp.asarray, plain[1])), jnp.asarray(plain[2]))
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    return plain, weights, inputs, reference.random_attention(rng, heads, EXAMPLES, TOKENS)


def relative_error(found, wanted):
    return np.max(np.abs(np.asarray(found) - wanted)) / np.max(np.abs(wanted))


@pytest.mark.parametrize("readout", ["last", "mean"])
def test_forward_agrees_with_loops_over_layers_and_heads(case, readout):
    plain, weights, inputs, matrices = case
    wanted = reference.forward(*plain, inputs, matrices, readout)
    assert relative_error(sma.forward(weights, inputs, matrices, readout=readout), wanted) < 1e-12


@pytest.mark.parametrize("readout", ["last", "mean"])
def test_layers_and_paths_give_the_same_output(case, readout):
    _, weights, inputs, matrices = case
    by_layers = sma.forward(weights, inputs, matrices, readout=readout)
    by_paths = sma.forward_paths(weights, sma.attentioned_inputs(inputs, matrices, readout=readout))
    assert relative_error(by_paths, np.asarray(by_layers)) < 1e-10


def test_effective_weights_agree_with_products_along_each_path(case):
    plain, weights, *_ = case
    wanted = reference.partial_weights(plain[1], plain[2])
    found = sma.effective_weights(weights)
    assert found.shape == wanted.shape
    assert relative_error(found, wanted) < 1e-12


def test_order_parameters_of_weights_are_their_overlaps(case):
    plain, weights, *_ = case
    found = sma.weights_order_parameters(weights)
    wanted = reference.weights_order_parameters(plain[1], plain[2])
    assert [np.shape(one) for one in found] == [np.shape(one) for one in wanted]
    for one, other in zip(found, wanted, strict=True):
        assert relative_error(one, other) < 1e-12


def test_default_readout_is_the_last_token(case):
    _, weights, inputs, matrices = case
    np.testing.assert_array_equal(
        sma.forward(weights, inputs, matrices), sma.forward(weights, inputs, matrices, readout=TOKENS - 1)
    )


def test_output_is_linear_in_the_values(case):
    _, weights, inputs, matrices = case
    doubled = weights._replace(values=(2 * weights.values[0], *weights.values[1:]))
    np.testing.assert_allclose(
        sma.forward(doubled, inputs, matrices), 2 * sma.forward(weights, inputs, matrices), rtol=1e-12
    )


def test_prior_weights_have_the_shapes_and_variances_asked_for():
    heads, widths, variances = (2, 3), (40, 50, 60), (0.5, 2.0, 1.0, 4.0)
    weights = sma.sample_weights(jax.random.key(0), heads=heads, width=widths, features=70, variance=variances)
    assert weights.projection.shape == (40, 70)
    assert [value.shape for value in weights.values] == [(2, 50, 40), (3, 60, 50)]
    assert weights.readout.shape == (60,)
    for block, variance in zip((weights.projection, *weights.values, weights.readout), variances, strict=True):
        count = block.size
        assert abs(jnp.mean(block**2) / variance - 1) < 4 * math.sqrt(2 / count)
        assert abs(jnp.mean(block)) < 4 * math.sqrt(variance / count)


def test_prior_weights_depend_on_the_key_alone():
    def draw(seed):
        return sma.sample_weights(jax.random.key(seed), heads=(2, 2), width=3, features=4)

    for one, same, other in zip(*map(jax.tree.leaves, (draw(0), draw(0), draw(1))), strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.any(one == other)


def test_layers_of_prior_weights_are_drawn_independently():
    weights = sma.sample_weights(jax.random.key(2), heads=(2, 2, 2), width=4, features=4)
    blocks = [np.asarray(block).ravel() for block in (weights.projection, *weights.values)]
    first = {round(float(block[0]), 12) for block in blocks}
    assert len(first) == len(blocks)
