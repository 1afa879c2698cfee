"""The recorder of margins notes what numerical assertions found, over what they allow."""

from collections import defaultdict

import margins
import numpy as np
import pytest


@pytest.fixture
def found(monkeypatch):
    monkeypatch.setattr(margins, "found", defaultdict(list))
    return margins.found


def test_the_largest_share_of_what_is_allowed_is_noted_at_the_line_of_the_test(found):
    equal = margins.noting(np.testing.assert_allclose, 1e-7, 0.0)
    equal([2.0, 4.002], [2.0, 4.0], rtol=1e-3)
    equal(np.array([1.0, 1.03]), 1.0, 0, 0.1)
    assert [place.partition(":")[0] for place in found] == ["test_margins.py"] * 2
    np.testing.assert_array_almost_equal([*found.values()], [[0.5], [0.3]])
    with pytest.raises(AssertionError):
        equal([1.0], [2.0])


def test_approximate_numbers_are_noted_one_by_one(found, monkeypatch):
    kind = margins.ApproxScalar
    monkeypatch.setattr(kind, "__eq__", margins.noting_scalar(kind.__eq__))
    assert pytest.approx([1.0, 2.0], abs=0.2) == [1.0, 2.1]
    assert pytest.approx("a") == "a"
    (shares,) = found.values()
    assert np.round(shares, 6).tolist() == [0.0, 0.5]
