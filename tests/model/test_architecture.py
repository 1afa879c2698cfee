"""Sizes and variances of a network put into one shape."""

import math

import jax
import numpy as np
import pytest

from statmech_attention.model.architecture import Architecture, variances


def test_scalars_stand_for_one_number_a_layer():
    architecture = Architecture.of((2, 3), 7, 0.5)
    assert architecture.heads == (2, 3)
    assert architecture.widths == (7.0, 7.0, 7.0)
    assert architecture.variances == (0.5, 0.5, 0.5, 0.5)


def test_shares_are_widths_over_the_widest():
    architecture = Architecture.of((2, 2), (10, 40, 20))
    assert architecture.widest == 40
    assert architecture.shares == (0.25, 1.0, 0.5)


def test_infinite_widths_share_alike():
    architecture = Architecture.of((2,), math.inf)
    assert architecture.shares == (1.0, 1.0)


def test_widths_may_be_traced():
    found = jax.jit(lambda width: Architecture.of((2,), (width, 3.0)).widest)(8.0)
    assert found == 8.0


def test_arrays_and_lists_count_as_one_number_a_layer():
    assert Architecture.of([2], np.array([3.0, 4.0])).widths == (3.0, 4.0)
    assert variances([1, 2, 3], 1) == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("heads", "width", "variance", "message"),
    [
        ((2, 2), (3, 3), 1.0, r"width: wanted one number or 3 of them, .* got 2"),
        ((2, 2), 3, (1.0, 1.0, 1.0), r"variance: wanted one number or 4 of them, .* got 3"),
        ((2, 2), (3, math.inf, 3), 1.0, r"width: wanted all widths finite or all infinite"),
        ((2, 2), 0, 1.0, r"width: wanted a positive number, got 0"),
        ((2, 2), (3, -1, 3), 1.0, r"width\[1\]: wanted a positive number, got -1"),
        ((2, 2), math.nan, 1.0, r"width: wanted a positive number, got nan"),
        ((2, 2), 3, 0.0, r"variance: wanted a positive finite number, got 0"),
        ((2, 2), 3, (1.0, 1.0, math.inf, 1.0), r"variance\[2\]: wanted a positive finite number, got inf"),
        ((2, 2), "wide", 1.0, r"width: wanted one positive number"),
        ((2, 2), None, 1.0, r"width: wanted one positive number, got None"),
        (None, 3, 1.0, r"heads: plain arrays carry no head structure\. Pass heads="),
        (4, 3, 1.0, r"heads: wanted one number of heads per layer, as in \(2, 2\), got 4"),
        ((2, 0), 3, 1.0, r"heads: wanted whole numbers of at least 1, got \(2, 0\)"),
        ((2, 1.5), 3, 1.0, r"heads: wanted whole numbers of at least 1, got \(2, 1.5\)"),
        ((2, True), 3, 1.0, r"heads: wanted whole numbers of at least 1"),
        ((), 3, 1.0, r"heads: wanted at least one attention layer, got none: the set of paths is empty"),
    ],
)
def test_what_does_not_fit_is_refused(heads, width, variance, message):
    with pytest.raises(ValueError, match=message):
        Architecture.of(heads, width, variance)
