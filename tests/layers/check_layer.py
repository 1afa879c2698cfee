"""Check that the parts of a kind of layer agree with each other."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

import statmech_attention as sma
from statmech_attention.layers import Layer

EXAMPLES, TOKENS, FEATURES, WIDTH = 3, 4, 5, 6
assert_close = jax.tree_util.Partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-10)


def check_layer(layer: Layer, seed: int = 0) -> None:
    """Compare `forward` with the sum over paths (X2), and `keep` with the parts of the large layer, head by head."""
    rng = np.random.default_rng(seed)
    check_numbers(layer)
    check_forward(layer, rng)
    for size in range(layer.fewest, layer.heads):
        for left in itertools.combinations(range(layer.heads), size):
            check_kept(layer, left, rng)


def check_numbers(layer):
    hash(layer)
    mixing = np.asarray(layer.mixing(1.0))
    assert mixing.shape == (layer.branches, layer.seeds)
    assert len(layer.branch_heads) == len(layer.gains) == layer.branches and min(layer.gains) > 0
    assert_close(layer.mixing(2.0), mixing * np.array([1.0] * layer.keeps + [2.0] * layer.value_matrices))
    assert set(layer.branch_heads) - {-1} == set(range(layer.heads))
    assert layer.inner is None or layer.skeleton.inner == 1


def attention(layer, rng):
    """Random matrices, no softmax; None where the layer takes none."""
    return jnp.asarray(rng.normal(size=(EXAMPLES, layer.heads, TOKENS, TOKENS))) if layer.heads else None


def check_forward(layer, rng):
    """The network layer by layer and path by path, alone and between layers of two heads."""
    inputs = jnp.asarray(rng.normal(size=(EXAMPLES, TOKENS, FEATURES)))
    for chain in ((layer,), (sma.Heads(2), layer, sma.Heads(2))):
        matrices = [attention(one, rng) for one in chain if one.heads]
        given = (lambda _, matrices=matrices: matrices) if matrices else ()
        key = jax.random.key(int(rng.integers(2**31)))
        weights = sma.sample_weights(key=key, layers=chain, width=WIDTH, features=FEATURES)
        by_paths = sma.model.forward_paths(weights, sma.attentioned_inputs(inputs, given, layers=chain))
        assert_close(sma.forward(weights, inputs, given, layers=chain), by_paths)


def check_kept(layer, left, rng):
    small, branches, matrices = layer.keep(left)
    check_numbers(small)
    assert (len(branches), len(matrices)) == (small.branches, small.value_matrices)
    place = {head: number for number, head in enumerate(left)}
    assert tuple(place.get(layer.branch_heads[branch], -1) for branch in branches) == tuple(small.branch_heads)
    seeds = [*range(layer.keeps), *(layer.keeps + matrix for matrix in matrices)]
    assert_close(small.mixing(1.0), np.asarray(layer.mixing(1.0))[np.ix_(branches, seeds)])
    columns, matrix = jnp.asarray(rng.normal(size=(EXAMPLES, 2, TOKENS))), attention(layer, rng)
    some = matrix[:, jnp.asarray(left)] if left else None
    assert_close(small.attended(columns, some), layer.attended(columns, matrix)[:, jnp.asarray(branches, int)])
    check_forward(small, rng)
