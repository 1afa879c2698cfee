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
    found = sma.attention_from_products(products, mask)(inputs)
    assert_all_close(found, reference.attention_from_products(inputs, products, mask))


@pytest.mark.parametrize("mask", [None, MASK])
def test_queries_and_keys_give_the_softmax_over_keys(inputs, queries_and_keys, mask):
    found = sma.attention_from_queries_and_keys(*queries_and_keys, mask)(inputs)
    assert_all_close(found, reference.attention_from_queries_and_keys(inputs, *queries_and_keys, mask))


def test_products_of_queries_and_keys_give_the_same_attention(inputs, queries_and_keys):
    products = [
        np.einsum("hgi,hgj->hij", key, query) / np.sqrt(query.shape[1])
        for query, key in zip(*queries_and_keys, strict=True)
    ]
    assert_all_close(
        sma.attention_from_products(products)(inputs),
        sma.attention_from_queries_and_keys(*queries_and_keys)(inputs),
    )


def test_columns_sum_to_one_and_masked_keys_get_nothing(inputs, products):
    for matrix in sma.attention_from_products(products, MASK)(inputs):
        np.testing.assert_allclose(matrix.sum(axis=2), 1.0, rtol=1e-14)
        assert np.all(np.asarray(matrix)[:, :, ~MASK] == 0)
        assert np.all(np.asarray(matrix)[:, :, MASK] > 0)


def test_huge_logits_do_not_overflow(inputs, products):
    for matrix in sma.attention_from_products([1e6 * product for product in products])(inputs):
        np.testing.assert_allclose(matrix.sum(axis=2), 1.0, rtol=1e-14)


def test_attention_can_be_jitted_and_passed_through_jit(inputs, products):
    attention = sma.attention_from_products(products, MASK)
    found = jax.jit(lambda attention, x: attention(x))(attention, inputs)
    assert_all_close(found, attention(inputs))


def test_matrices_from_elsewhere_are_taken_as_they_are(inputs):
    rng = np.random.default_rng(4)
    matrices = [rng.normal(size=(2, heads, TOKENS, TOKENS)) for heads in HEADS]
    assert_all_close(sma.attention_matrices(inputs, matrices), matrices)


def test_attention_matrices_calls_what_can_be_called(inputs, products):
    attention = sma.attention_from_products(products)
    assert_all_close(sma.attention_matrices(inputs, attention), attention(inputs))


def test_single_precision_stays_single(inputs, products):
    attention = sma.attention_from_products([product.astype("float32") for product in products])
    assert all(matrix.dtype == np.float32 for matrix in attention(inputs.astype("float32")))
