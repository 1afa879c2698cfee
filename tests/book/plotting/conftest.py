"""Figures are drawn without a screen, in the book's style, and none outlives its test."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _figures():
    from attention_book import plotting  # not earlier: see the conftest above

    with plt.rc_context():
        plotting.use_style()
        yield
    plt.close("all")
