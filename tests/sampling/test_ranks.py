"""Rank-normalised R-hat, bulk and tail size: formulas written out, what they see that values do not, and ArviZ."""

import importlib

import numpy as np
import pytest
from scipy.stats import norm, rankdata

from statmech_attention.sampling import bulk_size, effective_size, r_hat, rank_r_hat, tail_size

MEASURES = (rank_r_hat, bulk_size, tail_size)


def autoregressive(rng, chains, draws, correlation, *rest):
    """Chains of standard normal marginals whose draws have a correlation with the next."""
    values = rng.normal(size=(chains, draws, *rest))
    for step in range(1, draws):
        values[:, step] = correlation * values[:, step - 1] + np.sqrt(1 - correlation**2) * values[:, step]
    return values


def spread_of_halves(values):
    """Equations (1) to (4) of the source on half chains."""
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    within = np.mean(np.var(halves, axis=1, ddof=1))
    between = half * np.var(halves.mean(axis=1), ddof=1)
    return np.sqrt(((half - 1) / half * within + between / half) / within)


def scores(values):
    return norm.ppf((rankdata(values) - 3 / 8) / (values.size + 1 / 4)).reshape(values.shape)


def test_r_hat_is_that_of_normal_scores_of_values_and_of_distances_from_the_median():
    values = np.random.default_rng(0).standard_cauchy(size=(3, 40, 2)) + np.arange(3)[:, None, None]
    for entry, found in enumerate(rank_r_hat(values)):
        one = values[..., entry]
        wanted = max(spread_of_halves(scores(one)), spread_of_halves(scores(np.abs(one - np.median(one)))))
        assert found == pytest.approx(wanted, rel=1e-12)


def test_ranks_do_not_change_under_monotone_maps():
    values = autoregressive(np.random.default_rng(1), 4, 100, 0.5, 2)
    for measure in (bulk_size, tail_size):
        np.testing.assert_allclose(measure(np.exp(3 * values)), measure(values), rtol=1e-10)
    assert np.all(np.abs(effective_size(np.exp(3 * values)) / effective_size(values) - 1) > 0.01)


def test_chains_of_different_width_are_seen():
    values = np.random.default_rng(2).normal(size=(4, 400)) * np.array([1.0, 1.0, 1.0, 3.0])[:, None]
    assert r_hat(values) < 1.01 < 1.1 < rank_r_hat(values)


def test_sizes_of_an_autoregression_are_those_of_its_correlation_time():
    values = autoregressive(np.random.default_rng(3), 4, 4000, 0.8, 5)
    # A mean's time is (1 + c) / (1 - c) = 9; ranks of a Gaussian forget a little faster.
    assert bulk_size(values).mean() == pytest.approx(16000 / 9, rel=0.15)
    assert np.all(tail_size(values) > bulk_size(values))
    np.testing.assert_allclose(rank_r_hat(values), 1, atol=0.02)


def test_draws_that_are_all_the_same_count_all():
    values = np.ones((2, 20, 3))
    assert np.all(rank_r_hat(values) == 1) and np.all(bulk_size(values) == 40) and np.all(tail_size(values) == 40)


@pytest.mark.parametrize("draws", [100, 101])
def test_arviz_finds_the_same(draws):
    stats = pytest.importorskip("arviz_stats.base", reason="ArviZ, pip install arviz-stats, is the second opinion")
    values = autoregressive(np.random.default_rng(4), 4, draws, 0.6, 3) ** 3
    own = (
        importlib.import_module("arviz_stats.base.array").array_stats
        if not hasattr(stats, "array_stats")
        else stats.array_stats
    )
    options = {"chain_axis": 0, "draw_axis": 1}
    np.testing.assert_allclose(rank_r_hat(values), own.rhat(values, method="rank", **options), rtol=1e-10)
    # Where the sum of correlations ends differs by a term or so.
    np.testing.assert_allclose(bulk_size(values), own.ess(values, method="bulk", **options), rtol=0.05)
    np.testing.assert_allclose(
        tail_size(values), own.ess(values, method="tail", prob=(0.05, 0.95), **options), rtol=0.02
    )
