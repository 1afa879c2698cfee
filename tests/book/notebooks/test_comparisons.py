"""Checks of pages pass where both sides agree, and fail where they do not or where nothing could be seen."""

import numpy as np
import pytest
from scipy import stats

from attention_book.notebooks.comparisons import exact, sampled, say


def test_a_line_is_broken_where_its_box_ends(capsys):
    say("errors:", *(f"{number:.3f}" for number in np.arange(20.0)))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1 and max(map(len, lines)) <= 78 and lines[0].startswith("errors: 0.000 1.000")


def test_identities_are_compared_on_their_own_scale():
    one = np.array([1e6, 1.0])
    assert exact((one, one), (2.0, 2.0)) == "0e+00"
    assert exact((one + 1e-3, one), tolerance=1e-8) == "1e-09"
    with pytest.raises(AssertionError, match="wanted both sides equal within 1e-12 of the largest entry, got 1.0e-09"):
        exact((one, one), (one + 1e-3, one))
    with pytest.raises(AssertionError, match="got nan"):
        exact((1.0, 1.0), (np.nan, 1.0))


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
