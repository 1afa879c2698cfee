"""The table of both papers: verdicts from numbers, and what the README says of them."""

import re

import numpy as np
import pytest
import xarray as xr

from attention_book.papers import comparison
from attention_book.papers.comparison import OTHER, SAME, alone, number, sign
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
    ("values", "verdict", "halved"),
    [
        ([1.0, 1.1, 1.2], "same sign", 1),  # 1.1 ± 0.06, of which 0.25 is half the interval
        ([1.0, 1.1, 1.9], "same sign", 0),  # 1.3 ± 0.28, 1.2
        ([-1.0, -1.1, -1.2], "opposite sign", 1),
        ([-1.0, 1.0, 0.5], "cannot be judged", 0),
    ],
)
def test_sign_is_that_of_the_whole_interval(values, verdict, halved):
    interval = Interval.of(values)
    row = sign("2", "above zero", interval, 3)
    assert row.verdict == verdict and row.halved == halved
    assert (row.verdict == "cannot be judged") == (interval.low < 0 < interval.high)
    assert np.isnan(row.apart) and row.effect == pytest.approx(interval.value / interval.error)


def test_distance_of_one_unit_of_theirs_is_in_units_of_how_far_one_more_of_ours_would_be():
    """Among ten of ours and one of theirs with the same law, squared distances have the mean of Student's t squared."""
    random = np.random.default_rng(0)
    sets = random.normal(5, 1, size=(4000, 11))
    apart = np.array([sign("", "", Interval.of(ours[1:]), 10, theirs=ours[0]).apart for ours in sets])
    square = apart**2  # Student's t with nine degrees of freedom has the variance 9 / 7
    assert abs(square.mean() - 9 / 7) < 4 * square.std() / len(sets) ** 0.5


def test_ours_beside_ours_counts_for_nothing():
    rows = alone("3", "sampled and theory", "0.8 and 0.8"), number("3", "", 1, 1, 1, SAME, comparison.digits(1))
    record = xr.Dataset({"figure": ("row", ["3(b)", "3(c)"]), "verdict": ("row", [row.verdict for row in rows])})
    assert comparison.summary(record) == {"3(b)": "not compared", "3(c)": "1 agrees"}


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
