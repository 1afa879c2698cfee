"""What pages call: numbers are glued plainly, tables are Markdown."""

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from attention_book import pages
from attention_book.pages import notebook
from attention_book.stats import Interval

VALUES = np.array([0.11, 0.13, 0.12, 0.15, 0.10])


def test_glued_numbers_are_plain_python(monkeypatch):
    kept = {}
    monkeypatch.setattr(notebook, "_shell", lambda: True)
    monkeypatch.setattr("myst_nb.glue", lambda name, value, display: kept.update({name: value}))
    for value in (np.float64(0.5), jnp.asarray(0.5), np.asarray([0.5]), 0.5):
        pages.glue("half", value)
        assert type(kept["half"]) is float and kept["half"] == 0.5
    with pytest.raises(ValueError, match="wanted one number"):
        pages.glue("several", np.zeros(3))


def test_frame_and_rows_become_markdown_tables():
    frame = pd.DataFrame({"gain": [Interval.of(VALUES), 2.0], "N": [10, 20]}, index=["theory", "limit"])
    text = pages.table(frame, {"gain": lambda value: f"{value}"}).data
    assert text.splitlines()[1:3] == ["|:---|---:|---:|", "| theory | 0.122\xa0±\xa00.009 | 10 |"]
    assert pages.rows(("a", "b"), [("x", "1 ± 2")]).data.splitlines()[2] == "| x | 1\xa0±\xa02 |"
