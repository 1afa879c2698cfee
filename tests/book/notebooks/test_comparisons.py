"""Checks of pages pass where both sides agree, and fail where they do not or where nothing could be seen."""

import numpy as np
import pytest
from scipy import stats

from attention_book.notebooks.comparisons import exact, sampled, within


def test_identities_are_compared_on_their_own_scale():
    one = np.array([1e6, 1.0])
    assert exact((one, one), (2.0, 2.0)) == 0
    assert exact((2.0, 2.0), (one + 1e-3, one)) == pytest.approx(1e-9, rel=1e-6)
    assert np.isnan(exact((1.0, 1.0), (np.nan, 1.0)))


def test_a_comparison_with_samples_is_one_line_or_an_error():
    assert within("(D1)", 0.3, 2.14).data == "<small>✓ (D1): within 2.1 standard errors.</small>"
    for wrong in (4.5, np.nan):
        with pytest.raises(AssertionError, match=r"\(D1\): wanted means within 4 standard errors"):
            within("(D1)", wrong)
    assert "within 1.2 standard errors" in within("(W2)", 1.2, limit=5.0).data
    with pytest.raises(AssertionError, match="within 5 standard errors"):
        within("(W2)", 5.1, limit=5.0)


def test_means_over_samples_are_compared_in_standard_errors():
    rng = np.random.default_rng(3)
    samples = 2 + rng.normal(size=(10_000, 3))
    z = sampled(samples, np.full(3, 2.0))
    assert z == pytest.approx(np.abs(stats.ttest_1samp(samples, 2.0).statistic).max(), rel=1e-12)
    with pytest.raises(AssertionError, match="wanted means within 4 standard errors of what is expected, got"):
        sampled(samples, np.array([2.0, 2.1, 2.0]))
    assert sampled(samples, np.array([2.0, 2.1, 2.0]), limit=50.0) > 4
    with pytest.raises(AssertionError, match="wanted standard errors below 0.02, got"):
        sampled(samples[:100], np.full(3, 2.0), precision=0.01)
    with pytest.raises(AssertionError, match="more samples"):
        sampled(samples - 2, np.zeros(3))  # nothing is small beside zero: a scale has to be given
    assert sampled(samples - 2, np.zeros(3), scale=1.0) == pytest.approx(z)


def test_imaginary_parts_count_too():
    rng = np.random.default_rng(4)
    phases = np.exp(1j * rng.normal(size=20_000))
    mean = np.exp(-0.5)  # of e^{ix}, x standard normal
    assert sampled(phases, mean + 0j, scale=1.0) < 4
    with pytest.raises(AssertionError, match="standard errors of what is expected"):
        sampled(phases, mean + 0.1j, scale=1.0)
