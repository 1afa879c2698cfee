"""Sizes and variances of a network put into one shape."""

import math

import jax
import pytest

from statmech_attention.model.architecture import Architecture


def test_scalars_stand_for_one_number_a_layer():
    architecture = Architecture.of((2, 3), 7, 0.5)
    assert architecture.layers == (2, 3)
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


@pytest.mark.parametrize(
    ("layers", "width", "variance", "message"),
    [
        ((2, 2), (3, 3), 1.0, r"width: wanted one number or 3 of them, .* got 2"),
        ((2, 2), (3, math.inf, 3), 1.0, r"width: wanted all widths finite or all infinite"),
        ((2, 2), (3, -1, 3), 1.0, r"width\[1\]: wanted a positive number, got -1"),
        ((2, 2), 3, (1.0, 1.0, math.inf, 1.0), r"variance\[2\]: wanted a positive finite number, got inf"),
        (None, 3, 1.0, r"layers: plain arrays do not say their layers\. Pass layers="),
        ((2, True), 3, 1.0, r"layers: wanted whole numbers of at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(layers, width, variance, message):
    with pytest.raises(ValueError, match=message):
        Architecture.of(layers, width, variance)
