"""Weights of the prior."""

import jax
import numpy as np

import statmech_attention as sma


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
