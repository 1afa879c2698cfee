"""The helpers that pages of the book call."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from attention_book import results
from attention_book.notebooks import pages

ROOT = Path(__file__).resolve().parents[3]


def test_glued_values_are_plain():
    for value in (np.float64(0.5), np.float32(0.5), jnp.asarray(0.5), np.asarray([0.5]), 0.5):
        plain = pages._plain("half", value)
        assert type(plain) is float
        assert f"{plain:.1f}" == "0.5"
    assert type(pages._plain("n", np.int64(3))) is int
    assert type(pages._plain("yes", np.bool_(True))) is bool
    assert pages._plain("word", "last") == "last"
    with pytest.raises(ValueError, match="wanted one number"):
        pages.glue("several", np.zeros(3))
    assert pages.glue("outside a book", 1.0) is None


def test_a_checked_equation_is_one_line_or_an_error():
    assert pages.check("(D16)", np.array([-4e-14, 1e-15]), 1e-12).data == "<small>✓ (D16) holds to 4 × 10⁻¹⁴.</small>"
    for wrong in (2e-12, float("nan")):
        with pytest.raises(AssertionError, match=r"\(D16\): wanted an error of at most 1e-12"):
            pages.check("(D16)", wrong, 1e-12)


def test_a_mean_is_glued_with_its_error(monkeypatch):
    kept = {}
    monkeypatch.setattr(pages, "glue", kept.__setitem__)
    values = np.array([1.0, 2.0, 6.0])
    assert pages.glue_mean("gain", values) == (3.0, pytest.approx(values.std(ddof=1) / 3**0.5))
    assert kept == {"gain": 3.0, "gain_error": pytest.approx(scipy.stats.sem(values))}


def test_versions_name_no_place():
    facts = pages.versions()
    assert facts["jax"] == jax.__version__
    assert "source" not in facts
    assert "cpu" in facts["device"] or "gpu" in facts["device"] or "cuda" in facts["device"]
    assert str(ROOT) not in str(facts)


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Makes files of records, which say of themselves what is given."""
    said = {}

    def make(name, **facts):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        said[path] = {"package": "0.1.0", "jax": "0.9.2", "device": "cpu x 1", "wall_seconds": None, **facts}
        return path

    monkeypatch.setattr(results, "record", said.__getitem__)
    return make


def test_one_record_is_a_sentence(recorded):
    path = recorded("network-2x4-seed0.nc", written="2026-11-21T10:55:21Z", wall_seconds=2939)
    said = "Recorded 2026-11-21 by statmech_attention 0.1.0 with JAX 0.9.2 on cpu x 1, in 49 min: network 2x4, seed 0."
    assert pages.made(path).data == said
    assert pages.made(path, path.with_name("gone.nc"), str(path)).data == said
    silent = recorded("benchmarks_dmft.nc", written="2026-11-21T10:55:21Z")
    assert pages.made(silent).data.endswith(" on cpu x 1: benchmarks dmft.")
    assert "Nothing is recorded" in pages.made(path.with_name("gone.nc")).data
    assert "Nothing is recorded" in pages.made().data


def test_a_row_of_the_readme_is_one_line_and_shown_to_nobody(monkeypatch):
    import IPython.display

    shown = []
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: shown.append(data))
    pages.agreement("3(c)", "a matrix", "yes")
    assert shown == []
    monkeypatch.setattr(pages, "_in_notebook", lambda: True)
    pages.agreement("3(c)", "a matrix", "yes", recorded=True)
    assert shown == [{pages.AGREEMENT: {"figure": "3(c)", "what": "a matrix", "says": "yes", "recorded": True}}]
    for says in ("either | or", "two\nlines"):
        with pytest.raises(ValueError, match="says: wanted one line"):
            pages.agreement("3(c)", "a matrix", says)
