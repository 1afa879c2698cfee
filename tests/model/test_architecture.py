"""Sizes and variances of a network put into one shape."""

import math

import jax

from statmech_attention.model.architecture import Architecture


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
