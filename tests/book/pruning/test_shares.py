"""Shares of a kernel against sums by explicit loops, and against head scores before normalisation."""

import itertools

import numpy as np
import pytest

import statmech_attention as sma
from attention_book.pruning.shares import head_shares, kernel_shares, layer_shares, path_weights

HEADS = (sma.SkipHeads(2), 3)
# Branch 0 of the first layer is the skip; a head there has the factor 1 / sqrt(2), one above 1 / sqrt(3).
PATHS = list(itertools.product(range(3), range(3)))
COEFFICIENTS = np.array([(1 if first == 0 else 0.5**0.5) / 3**0.5 for first, _ in PATHS])


@pytest.fixture
def overlap():
    return np.cov(np.random.default_rng(0).normal(size=(9, 20)))


def test_weights_are_coefficients_times_entries(overlap):
    np.testing.assert_allclose(
        path_weights(overlap, layers=HEADS), np.outer(COEFFICIENTS, COEFFICIENTS) * overlap, rtol=1e-12
    )
    with pytest.raises(ValueError, match="order_parameter: wanted shape"):
        path_weights(np.eye(4), layers=HEADS)


def test_the_share_of_a_layer_is_that_of_pairs_with_a_head_of_it(overlap):
    size = np.abs(np.outer(COEFFICIENTS, COEFFICIENTS) * overlap)
    with_head = sum(
        size[i, j] for (i, one), (j, other) in itertools.product(enumerate(PATHS), repeat=2) if one[0] or other[0]
    )
    np.testing.assert_allclose(layer_shares(overlap, layers=HEADS), [with_head / size.sum(), 1], rtol=1e-12)
    np.testing.assert_allclose(
        layer_shares(sma.theory.gp_order_parameters((sma.SkipHeads(2),) * 2)[0], layers=(sma.SkipHeads(2),) * 2), 0.5
    )


def test_the_share_of_a_head_is_its_score_before_that_is_normalised(overlap):
    found = head_shares(overlap, layers=HEADS)
    np.testing.assert_allclose(
        found / found.max(), sma.head_scores(overlap, layers=HEADS, definition="either"), rtol=1e-10
    )
    size = np.abs(np.outer(COEFFICIENTS, COEFFICIENTS) * overlap)
    gone = sum(
        size[i, j] for (i, one), (j, other) in itertools.product(enumerate(PATHS), repeat=2) if 1 in (one[0], other[0])
    )
    assert found[0] == pytest.approx(gone / size.sum())


def test_a_kernel_divides_into_skips_heads_and_the_rest(overlap):
    covariance, both = np.cov(np.random.default_rng(1).normal(size=(9, 30))), (sma.SkipHeads(2), sma.SkipHeads(2))
    found = kernel_shares(overlap, covariance, layers=both)
    total = (overlap * covariance).sum()
    through = [i for i, one in enumerate(PATHS) if all(one)]
    assert found[0] == pytest.approx(overlap[0, 0] * covariance[0, 0] / total)
    assert found[1] == pytest.approx(sum(overlap[i, j] * covariance[i, j] for i in through for j in through) / total)
    assert found.sum() == pytest.approx(1)
