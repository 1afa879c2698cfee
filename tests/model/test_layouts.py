"""Attention with queries before keys, as PyTorch and Hugging Face give it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import statmech_attention as sma
from attention_book.pruning import head_confidence

EXAMPLES, TOKENS, FEATURES, HEADS = 3, 4, 5, (2, 3)
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(EXAMPLES, TOKENS, FEATURES))
OURS = reference.random_attention(RNG, HEADS, EXAMPLES, TOKENS)
THEIRS = [np.swapaxes(matrix, 2, 3) for matrix in OURS]
WEIGHTS = sma.sample_weights(jax.random.key(0), layers=HEADS, width=4, features=FEATURES)

# What takes attention matrices, with an error's name for them.
TAKE = {
    "attention_matrices": (lambda one, **how: sma.model.attention_matrices(INPUTS, one, **how), "attention"),
    "attentioned_inputs": (lambda one, **how: sma.attentioned_inputs(INPUTS, one, **how).values, "attention"),
    "normalisation_scales": (
        lambda one, **how: sma.model.normalisation_scales(WEIGHTS, INPUTS, one, **how),
        "attention",
    ),
    "head_confidence": (lambda one, **how: head_confidence(one, **how), "attention"),
}


def padded(matrices, lengths):
    """Softmax matrices of sequences of these lengths: zeros where key or query is padding."""
    token = np.arange(TOKENS)[None] < np.array(lengths)[:, None]
    kept = [np.where(token[:, None, :, None] & token[:, None, None, :], one, 0) for one in matrices]
    return [one / np.maximum(one.sum(axis=2, keepdims=True), 1e-300) for one in kept], token


@pytest.mark.parametrize("take", TAKE)
def test_queries_before_keys_give_the_same_where_it_is_said(take):
    function, name = TAKE[take]
    jax.tree.map(np.testing.assert_array_equal, function(THEIRS, layout="query_key"), function(OURS))
    with pytest.raises(ValueError, match=rf"{name} of layer 1: .* got queries before keys.* Pass layout='query_key'"):
        function(THEIRS)
    with pytest.raises(ValueError, match=rf"{name} of layer 1: .* got keys before queries.* Leave out layout"):
        function(OURS, layout="query_key")
    with pytest.raises(ValueError, match="layout: wanted one of key_query, query_key, got 'torch'"):
        function(OURS, layout="torch")


def test_a_function_without_a_layout_says_to_swap_the_axes():
    with pytest.raises(ValueError, match="attention of layer 1: .* got queries before keys.* swap the last two axes"):
        sma.forward(WEIGHTS, INPUTS, THEIRS)


@pytest.mark.parametrize("take", TAKE)
def test_lines_of_padding_hide_no_order(take):
    function, name = TAKE[take]
    ours, token = padded(OURS, (4, 2, 3))
    theirs = [np.swapaxes(matrix, 2, 3) for matrix in ours]
    with pytest.raises(ValueError, match=rf"{name} of layer 1: .* got queries before keys.* Pass layout='query_key'"):
        function(theirs)
    jax.tree.map(
        np.testing.assert_array_equal, function(theirs, layout="query_key", mask=token), function(ours, mask=token)
    )


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("converted", [False, True])
def test_nor_does_the_rounding_of_any_precision(precision, converted):
    logits = 3 * np.random.default_rng(1).normal(size=(20, 2, 60, 60))
    softmax = jax.nn.softmax(jnp.asarray(logits, precision), axis=3)  # rounded at every step
    inputs = RNG.normal(size=(20, 60, 2))
    given = softmax.astype("float32") if converted else softmax
    with pytest.raises(ValueError, match="got queries before keys"):
        sma.attentioned_inputs(inputs, [given])
    turned = jnp.swapaxes(given, 2, 3)
    sma.attentioned_inputs(inputs, [turned])


def test_what_a_function_returns_is_turned_and_attention_of_this_package_is_not():
    products = [RNG.normal(size=(count, FEATURES, FEATURES)) for count in HEADS]
    attention = sma.attention_from_products(products)
    wanted = attention(INPUTS)
    theirs = tuple(np.swapaxes(matrix, 2, 3) for matrix in wanted)
    for given in (attention, lambda _: theirs):
        for found, one in zip(sma.model.attention_matrices(INPUTS, given, layout="query_key"), wanted, strict=True):
            np.testing.assert_array_equal(found, one)
