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


def test_what_is_neither_an_answer_nor_a_reason_is_counted(robustness, monkeypatch):
    problem = robustness.draw(0)

    def broken(*_, **__):
        raise IndexError("of nothing")

    monkeypatch.setattr(robustness.sma, "solve", broken)
    row = robustness.solve(problem)
    assert (row["outcome"], row["said"]) == (robustness.OTHER, "IndexError: of nothing")
