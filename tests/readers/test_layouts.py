"""Attention with queries before keys, as PyTorch and Hugging Face give it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

import statmech_attention as sma
from attention_book.one_shot import head_confidence

EXAMPLES, TOKENS, FEATURES, HEADS = 3, 4, 5, (2, 3)
RNG = np.random.default_rng(0)
INPUTS = RNG.normal(size=(EXAMPLES, TOKENS, FEATURES))
OURS = reference.random_attention(RNG, HEADS, EXAMPLES, TOKENS)
THEIRS = [np.swapaxes(matrix, 2, 3) for matrix in OURS]
WEIGHTS = sma.sample_weights(key=jax.random.key(0), layers=HEADS, width=4, features=FEATURES)

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


@pytest.mark.parametrize("take", TAKE)
def test_queries_before_keys_give_the_same_with_their_layout(take):
    function, name = TAKE[take]
    jax.tree.map(np.testing.assert_array_equal, function(THEIRS, layout="query_key"), function(OURS))
    with pytest.raises(ValueError, match=rf"{name} of layer 1: .* got queries before keys.* Pass layout='query_key'"):
        function(THEIRS)
    with pytest.raises(ValueError, match=rf"{name} of layer 1: .* got keys before queries.* Leave out layout"):
        function(OURS, layout="query_key")
    with pytest.raises(ValueError, match="layout: wanted one of key_query, query_key, got 'torch'"):
        function(OURS, layout="torch")


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("converted", [False, True])
def test_rounding_in_any_precision_hides_no_order(precision, converted):
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
