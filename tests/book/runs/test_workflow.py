"""Records computed again by their notebooks: what stands and what does not."""

import dataclasses
import shutil

import numpy as np
import pytest
import verify
import xarray as xr
import yaml

from attention_book.runs import notebooks, results, workflow
from attention_book.runs.workflow import Record, combine, difference, errors_apart, largest_difference, records

NOTEBOOK = """---
kernelspec: {name: python3, display_name: Python 3, language: python}
---

```{code-cell} ipython3
:tags: [parameters]

draw: int = 0  # a draw
widths: list[int] = [10, 30]  # widths
output: str = "x.nc"  # the record, as a path
```

```{code-cell} ipython3
import xarray as xr

from attention_book.runs import results

values = [(draw + 1) / width for width in widths]
numbers = {"value": ("width", values), "error": ("width", [0.01] * len(widths))}
results.save(xr.Dataset(numbers, {"width": widths}), output, parameters=globals())
```
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A record of two draws, joined from two runs of a notebook, in a folder with the notebook."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "tiny.md").write_text(NOTEBOOK)
    one = described(folder)
    pieces = list(one.runs())
    for path, given in pieces:
        notebooks.run(folder / "tiny.md", {**given, "output": path}, output=path.with_suffix(".ipynb"))
    combine(one.path, ["draw"], [path for path, _ in pieces])
    return folder


@pytest.fixture
def record(made, tmp_path, monkeypatch):
    """A copy of the record."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(workflow, "RUNS", tmp_path)
    return described(tmp_path)


def described(folder):
    """The line of the record, in a folder."""
    line = {"record": "tiny", "run": "tiny", "pieces": {"draw": [0, 1]}, "verify": {"widths": [30]}}
    (one,) = records({"folder": str(folder / "results"), "runs": [line]})
    return one


def test_pieces_are_joined_into_one_record_with_its_parameters(record):
    found, made = results.load(record.path), results.record(record.path)
    assert found["value"].values.tolist() == [[0.1, 1 / 30], [0.2, 2 / 30]]
    assert made["parameters"] == {"draw": [0, 1], "widths": [10, 30]}
    assert not any(path.exists() for path, _ in record.runs())


def test_record_with_the_numbers_of_its_notebook_stands(record):
    good, said = verify.verify(record)
    assert good and said.startswith("differs by 0.0e+00 (at most 1e-06), ")


def test_record_with_a_changed_number_is_found(record):
    made = results.record(record.path)
    results.save(results.load(record.path) * 1.001, record.path, parameters=made["parameters"])
    good, said = verify.verify(record)
    assert not good and "differs by 1.0e-03" in said


def test_damaged_record_is_found(record):
    record.path.write_bytes(record.path.read_bytes()[:-100])
    good, said = verify.verify(record)
    assert not good and "Remove this file and run again" in said


def test_difference_is_relative_to_the_largest_number_and_sees_gaps():
    there = xr.Dataset({"a": ("x", [1.0, 2.0, 4.0]), "b": 1.0}, {"x": [10, 20, 30]})
    assert largest_difference(xr.Dataset({"a": ("x", [4.0, 2.0])}, {"x": [30, 20]}), there) == 0
    assert difference([1.0, 2.0], [1.0, 4.0]) == 0.5
    assert difference([np.nan, np.inf], [np.nan, np.inf]) == 0
    assert difference([np.nan], [1.0]) == difference([1.0], [1.0, 2.0]) == np.inf


def test_numbers_with_the_name_of_one_of_their_axes_are_compared():
    """xarray takes them for coordinates."""
    there = xr.Dataset({"a": ("x", [1.0, 2.0])}, {"unit": (("x", "unit"), [[1.0, 2.0], [3.0, 4.0]])})
    assert largest_difference(there, there) == 0
    assert largest_difference(there.assign_coords(unit=there.unit + 2), there) == 0.5


def test_drawn_numbers_are_compared_by_their_errors():
    there = xr.Dataset({"mean": ("x", [1.0, 2.0]), "error": ("x", [0.3, 0.3]), "r_hat": 1.0}, {"x": [10, 20]})
    again = xr.Dataset({"mean": ("x", [4.5]), "error": ("x", [0.4]), "r_hat": 2.0}, {"x": [20]})
    drawn = {"mean": "error", "r_hat": None}
    assert errors_apart(again, there, drawn) == pytest.approx(5.0)
    assert errors_apart(again, there, {"r_hat": None}) == 0
    assert np.isnan(errors_apart(again * np.nan, there, drawn))


@pytest.mark.parametrize(("moved", "stands"), [(0.04, True), (0.08, False)])
def test_drawn_numbers_of_a_record_stand_within_five_errors(record, moved, stands):
    kept = results.load(record.path)
    results.save(
        kept.assign(value=kept["value"] + moved), record.path, parameters=results.record(record.path)["parameters"]
    )
    good, said = verify.verify(dataclasses.replace(record, drawn={"value": "error"}))
    assert good == stands and f"drawn numbers by {moved / 0.01 / np.sqrt(2):.1f} standard errors (at most 5)" in said


def test_record_whose_source_is_absent_is_not_looked_at(tmp_path):
    good, said = verify.verify(Record(tmp_path / "x.nc", "tiny", {"network": "absent.nc"}))
    assert good and said.startswith("not looked at: it was made from absent.nc")


def test_every_line_of_the_lists_names_a_notebook_and_parameters_that_it_has():
    for name in ("runs", "smoke"):
        path = workflow.ROOT / "workflow" / f"{name}.yaml"
        for one in records(yaml.safe_load(path.read_text(encoding="utf-8"))):
            known = notebooks.parameters_of(workflow.RUNS / f"{one.run}.md")
            asked = {**one.parameters, **{key: values[0] for key, values in one.pieces.items()}, **one.verify}
            assert set(asked) <= set(known), one.path
            for key, value in asked.items():
                if value != []:  # this coordinate is left out of the comparison
                    known[key].convert(value)


def test_records_were_made_with_the_parameters_of_their_lines():
    lines = records(yaml.safe_load((workflow.ROOT / "workflow" / "runs.yaml").read_text(encoding="utf-8")))
    there = [one for one in lines if one.path.is_file()]
    assert len(there) > 100
    for one in there:
        made, known = results.record(one.path)["parameters"], notebooks.parameters_of(workflow.RUNS / f"{one.run}.md")
        asked = {name: one.default for name, one in known.items()} | {**one.parameters, **one.pieces}
        # Records that are read stand in `inputs`, and runs have got more parameters since some of the records.
        compared = {name for name in asked if name in made and not str(asked[name]).endswith(".nc")}
        assert {name: made[name] for name in compared} == {name: asked[name] for name in compared}, one.path
