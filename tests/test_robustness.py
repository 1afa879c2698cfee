"""A few random problems: each is solved or says why not."""

from pathlib import Path

import numpy as np
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


def test_a_problem_is_drawn_from_its_number_and_is_what_its_kind_says(robustness):
    drawn = [robustness.draw(seed) for seed in range(60)]
    again = robustness.draw(7)
    np.testing.assert_array_equal(again["inputs"], drawn[7]["inputs"])
    np.testing.assert_array_equal(again["labels"], drawn[7]["labels"])
    assert {one["kind"] for one in drawn} == set(robustness.KINDS)
    for one in drawn:
        half = len(one["labels"]) // 2
        if one["kind"] == "examples twice, labels opposed":
            np.testing.assert_array_equal(one["inputs"][-half:], one["inputs"][:half])
            np.testing.assert_array_equal(one["labels"][-half:], -one["labels"][:half])
        if one["kind"] == "constant labels":
            assert (one["labels"] == 1).all()


def test_what_is_neither_an_answer_nor_a_reason_is_counted(robustness, monkeypatch):
    problem = robustness.draw(0)

    def broken(*_, **__):
        raise IndexError("of nothing")

    monkeypatch.setattr(robustness.sma, "solve", broken)
    row = robustness.solve(problem)
    assert (row["outcome"], row["said"]) == (robustness.OTHER, "IndexError: of nothing")
