"""Running notebooks with other parameters: what is refused, what is kept, what reaches the notebook."""

import errno
import json
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

HEADER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# A small notebook

"""
ALLOWED = """\
  width: {ge: 1, le: 1000000}
  temperature: {gt: 0}
  readout: [first, last, mean]
  widths: {ge: 1}
"""
PARAMETERS = """\
width: int = 30                      # hidden width N
temperature: float = 0.01            # T
shift: float = -1.5                  # any number
centred: bool = False                # subtract the mean
readout: str = "last"                # token that is read out
widths: list[int] = [1000, 500]      # widths of a sweep
label = "a b"                        # without a type
"""


def write(folder: Path, *cells: str, parameters: str = PARAMETERS, allowed: str = ALLOWED, name: str = "small") -> Path:
    """A MyST notebook with a parameters cell and other cells; returns its path."""
    head = "---\ntags: [parameters]\n" + (f"allowed:\n{allowed}" if allowed else "") + "---\n"
    blocks = [head + parameters, *cells] if parameters else list(cells)
    text = HEADER + "\n".join(f"```{{code-cell}}\n{block}\n```\n" for block in blocks)
    path = folder / f"{name}.md"
    path.write_text(text)
    return path


def texts(path: Path) -> str:
    """All that an executed notebook printed."""
    cells = json.loads(path.read_text())["cells"]
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    return "".join("".join(output.get("text", [])) for output in outputs)


@pytest.fixture
def no_kernel(monkeypatch):
    """Fails the test if a notebook is executed."""
    import papermill

    def refuse(*_, **__):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr(papermill, "execute_notebook", refuse)


def command(*arguments: str) -> int:
    from attention_book.__main__ import main

    return main(list(arguments))


def test_parameters_are_read_without_running_them(tmp_path):
    from attention_book.notebooks import runs

    known = runs.parameters_of(write(tmp_path, "1 / 0"))
    assert {name: (one.type, one.default) for name, one in known.items()} == {
        "width": ("int", 30),
        "temperature": ("float", 0.01),
        "shift": ("float", -1.5),
        "centred": ("bool", False),
        "readout": ("str", "last"),
        "widths": ("list[int]", [1000, 500]),
        "label": ("str", "a b"),
    }
    assert known["width"].help == "hidden width N"
    texts = [one.allowed_text for one in known.values()]
    assert texts == ["in [1, 1000000]", "in (0, inf)", "", "", "in {first, last, mean}", "in [1, inf)", ""]
    assert known["label"].help == "without a type"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-p widht=3", "widht: no such parameter. It takes width, temperature"),
        ("-p width=3.5", "width: wanted int in [1, 1000000], got '3.5'"),
        ("-p width=0", "width: wanted int in [1, 1000000], got '0'"),
        ("-p temperature=-1e-3", "temperature: wanted float in (0, inf), got '-1e-3'"),
        ("-p temperature=nan", "temperature: wanted float in (0, inf), got 'nan'"),
        ("-p shift=inf", "shift: wanted float, got 'inf'"),
        ("-p centred=2", "centred: wanted bool, got '2'"),
        ("-p readout=middle", "readout: wanted str in {first, last, mean}, got 'middle'"),
        ("-p widths=10,0", "widths: wanted int in [1, inf), got '0'"),
        ("-p widths=", "widths: wanted int in [1, inf), got ''"),
        ("-p widths=[]", "widths: wanted at least one entry"),
        ("-p width=3 -p width=4", "width: given twice"),
        ("--output result.txt", "output: wanted a name that ends in .ipynb"),
        ("--output there.ipynb", "output: there.ipynb is there already"),
        ("--output folder.ipynb --overwrite", "output: folder.ipynb is a folder"),
        ("--output data.csv/x.ipynb", "output: nothing can be written to "),
    ],
)
def test_a_run_is_refused_before_a_kernel_starts(results_root, no_kernel, capsys, arguments, message):
    path = write(results_root)
    Path("there.ipynb").write_text("mine")
    Path("data.csv").write_text("1,2")
    Path("folder.ipynb").mkdir()
    before = sorted(results_root.rglob("*"))
    assert command("run", str(path), *arguments.split(" ")) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"error: {message}")
    assert complaint.count("\n") == 1
    assert sorted(results_root.rglob("*")) == before and Path("there.ipynb").read_text() == "mine"


def test_two_runs_never_write_the_same_file(results_root, no_kernel, capsys):
    from attention_book.locks import alone

    with alone(Path(".x.ipynb.lock")):
        assert command("run", str(write(results_root)), "--output", "x.ipynb") == 2
    assert capsys.readouterr().err.startswith("error: output: another run writes x.ipynb")


def test_what_is_no_notebook_with_parameters_is_refused(results_root, no_kernel, capsys):
    Path("data.csv").write_text("1,2")
    plain = str(write(results_root, "1", parameters="", name="plain"))
    for arguments, message in (
        (["no/such/chapter"], "no such file"),
        (["data.csv"], "wanted a notebook"),
        ([plain, "-p", "width=3"], "takes no parameters"),
        ([""], "wanted a path"),
        (["/"], "wanted a path"),
    ):
        assert command("run", *arguments) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        command("run", plain, "-p", "width")
    assert "wanted NAME=VALUE, as in -p width=30, got width" in capsys.readouterr().err


def test_values_from_python(tmp_path):
    import numpy as np

    from attention_book.notebooks import runs
    from attention_book.notebooks.parameters import check_parameters

    known = runs.parameters_of(write(tmp_path))
    given_values = {"width": np.int64(3), "temperature": 2, "centred": np.bool_(True), "widths": np.array([3, 4])}
    converted = check_parameters(known, given_values)
    assert converted == {"width": 3, "temperature": 2.0, "centred": True, "widths": [3, 4]}
    assert [type(value) for value in converted.values()] == [int, float, bool, list]
    wrong = {"width": 3.0, "temperature": True, "centred": 1, "readout": 3, "widths": 10, "shift": None}
    for name, value in wrong.items():
        with pytest.raises(runs.Refused, match=f"{name}: wanted"):
            check_parameters(known, {name: value})


@pytest.mark.parametrize(
    ("source", "allowed", "message"),
    [
        ("width: int = 0", "width: {ge: 1}", "width: the default does not fit"),
        ("width: int = 3", "width: {ge: many}", "width: the default does not fit"),
        ("word: str = 'a'", "word: {ge: 1}", "word: the default does not fit"),
        ("word: str = 'no'", "word: [yes, no]", "word: the default does not fit"),  # YAML's truth values
        ("width: int = 2 * 3", "", "width: wanted a literal"),
        ("width = 1\nwidth = 2", "", "wanted 2 different lines"),
        ("width: dict = {}", "", "wanted int, float, bool, str or a list"),
        ("width = = 1", "", "syntax error in line 1"),
    ],
)
@pytest.mark.filterwarnings("default")
def test_a_bad_parameters_cell_names_the_file_and_the_fault(tmp_path, source, allowed, message):
    from attention_book.notebooks import runs

    with pytest.raises(runs.Refused, match=f"small.md: parameters cell.*{re.escape(message)}"):
        runs.parameters_of(write(tmp_path, parameters=source, allowed=f"  {allowed}\n" if allowed else ""))


scalars = {
    "int": st.integers(-(2**63), 2**63),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "str": st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1),
}


@given(st.sampled_from(sorted(scalars)).flatmap(lambda kind: st.tuples(st.just(kind), scalars[kind])))
def test_a_value_written_out_is_read_back(case):
    from attention_book.notebooks.runs import Parameter

    kind, value = case
    parameter = Parameter("x", kind, None)
    assert parameter.convert(str(value)) == value
    assert parameter.convert(value) == value
    several = Parameter("x", f"list[{kind}]", None)
    assert several.convert([value]) == several.convert((value,)) == [value]
    assert several.convert("[]") == []
    if kind != "str":
        assert several.convert(f"{value},{value}") == several.convert(f"[{value}, {value}]") == [value, value]
    assert Parameter("x", "list[str]", None).convert("first, 'the last'") == ["first", "the last"]


def test_list_shows_the_chapters_of_a_book_from_below_its_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "_toc.yml").write_text("root: book/index\n")
    chapter = tmp_path / "book" / "part"
    chapter.mkdir(parents=True)
    write(chapter, name="theory")
    write(chapter, "1", parameters="", name="plain")
    monkeypatch.chdir(chapter)
    assert command("list") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("part/theory\n")
    assert "plain" not in printed
    assert "hidden width N, in [1, 1000000]" in printed


def test_given_values_reach_the_notebook_and_defaults_stay(results_root, capsys):
    show = "print(width, temperature, shift, centred, readout, widths, label)\nimport sys; print(sys.prefix)"
    path = write(results_root, show)
    values = "width=7", "shift=-1e-3", "widths=3,4", "centred=true", "label=-1,2 = x"
    assert command("run", str(path), *(part for value in values for part in ("-p", value))) == 0
    executed = results_root / "executed" / "small-001.ipynb"
    assert capsys.readouterr().out.strip() == str(executed.relative_to(results_root))
    assert texts(executed).splitlines() == ["7 0.01 -0.001 True last [3, 4] -1,2 = x", sys.prefix]
    metadata = json.loads(executed.read_text())["metadata"]
    given_values = {"width": 7, "shift": -0.001, "widths": [3, 4], "centred": True, "label": "-1,2 = x"}
    assert metadata["papermill"]["parameters"] == given_values
    assert (metadata["papermill"]["input_path"], metadata["papermill"]["output_path"]) == ("small", "small-001.ipynb")
    assert not any(str(folder) in json.dumps(metadata) for folder in (results_root, tempfile.gettempdir(), sys.prefix))
    assert [entry.name for entry in executed.parent.iterdir()] == ["small-001.ipynb"]


def test_a_copy_has_its_own_numbers_in_its_text_and_says_what_it_was_not_written_for(results_root):
    pytest.importorskip("myst_nb")
    glue = "from attention_book.notebooks import pages\npages.glue('twice', 2 * width)\npages.glue('shape', 'bent')"
    path = write(results_root, glue, "if shift == 3: raise ArithmeticError", "pages.glue('late', shift / 7)")
    path.write_text(
        path.read_text()
        + "\nTwice {glue:text}`twice`, or {glue:text}`twice:+.1f`: {glue:text}`shape`, "
        + "{glue:text}`late:.3f`; `{{glue}}`.\n"
    )

    def copy(*pairs):
        status = command(
            "run", str(path), "--output", "x.ipynb", "--overwrite", *(part for pair in pairs for part in ("-p", pair))
        )
        cells = json.loads(Path("x.ipynb").read_text())["cells"]
        return status, [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]

    status, (notice, *_, last) = copy("width=7", "widths=3,4", "readout=last")
    assert status == 0
    assert "".join(notice) == (
        "Executed with `width = 7`, `widths = [3, 4]`; the sentences and verdicts were written for the defaults "
        "(`width = 30`, `widths = [1000, 500]`)."
    )
    assert "".join(last) == "Twice 14, or +14.0: bent, -0.214; `{{glue}}`."
    _, (top, *_, last) = copy("width=30")
    assert "".join(top) == "# A small notebook" and "".join(last).startswith("Twice 60, or +60.0: bent")
    status, (notice, *_, last) = copy("shift=3")
    assert status == 1 and "(`shift = -1.5`)" in "".join(notice)
    assert "".join(last) == "Twice 60, or +60.0: bent, {glue:text}`late:.3f`; `{{glue}}`."


def test_a_failing_notebook_is_kept(results_root, capsys):
    path = write(results_root, "print('so far')", "raise ArithmeticError(f'width {width}')", "print('never')")
    (results_root / "executed").mkdir()
    (results_root / "executed" / "small-001.ipynb").write_text("an earlier run")
    assert command("run", str(path)) == 1
    complaint = capsys.readouterr().err
    assert "raised ArithmeticError: width 30" in complaint
    assert "executed/small-002.ipynb" in complaint
    kept = results_root / "executed" / "small-002.ipynb"
    assert "so far" in texts(kept)
    assert "never" not in texts(kept)
    assert (results_root / "executed" / "small-001.ipynb").read_text() == "an earlier run"


@pytest.mark.parametrize("written", ['{"cells": [{"cell_type"', ""])
def test_a_full_disk_is_told_and_leaves_nothing(results_root, monkeypatch, capsys, written):
    import papermill

    def full(_, partial, **__):
        Path(partial).write_text(written)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(papermill, "execute_notebook", full)
    assert command("run", str(write(results_root)), "--output", "x.ipynb") == 1
    assert capsys.readouterr().err == f"error: x.ipynb could not be written: {os.strerror(errno.ENOSPC)}\n"
    assert [entry.name for entry in results_root.iterdir()] == ["small.md"]


@pytest.mark.parametrize(
    ("allowed", "good", "bad", "message"),
    [
        ("[2, 4, 8]", ["4", 4, "0.2e1"], ["3", 3, True, "4.5"], r"wanted int in \{2, 4, 8\}"),
        ("{ge: 3, multiple_of: 3}", ["9", "3e0", 6], ["10", 10, "1e1"], r"in \[3, inf\), a multiple of 3, got"),
        ("{ge: 1, le: 1000}", ["1e2", "1E+2", 100], ["1e-2", "1e4", "e", "inf", "1e400"], r"in \[1, 1000\], got"),
    ],
)
def test_what_a_cell_would_refuse_is_refused_before(tmp_path, allowed, good, bad, message):
    from attention_book.notebooks import runs

    path = write(
        tmp_path,
        parameters="width: int = 6\n" if "3" in allowed else "width: int = 4\n",
        allowed=f"  width: {allowed}\n",
    )
    width = runs.parameters_of(path)["width"]
    assert all(isinstance(width.convert(value), int) for value in good)
    for value in bad:
        with pytest.raises(runs.Refused, match=message):
            width.convert(value)
