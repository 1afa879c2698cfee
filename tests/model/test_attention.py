"""Attention matrices against loops over heads, keys and queries: equation (3)."""

import jax
import numpy as np
import pytest
import reference

import statmech_attention as sma

TOKENS, FEATURES, HEADS = 4, 3, (2, 3)


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(1).normal(size=(2, TOKENS, FEATURES))


@pytest.fixture(scope="module")
def products():
    rng = np.random.default_rng(2)
    return [rng.normal(size=(heads, FEATURES, FEATURES)) for heads in HEADS]


@pytest.fixture(scope="module")
def queries_and_keys():
    rng = np.random.default_rng(3)
    dimensions = (2, 5)
    return tuple(
        [rng.normal(size=(heads, size, FEATURES)) for heads, size in zip(HEADS, dimensions, strict=True)]
        for _ in range(2)
    )


# Query 0 may look at key 0 alone; nobody but query 3 may look at key 3.
MASK = np.triu(np.ones((TOKENS, TOKENS), bool))


def assert_all_close(found, wanted):
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("mask", [None, MASK])
def test_products_give_the_softmax_over_keys(inputs, products, mask):
    found = sma.attention_from_products(products, mask=mask)(inputs)
    assert_all_close(found, reference.attention_from_products(inputs, products, mask))


@pytest.mark.parametrize("mask", [None, MASK])
def test_queries_and_keys_give_the_softmax_over_keys(inputs, queries_and_keys, mask):
    found = sma.attention_from_queries_and_keys(*queries_and_keys, mask=mask)(inputs)
    assert_all_close(found, reference.attention_from_queries_and_keys(inputs, *queries_and_keys, mask))


def test_huge_logits_do_not_overflow(inputs, products):
    for matrix in sma.attention_from_products([1e6 * product for product in products])(inputs):
        np.testing.assert_allclose(matrix.sum(axis=2), 1.0, rtol=1e-14)


def test_attention_can_be_jitted_and_passed_through_jit(inputs, products):
    attention = sma.attention_from_products(products, mask=MASK)
    found = jax.jit(lambda attention, x: attention(x))(attention, inputs)
    assert_all_close(found, attention(inputs))


TABLES = [np.random.default_rng(4).normal(size=(heads, 3)) for heads in HEADS]


def test_a_bias_is_added_to_the_logits(inputs, products, queries_and_keys):
    bias = [sma.model.relative_bias(table, TOKENS) for table in TABLES]
    # exp(logit + bias) is proportional to exp(logit) exp(bias): no softmax of our own is needed.
    for attend in (sma.attention_from_products, sma.attention_from_queries_and_keys):
        given = (products,) if attend is sma.attention_from_products else queries_and_keys
        for plain, biased, one in zip(attend(*given)(inputs), attend(*given, bias=bias)(inputs), bias, strict=True):
            wanted = plain * np.exp(one)[None]
            np.testing.assert_allclose(biased, wanted / wanted.sum(axis=2, keepdims=True), rtol=1e-12)
    masked = sma.attention_from_products(products, mask=MASK, bias=bias)(inputs)
    assert all(np.all(np.asarray(matrix)[:, :, ~MASK] == 0) for matrix in masked)


def test_a_relative_bias_depends_on_the_clipped_distance_alone():
    for table in TABLES:
        found = np.asarray(sma.model.relative_bias(table, TOKENS))
        for head, key, query in np.ndindex(found.shape):
            assert found[head, key, query] == table[head, min(max(key - query, -1), 1) + 1]


def test_matrices_whose_sums_are_others_come_from_a_function():
    rng = np.random.default_rng(5)
    inputs, matrix = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 2, 4, 4))
    with pytest.raises(ValueError, match="attention of layer 1: wanted sums of one over the keys .* pass a function"):
        sma.attentioned_inputs(inputs, (matrix,))
    wanted = np.einsum("esd,ehs->ehd", inputs, matrix[..., -1])
    np.testing.assert_allclose(sma.attentioned_inputs(inputs, lambda _: (matrix,)).values, wanted, rtol=1e-12)
    sma.attentioned_inputs(inputs, (np.full((3, 2, 4, 4), 0.25),))  # whose rows also sum to one
