"""Parameters of experiments beside those of the notebooks in `book/runs` that run them."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from attention_book import experiments
from attention_book.notebooks import runs

RUNS = sorted((Path(__file__).parents[3] / "book" / "runs").glob("*.md"))


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_notebook_has_every_parameter_within_the_experiments_bounds(path):
    (name,) = re.findall(r"experiments\.(\w+)\.of\(globals\(\)\)", path.read_text())
    notebook, kind = runs.parameters_of(path), getattr(experiments, name)
    declared = {one.name: one.metadata for one in fields(kind) if "about" in one.metadata}
    if path.stem == "sampling":  # one width after the other
        notebook["width"] = notebook.pop("widths")
    assert set(notebook) - {"folder", "progress"} == set(declared)
    kind.of({name: one.default for name, one in notebook.items()} | {"width": 10}).check()
    for name, allowed in declared.items():
        if "ge" in allowed:
            assert notebook[name].allowed["ge"] >= allowed["ge"], name
        if "among" in allowed:
            assert set(notebook[name].allowed) <= set(allowed["among"]), name
