"""Pattern ensembles and the positional code."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statmech_attention import dmft
from statmech_attention.dmft.patterns import MATRICES, distinct_columns

from .reference import code


def test_published_patterns_have_the_published_eigenvalues(published):
    values = np.linalg.eigvals(np.asarray(dmft.pair_correlations(published.value, published.output)))
    wanted = [-0.7423, 0.5378 - 0.7135j, 0.5378 + 0.7135j]
    np.testing.assert_allclose(np.sort_complex(values), wanted, atol=5e-5)


def _legacy(seed, features, sites, bits):
    """The first draws of the authors' code: a discarded matrix, then o, v, q, k."""
    np.random.seed(seed)
    np.random.randint(2, size=(features, sites))
    return {name: np.random.randint(2, size=(features, sites)) * 2 - 1 for name in ("output", "value", "query", "key")}


def test_segments_repeat_the_published_draws():
    """Straight from the description of the order: one number at a time, with NumPy's global generator."""
    tables = _legacy(7, 2, 99, 3)
    found = dmft.published_patterns(seed=7, features=2, segments=5, window=8, sites=10)
    for name in ("output", "value", "query", "key"):
        np.testing.assert_array_equal(getattr(found, name).positions, tables[name][:, -3:])
        blocks = [[np.random.randint(2, size=1)[0] * 2 - 1 for _ in range(5)] for _ in range(2)]
        np.testing.assert_array_equal(getattr(found, name).words, np.repeat(blocks, 2, axis=1))


def test_independent_repeats_the_published_draws():
    tables = _legacy(3, 4, 17, 2)
    found = dmft.published_patterns(segments=None, seed=3, features=4, window=4, sites=17)
    for name in ("output", "value", "query", "key"):
        np.testing.assert_array_equal(getattr(found, name).words, tables[name])
    for name in ("output", "value", "query", "key"):
        np.testing.assert_array_equal(getattr(found, name).positions, np.random.randint(2, size=(4, 2)) * 2 - 1)


@given(bits=st.integers(1, 7))
def test_positional_code_is_binary(bits):
    found = dmft.positional_code(2**bits)
    np.testing.assert_array_equal(found, [code(slot, bits) for slot in range(2**bits)])


TABLES = (np.ones((2, 5)), np.ones((2, 1)))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"key": (np.zeros((2, 5)), np.ones((2, 1)))}, r"key, words: wanted \+1 or -1 everywhere, got 0"),
        ({"value": (np.ones((2, 5)), np.full((2, 1), 2.0))}, r"value, positions: wanted \+1 or -1 everywhere, got 2"),
        ({"key": (np.ones((2, 4)), np.ones((2, 1)))}, r"key, words: wanted shape \(2, 5\) as in query, got \(2, 4\)"),
        ({"output": (np.ones((2, 5)), np.ones((2, 2)))}, r"output, positions: wanted shape \(2, 1\) as in query"),
        (
            {"value": (np.ones(5), np.ones((2, 1)))},
            r"value, words: .* shape \(features, sites\), got .* \(5,\)",
        ),
    ],
)
def test_bad_tables_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dmft.patterns_from_arrays(**{**dict.fromkeys(MATRICES, TABLES), **change})


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: dmft.published_patterns(seed=1, window=6), "window: wanted a power of two of at least 2, got 6"),
        (lambda: dmft.published_patterns(seed=1, sites=100), "sites: wanted a multiple of the 3 segments, got 100"),
        (lambda: dmft.published_patterns(seed=-1), "seed: wanted a whole number of at least 0"),
    ],
)
def test_bad_numbers_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("rows", [2, 9, 70])
def test_distinct_columns_are_found(rows):
    """Compare all columns with all, for tables that fit into 64 bits and for one that does not."""
    rng = np.random.default_rng(rows)
    table = rng.choice([-1.0, 1.0], size=(rows, 6))[:, rng.integers(6, size=40)]
    first, place = distinct_columns(table)
    same = (table[:, :, None] == table[:, None]).all(axis=0)
    np.testing.assert_array_equal(place[:, None] == place[None], same)
    np.testing.assert_array_equal(table[:, first[place]], table)
    assert [np.argmax(same[column]) for column in first] == list(first)
