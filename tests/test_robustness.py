"""A few random problems: each is solved or says why not."""

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def robustness(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import robustness

    return robustness


def test_random_problems_are_solved_or_say_why_not(robustness, monkeypatch):
    monkeypatch.setattr(robustness, "SHAPES", (((2, 2), 6, 3), ((1, 3), 2, 1)))
    rows = [robustness.solve(robustness.draw(seed)) for seed in range(20)]
    assert [row for row in rows if row["outcome"] == robustness.OTHER] == []
    assert sum(row["outcome"] == robustness.CONVERGED for row in rows) >= 15
    assert len({row["kind"] for row in rows}) > 3
