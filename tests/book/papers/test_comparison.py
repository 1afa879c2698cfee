"""The table of both papers: verdicts from numbers, and what the README says of them."""

import re

import numpy as np
import pytest

from attention_book.papers import comparison
from attention_book.papers.comparison import OTHER, SAME, direction, number
from attention_book.runs import results
from attention_book.stats import Interval

ROOT = comparison.RESULTS.parent


@pytest.mark.parametrize(
    ("theirs", "ours", "data", "verdict"),
    [
        ([1.0, 2.0], [1.1, 2.1], SAME, "agrees"),
        ([1.0, 2.0], [1.1, 2.1], OTHER, "agrees on other data"),
        ([1.0, 2.0], [1.1, 2.3], SAME, "disagrees"),  # the largest of two is at most 2.24 errors
    ],
)
def test_numbers_agree_within_what_so_many_would_scatter(theirs, ours, data, verdict):
    row = number("2", "a number", theirs, ours, 0.1, data, comparison.digits(1))
    assert row.verdict == verdict and row.apart == pytest.approx(10 * np.max(np.subtract(ours, theirs)))


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1.0, 1.1, 1.2], "agrees on other data"),
        ([-1.0, -1.1, -1.2], "disagrees"),
        ([-1.0, 1.0, 0.5], "cannot be judged"),
    ],
)
def test_direction_is_that_of_the_whole_interval(values, verdict):
    assert direction("2", "above zero", Interval.of(values)).verdict == verdict


def test_verdicts_have_the_stated_rate_of_errors():
    """Of tables in which both sides have the same law, about one in twenty disagrees."""
    random = np.random.default_rng(0)
    drawn = random.normal(size=(2000, 12))
    disagree = [number("", "", row, 0, 1, SAME, comparison.digits(1)).verdict == "disagrees" for row in drawn]
    assert abs(np.mean(disagree) - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 2000)


def test_readme_says_what_the_record_says():
    record = results.load(comparison.RESULTS / "authors" / "comparison.nc")
    lines = re.findall(r"^\| ([^|]+) \| [^|]+ \| [^|]+ \| ([^|]+) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    said = {figure: outcome for figure, outcome in lines if outcome not in ("outcome", "drawn by code")}
    assert said == comparison.summary(record)
