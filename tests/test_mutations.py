"""The list of mutations is up to date."""

import ast

import mutate
import pytest
import yaml

MUTATIONS = yaml.safe_load((mutate.ROOT / "tools" / "mutations.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("one", MUTATIONS, ids=lambda one: f"{one['file']}: {one['old']}")
def test_what_is_changed_stands_there_once_and_can_be_read_and_its_tests_are_there(one):
    text = (mutate.ROOT / "src" / mutate.place(one["file"])).read_text(encoding="utf-8")
    assert text.count(one["old"]) == 1
    ast.parse(text.replace(one["old"], one["new"]))  # what no interpreter reads, no test has to notice
    assert all((mutate.ROOT / "tests" / test).is_file() for test in one["tests"])


def test_a_line_that_is_out_of_date_is_refused():
    with pytest.raises(ValueError, match="wanted 'no such text' once, got it 0 times"):
        mutate.noticed("checks.py", "no such text", "", ["test_checks.py"])
