"""The permutation test of how a score orders heads, against SciPy and against all orders of few heads."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from attention_book import pruning


def within_by_hand(scores, drops, sizes):
    """Spearman's coefficients of the layers, weighted with their heads less one."""
    ends = np.cumsum((0, *sizes))
    parts = [(first, last) for first, last in itertools.pairwise(ends) if last - first > 1]
    each = [scipy.stats.spearmanr(scores[first:last], drops[first:last]).statistic for first, last in parts]
    return np.average(each, weights=[last - first - 1 for first, last in parts])


def test_over_all_heads_it_is_scipys():
    random = np.random.default_rng(1)
    scores, drops = random.normal(size=8), random.normal(size=8)
    found = pruning.ordering([scores], [drops], layers=[(4, 4)])
    wanted = scipy.stats.spearmanr(scores, drops)
    assert found.value == pytest.approx(wanted.statistic)
    test = scipy.stats.permutation_test(
        (scores,),
        lambda order: scipy.stats.spearmanr(order, drops).statistic,
        permutation_type="pairings",
        alternative="greater",
        n_resamples=4000,
        rng=np.random.default_rng(0),
    )
    # Five standard errors of two such shares.
    error = 5 * math.sqrt(test.pvalue * (1 - test.pvalue) * (1 / 4000 + 1 / 20_000))
    assert abs(found.p - test.pvalue) < error + 1e-3


def test_within_layers_it_is_that_of_all_orders():
    random = np.random.default_rng(2)
    sizes = [(3, 3), (2, 1, 3)]
    scores = [random.normal(size=sum(one)) for one in sizes]
    drops = [score + random.normal(size=len(score)) for score in scores]
    found = pruning.ordering(scores, drops, layers=sizes, within=True)
    each = [within_by_hand(*one) for one in zip(scores, drops, sizes, strict=True)]
    np.testing.assert_allclose(found.each, each)
    assert found.value == pytest.approx(np.mean(each))
    every = []
    for score, drop, one in zip(scores, drops, sizes, strict=True):
        ends = np.cumsum((0, *one))
        orders = itertools.product(
            *(itertools.permutations(drop[first:last]) for first, last in itertools.pairwise(ends))
        )
        every.append([within_by_hand(score, np.concatenate(order), one) for order in orders])
    means = np.add.outer(*every).ravel() / 2
    share = np.mean(means >= found.value - 1e-9)
    assert abs(found.p - share) < 5 * math.sqrt(share * (1 - share) / 20_000) + 1e-4
    low, high = found.chance
    assert np.mean(means < low - 1e-9) <= 0.03 and np.mean(means > high + 1e-9) <= 0.03


@given(st.lists(st.floats(-3, 3), min_size=6, max_size=6, unique=True))
def test_a_part_that_is_the_same_for_a_layer_does_not_matter_within_layers(values):
    scores, drops = np.array(values), np.arange(6.0)
    shifted = np.round(scores, 6) + np.repeat([0.0, 100.0], 3)
    first = pruning.ordering([np.round(scores, 6)], [drops], layers=[(3, 3)], within=True, resamples=10)
    second = pruning.ordering([shifted], [drops], layers=[(3, 3)], within=True, resamples=10)
    np.testing.assert_allclose(first.each, second.each)


def test_twins_count_once():
    random = np.random.default_rng(3)
    scores, drops = random.normal(size=(2, 8)), random.normal(size=(2, 8))
    alone = pruning.ordering(scores, drops, layers=[(4, 4)] * 2)
    copies = pruning.ordering(
        np.repeat(scores, [3, 1], axis=0), np.repeat(drops, [3, 1], axis=0), layers=[(4, 4)] * 4, units="aaab"
    )
    np.testing.assert_allclose([copies.value, copies.p, *copies.each], [alone.value, alone.p, *alone.each])
    # Permuted alike, two twins have the coefficients of sums of ranks.
    twins = pruning.ordering(scores, drops, layers=[(4, 4)] * 2, units=[0, 0])
    ranks, wanted = scipy.stats.rankdata(scores, axis=1) - 4.5, scipy.stats.rankdata(drops, axis=1) - 4.5
    orders = random.permuted(np.tile(np.arange(8), (20_000, 1)), axis=1)
    means = np.mean([wanted[place][orders] @ ranks[place] / 42 for place in range(2)], axis=0)
    share = np.mean(means >= twins.value - 1e-9)
    assert twins.each.shape == (1,) and abs(twins.p - share) < 5 * math.sqrt(2 * share * (1 - share) / 20_000) + 1e-4


def test_equal_scores_have_no_coefficient():
    found = pruning.ordering([[1.0, 1.0], [1.0, 2.0]], [[0.1, 0.2], [0.3, 0.5]], layers=[(2,), (2,)])
    assert math.isnan(found.each[0]) and found.value == pytest.approx(1.0)
    none = pruning.ordering([[1.0, 1.0]], [[0.1, 0.2]], layers=[(1, 1)], within=True)
    assert math.isnan(none.value) and math.isnan(none.p)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0, 2.0]], [[1.0, 2.0]], []), "zip"),
        (([[1.0, 2.0]], [[1.0]], [(2,)]), "wanted a score and a drop for each of 2 heads"),
        (([[1.0, np.nan]], [[1.0, 2.0]], [(2,)]), "scores"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        pruning.ordering(*arguments[:2], layers=arguments[2])


def test_rank_correlation_is_spearmans_with_scipys_interval():
    rng = np.random.default_rng(1)
    scores = rng.normal(size=60)
    drops = np.round(scores + rng.normal(size=60), 1)
    found = pruning.rank_correlation(scores, drops, resamples=4000)
    assert found.value == pytest.approx(scipy.stats.spearmanr(scores, drops).statistic, abs=1e-12)

    def statistic(one, other, axis=-1):
        ranks = scipy.stats.rankdata(one, axis=axis), scipy.stats.rankdata(other, axis=axis)
        return np.array([np.corrcoef(*pair)[0, 1] for pair in zip(*map(np.atleast_2d, ranks), strict=True)]).squeeze()

    wanted = scipy.stats.bootstrap(
        (scores, drops), statistic, paired=True, vectorized=True, method="percentile", n_resamples=4000, rng=rng
    )
    # The ends are quantiles of 4000 draws: four standard errors of each, with the density of a normal distribution.
    tolerance = 4 * np.sqrt(2) * wanted.standard_error * np.sqrt(0.025 * 0.975 / 4000) / scipy.stats.norm.pdf(1.96)
    np.testing.assert_allclose(
        [found.low, found.high], [wanted.confidence_interval.low, wanted.confidence_interval.high], atol=tolerance
    )


def test_rank_correlation_of_several_networks_is_the_mean():
    rng = np.random.default_rng(2)
    scores, drops = rng.normal(size=(2, 3, 8))
    found = pruning.rank_correlation(scores, drops)
    each = [scipy.stats.spearmanr(*pair).statistic for pair in zip(scores, drops, strict=True)]
    assert found.value == pytest.approx(np.mean(each), abs=1e-12)
    assert -1 <= found.low <= found.high <= 1
    assert pruning.rank_correlation(scores, scores**3) == (pytest.approx(1), pytest.approx(1), pytest.approx(1))
    assert np.isnan(pruning.rank_correlation([1.0, 1.0], [0.1, 0.2]).value)
