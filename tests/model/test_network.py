"""The network layer by layer and path by path: equations (1), (2), (4) to (6), (13)."""

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
    weights = sma.model.Weights(jnp.asarray(plain[0]), tuple(map(jnp.asarray, plain[1])), jnp.asarray(plain[2]))
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    return plain, weights, inputs, reference.random_attention(rng, heads, EXAMPLES, TOKENS)


def relative_error(found, wanted):
    return np.max(np.abs(np.asarray(found) - wanted)) / np.max(np.abs(wanted))


@pytest.mark.parametrize("readout", ["last", "mean"])
def test_forward_agrees_with_loops_over_layers_and_heads(case, readout):
    plain, weights, inputs, matrices = case
    wanted = reference.forward(*plain, inputs, matrices, readout)
    assert relative_error(sma.forward(weights, inputs, matrices, readout=readout), wanted) < 1e-12


def test_prior_weights_depend_on_the_key_alone():
    def draw(seed):
        return sma.sample_weights(jax.random.key(seed), layers=(2, 2), width=3, features=4)

    for one, same, other in zip(*map(jax.tree.leaves, (draw(0), draw(0), draw(1))), strict=True):
        np.testing.assert_array_equal(one, same)
        assert not np.any(one == other)


def test_layers_of_prior_weights_are_drawn_independently():
    weights = sma.sample_weights(jax.random.key(2), layers=(2, 2, 2), width=4, features=4)
    blocks = [np.asarray(block).ravel() for block in (weights.projection, *weights.values)]
    first = {round(float(block[0]), 12) for block in blocks}
    assert len(first) == len(blocks)
