"""Intervals against scipy, formulas, and the distribution they claim."""

import numpy as np
import pytest
from scipy import stats

from attention_book.stats import Interval

VALUES = np.array([0.11, 0.13, 0.12, 0.15, 0.10])


def test_mean_has_student_interval():
    found = Interval.of(VALUES)
    low, high = stats.ttest_1samp(VALUES, 0).confidence_interval(0.95)
    assert [found.value, found.error, found.low, found.high] == pytest.approx(
        [VALUES.mean(), stats.sem(VALUES), low, high]
    )


def test_paired_interval_is_that_of_differences():
    low, high = stats.ttest_rel(VALUES, VALUES**2).confidence_interval(0.95)
    found = Interval.paired(VALUES, VALUES**2)
    assert [found.low, found.high] == pytest.approx([low, high])


def test_difference_of_means_covers_its_true_value_in_95_percent():
    """Six units with three times the spread of twenty others."""
    rng = np.random.default_rng(0)
    found = [Interval.between(rng.normal(1, 3, 6), rng.normal(0, 1, 20)) for _ in range(2000)]
    covered = np.mean([one.low < 1 < one.high for one in found])
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)
    some, others = rng.normal(size=6), rng.normal(size=20)
    error = np.sqrt(some.var(ddof=1) / 6 + others.var(ddof=1) / 20)
    assert Interval.between(some, others).error == pytest.approx(error)


def means_over_splits(rng, draws, count=5, sentences=100, tests=40):
    """Means of numbers of zero mean over several test sets of one corpus, for many corpora."""
    numbers = rng.normal(size=(draws, 1, sentences))
    order = rng.random((draws, count, sentences)).argsort(axis=2)[..., :tests]
    return np.take_along_axis(np.broadcast_to(numbers, (draws, count, sentences)), order, axis=2).mean(axis=2)


def test_mean_over_splits_that_share_sentences_covers_its_true_value_in_95_percent():
    """Two test sets of 40 out of 100 sentences have 40 % in common; without the factor three of four would cover."""
    means = means_over_splits(np.random.default_rng(2), 4000)
    shares = []
    for shared in (0.4, 0.0):
        found = Interval.of(means, axis=1, shared=shared)
        shares.append(np.mean((found.low < 0) & (found.high > 0)))
    assert abs(shares[0] - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 4000)
    assert shares[1] < 0.8
    squares = Interval.of(means, axis=1, shared=0.4).error ** 2
    assert squares.mean() == pytest.approx(means.mean(axis=1).var(), rel=0.1)


def test_mean_over_groups_covers_its_true_value_in_95_percent():
    """Four corpora, two of which have a third of the spread and test sets that share less."""
    rng = np.random.default_rng(3)
    groups = [means_over_splits(rng, 1500, tests=tests) * tests / 10 for tests in (40, 10, 40, 10)]
    found = [Interval.grouped(each, (0.4, 0.1, 0.4, 0.1)) for each in zip(*groups, strict=True)]
    covered = np.mean([one.low < 0 < one.high for one in found])
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 1500)
    assert np.mean([one.error**2 for one in found]) == pytest.approx(np.var([one.value for one in found]), rel=0.15)


def test_mean_over_one_group_is_that_over_its_units():
    grouped, plain = Interval.grouped([VALUES], [0.2]), Interval.of(VALUES, shared=0.2)
    assert [grouped.value, grouped.low, grouped.high] == pytest.approx([plain.value, plain.low, plain.high])


def test_interval_of_arrays_has_an_entry_for_each_column():
    columns = np.stack([VALUES, 2 * VALUES, -VALUES], axis=1)
    found = Interval.of(columns, axis=0)
    assert [found[1].low, found[1].high] == pytest.approx([2 * Interval.of(VALUES).low, 2 * Interval.of(VALUES).high])
    assert found.above(0).tolist() == [True, True, False]
    assert found.below(0).tolist() == [False, False, True]


def test_single_unit_has_no_error():
    found = Interval.of([0.5])
    assert str(found) == "0.50" and not found.above(0)


def test_share_of_all_events_is_wilson():
    found = Interval.share(10, 10)
    assert (found.low, found.high) == pytest.approx((10 / (10 + 1.959964**2), 1), rel=1e-6)


def test_rank_correlation_is_spearman_with_a_permutation_p():
    random = np.random.default_rng(0)
    one = random.normal(size=12)
    other = one + random.normal(size=12)
    found, expected = Interval.ranks(one, other), stats.spearmanr(one, other)
    assert found.value == pytest.approx(expected.statistic)
    assert found.p == pytest.approx(expected.pvalue, abs=0.02)
    assert found.low < found.value < found.high


@pytest.mark.parametrize("pearson, draws", [(0.0, 400), (0.95, 1000)])
def test_rank_correlation_covers_its_true_value_in_95_percent(pearson, draws):
    """Of normal pairs the true one is known; without its own part of the width the strong one is covered in 90 %."""
    random, true, covered = np.random.default_rng(1), 6 / np.pi * np.arcsin(pearson / 2), 0
    for _ in range(draws):
        one = random.normal(size=40)
        other = pearson * one + np.sqrt(1 - pearson**2) * random.normal(size=40)
        found = Interval.ranks(one, other, resamples=10)
        covered += found.low < true < found.high
    assert 0.92 < covered / draws < 0.98


@pytest.mark.parametrize(
    "kind, text",
    [
        ("", "0.122 ± 0.009"),
        ("+", "+0.122 ± 0.009"),
        (".1f", "0.1 ± 0.0"),
        ("%", "12.2 ± 0.9 %"),
    ],
)
def test_interval_is_written_to_the_digits_of_its_error(kind, text):
    assert format(Interval.of(VALUES), kind) == text.replace(" ", "\xa0")
    assert Interval.of(-VALUES).bracket == "[−0.146, −0.098]"


@pytest.mark.parametrize("error, text", [(0.019, "0.500 ± 0.019"), (0.0197, "0.50 ± 0.02"), (0.4, "0.5 ± 0.4")])
def test_an_error_that_starts_with_1_has_two_digits(error, text):
    assert str(Interval(0.5, error, 0.5 - 2 * error, 0.5 + 2 * error)) == text.replace(" ", "\xa0")


def test_mean_of_what_is_not_there_is_not_defined():
    assert [f"{one}, {one.bracket}" for one in (Interval.of([np.nan, 1.0]), Interval.of([1.0]))] == [
        "not defined, not defined",
        "1.00, not defined",
    ]
