"""Running notebooks with other parameters: what is refused, what is kept, what reaches the notebook."""

import errno
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from attention_book.__main__ import main
from attention_book.runs import notebooks
from attention_book.runs.parameters import Parameter, check_parameters

HEADER = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# A small notebook

"""
PARAMETERS = """\
width: int = 30                      # hidden width N, in [1, 1000000]
temperature: float = 0.01            # T, in (0, inf)
shift: float = -1.5                  # any number
centred: bool = False                # subtract the mean
readout: str = "last"                # token that is read out, one of first, last, mean
widths: list[int] = [1000, 500]      # widths of a sweep, in [1, inf)
label = "a b"                        # without a type
output: str = "a.nc"                 # the record, as a path
"""


def write(folder: Path, *cells: str, parameters: str = PARAMETERS, name: str = "small") -> Path:
    """A MyST notebook with a parameters cell and other cells; returns its path."""
    blocks = [":tags: [parameters]\n\n" + parameters, *cells] if parameters else cells
    path = folder / f"{name}.md"
    path.write_text(HEADER + "\n".join(f"```{{code-cell}}\n{block}\n```\n" for block in blocks))
    return path


def texts(path: Path) -> str:
    """All that an executed notebook printed."""
    outputs = [output for cell in json.loads(path.read_text())["cells"] for output in cell.get("outputs", [])]
    return "".join("".join(output.get("text", [])) for output in outputs)


@pytest.fixture
def no_kernel(monkeypatch):
    """Fails the test if a notebook is executed."""

    def refuse(*_, **__):
        raise AssertionError("a kernel was started")

    monkeypatch.setattr("papermill.execute_notebook", refuse)


def test_parameters_are_read_with_their_bounds_without_running_them(tmp_path):
    known = notebooks.parameters_of(write(tmp_path, "1 / 0"))
    assert {name: (one.type, one.default, one.allowed_text) for name, one in known.items()} == {
        "width": ("int", 30, "in [1, 1000000]"),
        "temperature": ("float", 0.01, "in (0, inf)"),
        "shift": ("float", -1.5, ""),
        "centred": ("bool", False, ""),
        "readout": ("str", "last", "in {first, last, mean}"),
        "widths": ("list[int]", [1000, 500], "in [1, inf)"),
        "label": ("str", "a b", ""),
        "output": ("str", "a.nc", "a path"),
    }
    assert known["width"].help == "hidden width N" and known["output"].help == "the record"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("-p widht=3", "widht: no such parameter. It takes width, temperature"),
        ("-p width=3.5", "width: wanted int in [1, 1000000], got '3.5'"),
        ("-p width=0", "width: wanted int in [1, 1000000], got '0'"),
        ("-p temperature=-1e-3", "temperature: wanted float in (0, inf), got '-1e-3'"),
        ("-p temperature=nan", "temperature: wanted float in (0, inf), got 'nan'"),
        ("-p centred=2", "centred: wanted bool, got '2'"),
        ("-p readout=middle", "readout: wanted str in {first, last, mean}, got 'middle'"),
        ("-p widths=10,0", "widths: wanted int in [1, inf), got '0'"),
        ("-p widths=[]", "widths: wanted at least one entry"),
        ("-p width=3 -p width=4", "width: given twice"),
        ("-p output=there.txt", "output: wanted a file name ending in .nc, got 'there.txt'"),
        ("-p output=data.csv/a.nc", "output: nothing can be written to "),
        ("--output result.txt", "output: wanted a name that ends in .ipynb"),
        ("--output there.ipynb", "output: there.ipynb is there already"),
        ("--output folder.ipynb --overwrite", "output: folder.ipynb is a folder"),
        ("--output data.csv/x.ipynb", "output: nothing can be written to "),
    ],
)
def test_run_is_refused_before_a_kernel_starts(results_root, no_kernel, capsys, arguments, message):
    path = write(results_root)
    Path("there.ipynb").write_text("mine")
    Path("data.csv").write_text("1,2")
    Path("folder.ipynb").mkdir()
    before = sorted(results_root.rglob("*"))
    assert main(["run", str(path), *arguments.split(" ")]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith(f"error: {message}") and complaint.count("\n") == 1
    assert sorted(results_root.rglob("*")) == before and Path("there.ipynb").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no/such/chapter"], "no such file"),
        (["data.csv"], "wanted a notebook"),
        (["plain.md", "-p", "width=3"], "takes no parameters"),
        ([""], "wanted a path"),
    ],
)
def test_file_that_is_no_notebook_with_parameters_is_refused(results_root, no_kernel, capsys, arguments, message):
    Path("data.csv").write_text("1,2")
    write(results_root, "1", parameters="", name="plain")
    assert main(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("width: int = 0  # in [1, 2]", "width: the default does not fit"),
        ("word: str = 'a'  # in [1, 2]", "word: the default does not fit"),
        ("width: int = 2 * 3", "width: wanted a literal"),
        ("width = 1\nwidth = 2", "wanted 2 different lines"),
        ("width: dict = {}", "wanted int, float, bool, str or a list"),
        ("width = = 1", "syntax error in line 1"),
    ],
)
@pytest.mark.filterwarnings("default")
def test_bad_parameters_cell_names_the_file_and_the_fault(tmp_path, source, message):
    with pytest.raises(notebooks.Refused, match=f"small.md: parameters cell.*{re.escape(message)}"):
        notebooks.parameters_of(write(tmp_path, parameters=source))


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "1e2", 100),
        ("float", "-1e-300", -1e-300),
        ("bool", "true", True),
        ("str", "-1,2 = x", "-1,2 = x"),
        ("list[int]", "3,4", [3, 4]),
        ("list[float]", "[0.5, 1e3]", [0.5, 1000.0]),
        ("list[str]", "first, 'the last'", ["first", "the last"]),
        ("list[int]", "[]", []),
    ],
)
def test_text_of_the_command_line_becomes_a_value_of_its_type(kind, text, value):
    found = Parameter("x", kind, None).convert(text)
    assert found == value and type(found) is type(value)


def test_values_from_python_are_converted_or_refused_by_type(tmp_path):
    known = notebooks.parameters_of(write(tmp_path))
    assert check_parameters(known, {"width": 3, "temperature": 2, "widths": (3, 4)}) == {
        "width": 3, "temperature": 2.0, "widths": [3, 4]
    }  # fmt: skip
    for name, value in {"width": 3.0, "temperature": True, "centred": 1, "readout": 3, "widths": 10}.items():
        with pytest.raises(notebooks.Refused, match=f"{name}: wanted"):
            check_parameters(known, {name: value})


def test_list_shows_the_chapters_of_a_book_from_below_its_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "_toc.yml").write_text("root: book/index\n")
    chapter = tmp_path / "book" / "part"
    chapter.mkdir(parents=True)
    write(chapter, name="theory")
    write(chapter, "1", parameters="", name="plain")
    monkeypatch.chdir(chapter)
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("part/theory\n") and "plain" not in printed
    assert "hidden width N, in [1, 1000000]" in printed


def test_given_values_reach_the_notebook_and_defaults_stay(results_root, capsys):
    show = "print(width, temperature, shift, centred, readout, widths, label)\nimport sys; print(sys.prefix)"
    path = write(results_root, show)
    values = "width=7", "shift=-1e-3", "widths=3,4", "centred=true", "label=-1,2 = x"
    assert main(["run", str(path), *(part for value in values for part in ("-p", value))]) == 0
    executed = results_root / "executed" / "small-001.ipynb"
    assert capsys.readouterr().out.strip() == str(executed.relative_to(results_root))
    assert texts(executed).splitlines() == ["7 0.01 -0.001 True last [3, 4] -1,2 = x", sys.prefix]
    metadata = json.loads(executed.read_text())["metadata"]
    assert (metadata["papermill"]["input_path"], metadata["papermill"]["output_path"]) == ("small", "small-001.ipynb")
    assert not any(str(folder) in json.dumps(metadata) for folder in (results_root, tempfile.gettempdir(), sys.prefix))
    assert [entry.name for entry in executed.parent.iterdir()] == ["small-001.ipynb"]


def test_executed_copy_has_its_own_numbers_in_its_text_and_a_notice(results_root):
    glue = "from attention_book import pages\npages.glue('twice', 2 * width)"
    path = write(results_root, glue, "if shift == 3: raise ArithmeticError", "pages.glue('late', shift / 7)")
    path.write_text(path.read_text() + "\nTwice {glue:text}`twice:+.1f`, {glue:text}`late:.3f`; `{{glue}}`.\n")

    def copy(value):
        status = main(["run", str(path), "--output", "x.ipynb", "--overwrite", "-p", value])
        cells = [cell for cell in json.loads(Path("x.ipynb").read_text())["cells"] if cell["cell_type"] == "markdown"]
        return status, "".join(cells[0]["source"]), "".join(cells[-1]["source"])

    notice = "Executed with `width = 7`; the sentences and verdicts were written for the defaults (`width = 30`)."
    assert copy("width=7") == (0, notice, "Twice +14.0, -0.214; `{{glue}}`.")
    status, _, last = copy("shift=3")
    assert (status, last) == (1, "Twice +60.0, {glue:text}`late:.3f`; `{{glue}}`.")


def test_executed_part_of_a_failing_notebook_is_kept_beside_earlier_ones(results_root, capsys):
    path = write(results_root, "print('so far')", "raise ArithmeticError(f'width {width}')", "print('never')")
    earlier, kept = (results_root / "executed" / f"small-00{number}.ipynb" for number in (1, 2))
    earlier.parent.mkdir()
    earlier.write_text("an earlier run")
    assert main(["run", str(path)]) == 1
    complaint = capsys.readouterr().err
    assert "raised ArithmeticError: width 30" in complaint and "executed/small-002.ipynb" in complaint
    assert "so far" in texts(kept) and "never" not in texts(kept)
    assert earlier.read_text() == "an earlier run"


@pytest.mark.parametrize("there", ['{"cells": [{"cell_type"', ""])
def test_full_disk_is_told_and_leaves_the_notebook_that_was_there(results_root, monkeypatch, capsys, there):
    def full(_, executed, **__):
        Path(executed).write_text(there)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("papermill.execute_notebook", full)
    Path("x.ipynb").write_text("an earlier run")
    assert main(["run", str(write(results_root)), "--output", "x.ipynb", "--overwrite"]) == 1
    assert capsys.readouterr().err == f"error: small could not be executed: {os.strerror(errno.ENOSPC)}\n"
    assert Path("x.ipynb").read_text() == "an earlier run" and len(list(results_root.iterdir())) == 2


def test_notebook_that_does_not_fit_on_the_disk_is_kept_elsewhere(results_root, monkeypatch, capsys):
    def full(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(notebooks, "replacing", full)
    assert main(["run", str(write(results_root, "print('computed')")), "--output", "x.ipynb"]) == 1
    complaint, place = capsys.readouterr().err.splitlines()
    assert complaint == f"error: x.ipynb could not be written: {os.strerror(errno.ENOSPC)}"
    kept = Path(place.removeprefix("The notebook up to there is in "))
    assert "computed" in texts(kept) and kept.name == "small.ipynb"
    kept.unlink()
    kept.parent.rmdir()


def test_record_that_another_process_makes_is_refused_until_that_process_ends(results_root, capsys):
    path = write(results_root, "print('computed')")
    hold = "import sys, time; from pathlib import Path; from attention_book.runs.execution import alone\n"
    hold += "with alone(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", hold, str(results_root / "a.nc")], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        assert main(["run", str(path), "-p", "output=a.nc"]) == 2
        assert "another process makes a.nc here" in capsys.readouterr().err
        other.kill()
    assert main(["run", str(path), "-p", "output=a.nc"]) == 0
    assert not list(results_root.glob("*.lock"))


def test_two_runs_never_write_the_same_file(results_root, monkeypatch, capsys):
    def other(_, executed, **__):
        Path(executed).write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
        Path("x.ipynb").write_text("the other run's")

    monkeypatch.setattr("papermill.execute_notebook", other)
    assert main(["run", str(write(results_root)), "--output", "x.ipynb"]) == 1
    assert "another run has written it" in capsys.readouterr().err
    assert Path("x.ipynb").read_text() == "the other run's"
