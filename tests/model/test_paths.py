"""Attentioned inputs and the order of paths: equation (7)."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
import reference

import statmech_attention as sma

EXAMPLES, TOKENS, FEATURES = 2, 3, 4


@pytest.mark.parametrize("heads", [(1,), (3,), (2, 2), (3, 2), (3, 1, 2), (2, 1, 2, 2)])
@pytest.mark.parametrize("readout", ["last", "first", "mean", 1])
def test_attentioned_inputs_agree_with_products_along_each_path(heads, readout):
    rng = np.random.default_rng(20)
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    # Columns that do not sum to one: any matrices will do.
    matrices = [rng.normal(size=(EXAMPLES, count, TOKENS, TOKENS)) for count in heads]
    xi = sma.attentioned_inputs(inputs, matrices, readout=readout)
    assert xi.heads == heads
    np.testing.assert_allclose(
        xi.values, reference.attentioned_inputs(inputs, matrices, readout), rtol=1e-11, atol=1e-12
    )


def test_default_readout_is_the_last_token():
    rng = np.random.default_rng(21)
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    matrices = reference.random_attention(rng, (2, 2), EXAMPLES, TOKENS)
    found = sma.attentioned_inputs(inputs, matrices)
    np.testing.assert_array_equal(found.values, sma.attentioned_inputs(inputs, matrices, readout="last").values)


def test_attention_functions_and_their_matrices_give_the_same_paths():
    rng = np.random.default_rng(22)
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    attention = sma.attention_from_products([rng.normal(size=(2, FEATURES, FEATURES)) for _ in range(2)])
    np.testing.assert_array_equal(
        sma.attentioned_inputs(inputs, attention).values, sma.attentioned_inputs(inputs, attention(inputs)).values
    )


@pytest.mark.parametrize("heads", [(1,), (4,), (2, 3), (3, 1, 2)])
def test_path_indices_run_with_the_first_layer_slowest(heads):
    found = sma.path_indices(heads)
    assert found.tolist() == [list(path) for path in itertools.product(*map(range, heads))]


def test_keeping_heads_equals_attention_without_the_others():
    rng = np.random.default_rng(23)
    inputs = rng.normal(size=(EXAMPLES, TOKENS, FEATURES))
    matrices = reference.random_attention(rng, (3, 2, 2), EXAMPLES, TOKENS)
    kept = ((2, 0), (1,), (0, 1))
    found = sma.attentioned_inputs(inputs, matrices).keep_heads(kept)
    fewer = [matrix[:, list(chosen)] for matrix, chosen in zip(matrices, kept, strict=True)]
    assert found.heads == (2, 1, 2)
    np.testing.assert_allclose(found.values, reference.attentioned_inputs(inputs, fewer, "last"), rtol=1e-11)


def test_keeping_all_heads_changes_nothing():
    xi = sma.AttentionedInputs(jnp.asarray(np.random.default_rng(24).normal(size=(2, 6, 3))), (3, 2))
    kept = xi.keep_heads((range(3), range(2)))
    assert kept.heads == (3, 2)
    np.testing.assert_array_equal(kept.values, xi.values)
