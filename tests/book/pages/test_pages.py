"""What pages call: numbers are glued plainly, tables are Markdown."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
import yaml

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


def test_claims_stand_by_page_with_the_outcome_first(tmp_path):
    one = {"claim": "It rises.", "rule": "Slope above 0.", "date": "d", "unit": "draws", "run": "runs/r", "page": "a"}
    said = [
        one | {"outcome": "holds, +0.1"},
        one | {"page": "b", "outcome": "Fails."},
        one | {"outcome": "Undecided: 0 ± 1."},
    ]
    for page in "ab":
        (tmp_path / f"{page}.md").write_text(f"---\n---\n# Page {page}\n")
    first, second = pages.claims(said, tmp_path).data.split("</details>")[:2]
    assert "<b>Page a</b>: 1 of 2 claims held" in first and "<b>Page b</b>: 0 of 1 claims held" in second
    assert "- **Holds**, +0.1\n\n  *Claimed:* It rises." in first and "- **Undecided**: 0 ± 1." in first
    assert "- **Fails**." in second and "Undecided" not in second


def test_all_claims_of_the_book_are_shown():
    book = Path(__file__).resolve().parents[3] / "book"
    said = yaml.safe_load((book / "claims.yaml").read_text(encoding="utf-8"))["claims"]
    shown = pages.claims(said, book).data
    assert shown.count("*Claimed:*") == len(said)
    assert all(" ".join(str(one["rule"]).split()) in shown for one in said)
