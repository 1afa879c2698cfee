"""The book's helpers, its settings, and the scripts that build and check it."""

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import build_book
import check_book
import nbformat
import page_notebooks
import pytest
from bs4 import BeautifulSoup

ROOT, PLACE = Path(__file__).resolve().parents[1], "https://github.com/somebody/the-book"
PAGE = """\
---
jupytext:
  text_representation: {{extension: .md, format_name: myst}}
kernelspec: {{display_name: Python 3, language: python, name: python3}}
---

# A page

```{{code-cell}}
{}
```
"""


def test_every_parameter_of_the_book_has_a_help_and_a_range(monkeypatch):
    from attention_book.runs import notebooks

    monkeypatch.chdir(ROOT)
    for chapter in notebooks.chapters():
        for name, one in notebooks.parameters_of(chapter).items():
            assert one.help, f"{chapter}, {name}: a comment that says what it is"
            if "int" in one.type or "float" in one.type:
                assert one.allowed, f"{chapter}, {name}: bounds, as in `# width N, in [1, 100]`"


@pytest.fixture
def tiny_book(tmp_path, monkeypatch):
    """A project of one page with this book's settings."""
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "references.bib").write_text("")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/index\n")
    shutil.copy(ROOT / "_config.yml", tmp_path)
    shutil.copytree(ROOT / "_ext", tmp_path / "_ext")
    shutil.copytree(ROOT / "_static", tmp_path / "_static")
    monkeypatch.setattr(build_book, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["build_book"])
    return tmp_path


def more_pages(root, *names):
    """Write a table of contents with these pages beside the first one."""
    chapters = "".join(f"      - file: book/{name}\n" for name in names)
    (root / "_toc.yml").write_text(
        f"format: jb-book\nroot: book/index\nparts:\n  - caption: more\n    chapters:\n{chapters}"
    )


def executed(said):
    """The pages that a build says it executed."""
    return sorted(re.findall(r"^book/(\S+): \d+ s$", said, flags=re.MULTILINE))


def test_failing_pages_are_named_until_they_are_mended_and_every_button_leads_to_a_notebook(tiny_book, capfd):
    config, names = tiny_book / "_config.yml", ("part/other", "third")
    config.write_text(config.read_text().replace('url: ""', f"url: {PLACE}"))
    (tiny_book / "book" / "part").mkdir()
    more_pages(tiny_book, *names)
    for name, source in {"index": "print(6 * 7)", "part/other": "1 / 0", "third": "raise ValueError('third')"}.items():
        (tiny_book / "book" / f"{name}.md").write_text(PAGE.format(source))
    assert build_book.main() != 0
    said = capfd.readouterr()
    assert executed(said.out) == ["index"]
    assert "book/part/other: ZeroDivisionError: division by zero" in said.err and "ValueError: third" in said.err
    for name in names:
        (tiny_book / "book" / f"{name}.md").write_text(PAGE.format("print(6 * 8)"))
    assert build_book.main() == 0
    said, html = capfd.readouterr(), tiny_book / "_build" / "html"
    assert executed(said.out) == ["part/other", "third"] and str(html / "index.html") in said.out
    assert check_book.check(tiny_book) == (3, 0, [])
    # Sphinx took the outputs as they are, and what it says is in a file.
    log = (tiny_book / "_build" / "book.log").read_text()
    assert "build succeeded" in log and "Executing notebook" not in log
    page = BeautifulSoup((html / "book" / "part" / "other.html").read_text(), "html.parser")
    links = [link["href"] for link in page.select("a[href]") if re.search(r"ipynb|binder|colab", link["href"])]
    assert "48" in page.get_text() and links == [
        "https://mybinder.org/v2/gh/somebody/the-book/notebooks?urlpath=lab/tree/book/part/other.ipynb",
        "https://colab.research.google.com/github/somebody/the-book/blob/notebooks/book/part/other.ipynb",
        "../../_sources/book/part/other.ipynb",
    ]
    path = tiny_book / "_build" / "notebooks" / "book" / "part" / "other.ipynb"
    first, *cells = (cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    assert [cell.source for cell in cells] == ["print(6 * 8)"] and f'"notebooks", "{PLACE}"' in first.source
    compile(first.source, "first cell", "exec")


@pytest.mark.slow
def test_page_is_executed_again_only_if_its_cells_or_what_it_may_read_have_changed(tiny_book, capfd):
    page, record = tiny_book / "book" / "index.md", tiny_book / "results" / "a.nc"
    record.parent.mkdir()
    page.write_text(PAGE.format("print(6 * 7)"))

    def again():
        with open(tiny_book / "log", "a") as log:
            assert build_book.executed(tiny_book, 1, log) == []
        return executed(capfd.readouterr().out)

    assert again() == ["index"]
    record.write_text("seen")
    assert again() == ["index"]
    page.write_text(page.read_text().replace("# A page", "# Another title"))  # rendered, not executed
    assert again() == []


@pytest.mark.slow
def test_damaged_executed_page_is_named_and_it_alone_is_executed_again(tiny_book, capfd):
    more_pages(tiny_book, "other")
    for number, name in enumerate(("index", "other")):
        (tiny_book / "book" / f"{name}.md").write_text(PAGE.format(f"print({number})"))
    for damage, wanted in ((None, ["index", "other"]), ("cut off", ["other"]), ("removed", ["other"])):
        if damage:
            cache, _ = check_book.notebooks(tiny_book)
            (record,) = (one for one in cache.list_cache_records() if one.uri.endswith("other.md"))
            path = tiny_book / ".cache" / "book" / "executed" / record.hashkey / "base.ipynb"
            path.write_text("{") if damage == "cut off" else path.unlink()
        with open(tiny_book / "log", "a") as log:
            assert build_book.executed(tiny_book, 1, log) == []
        said = capfd.readouterr().out
        assert executed(said) == wanted and ("book/other: its executed page is damaged" in said) is bool(damage)


@pytest.mark.slow
def test_build_that_is_stopped_keeps_executed_pages_and_goes_on(tiny_book, capfd):
    wait = "import time; from pathlib import Path\nif not Path('begun').exists():\n    Path('begun').touch()\n"
    more_pages(tiny_book, "other")
    (tiny_book / "book" / "index.md").write_text(PAGE.format("print(0)") + "\nLonger." * 100)  # the longest is first
    (tiny_book / "book" / "other.md").write_text(PAGE.format(wait + "    time.sleep(100)"))
    shutil.copytree(ROOT / "tools", tiny_book / "tools")
    command = [sys.executable, str(tiny_book / "tools" / "build_book.py"), "--jobs", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(600):
            if (tiny_book / "book" / "begun").exists() or process.poll() is not None:
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        said, complaint = process.communicate(timeout=60)
    assert process.returncode == 1 and complaint.endswith("Interrupted. Pages that were executed are kept.\n")
    with open(tiny_book / "log", "a") as log:
        assert build_book.executed(tiny_book, 1, log) == []  # the other page alone
    assert executed(said) == ["index"] and executed(capfd.readouterr().out) == ["other"]


def test_tree_that_cannot_be_written_is_told(tiny_book, monkeypatch, capsys):
    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), "book.lock")

    monkeypatch.setattr(build_book, "FileLock", refuse)
    assert build_book.main() == 1
    said = f"The book was not built: book.lock cannot be written ({os.strerror(errno.EROFS)}).\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("constraints.txt", True),
        ("src/package/a.py", True),
        ("src/package/a.js", True),
        ("results/a.nc", True),
        ("_static/book.css", False),
        ("book/text.md", False),
    ],
)
def test_fingerprint_changes_with_whatever_a_page_may_read(tiny_book, name, read):
    def fingerprints():
        return [build_book.fingerprint(tiny_book, names) for names in (build_book.READ, build_book.SOURCES)]

    before = fingerprints()
    (tiny_book / name).parent.mkdir(parents=True, exist_ok=True)
    (tiny_book / name).write_text(name)
    assert [one != other for one, other in zip(before, fingerprints(), strict=True)] == [read, True]


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("https://name:secret@github.com/somebody/the-book.git", PLACE),
        ("ssh://git@github.com:22/somebody/the-book.git", PLACE),
        ("/srv/git/the-book", None),
    ],
)
def test_address_is_where_the_checkout_came_from(tmp_path, said, wanted):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert page_notebooks.address({}, tmp_path) is None
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", said], check=True)
    assert page_notebooks.address({"repository": {"url": ""}}, tmp_path) == wanted


@pytest.mark.parametrize(
    ("run", "outcome", "problems"),
    [
        ("runs/pruning", "Holds.", []),
        ("theory/choosing_paths", "Holds.", []),
        ("refitted (removed)", "Holds.", ["refitted (removed) is neither a page nor a run"]),
        ("runs/refitted", "Holds.", ["no record of runs/refitted"]),
        ("runs/pruning", "(not run yet)", ["no outcome yet"]),
    ],
)
def test_claims_have_a_run_and_an_outcome(run, outcome, problems):
    assert check_book.unrun({"run": run, "outcome": outcome}, ROOT) == problems


@pytest.mark.parametrize(
    ("outcome", "problems"),
    [
        ("Holds: +5 [-4, 14] %.", []),
        ("Holds: +6 [-4, 15] %.", ["the page has +5 [-4, 14] %"]),
    ],
)
def test_outcome_of_a_claim_has_the_numbers_of_its_page(outcome, problems):
    numbers = {"gain": 4.6, "gain.low": -4.4, "gain.high": 13.7}
    claim = {"outcome": outcome, "quotes": ["{gain:+.0f} [{gain.low:.0f}, {gain.high:.0f}] %"]}
    assert check_book.misquoted(claim, numbers) == problems
    assert check_book.misquoted(claim, {"gain": 4.6}) == ["gain.high, gain.low is not there"]


def test_check_finds_what_is_broken_in_a_built_book(tmp_path, monkeypatch):
    for name, most in {"WORDS": 3, "PAGES": 1, "VISIBLE": 0, "COLUMNS": 3}.items():
        monkeypatch.setattr(check_book, name, most)
    html = tmp_path / "_build" / "html" / "book"
    html.mkdir(parents=True)
    contents = "root: book/index\nparts:\n- chapters:\n  - file: book/gone\n  - file: book/read\n"
    (tmp_path / "_toc.yml").write_text(contents)
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "read.md").write_text(PAGE.format(":tags: [remove-cell]\nx = 2") + PAGE.format("1 + x"))
    (tmp_path / "book" / "claims.yaml").write_text("claims:\n  - {claim: x, date: d, unit: u, run: r, outcome: o}\n")
    (html / "index.html").write_text(
        """<article><p>As in {numref}`fig-x`.</p><code>{numref}</code>
        <div class="output traceback">ValueError</div><div class="output stderr">oh</div>
        <pre>&lt;IPython.core.display.Markdown object&gt;</pre>
        <p>gains <span class="pasted-text">nan</span> points in Canandaigua</p>
        <figure id="fig-a"><img src="../_images/a.png" alt="../_images/a.png"></figure>
        <dl class="py"><dt>f</dt><dd><code>$x$</code> $x$</dd></dl>
        <a href="#here">1</a><a href="away.html">2</a><a href="https://example.org">3</a></article>"""
    )
    (html / "read.html").write_text(
        """<article><p>One matrix a layer.</p><pre>not counted</pre>
        <div class="cell tag_remove-input"><div class="cell_output"><pre>1 2</pre></div></div>
        <img src="small.svg" alt="8 points on a page of 724"></article>"""
    )
    (html / "small.svg").write_text('<svg viewBox="0 0 543 100"><g transform="scale(0.08 -0.08)"/></svg>')
    pages, figures, problems = check_book.check(tmp_path)
    assert (pages, figures) == (3, 1)
    wanted = [
        "the page was not built",
        "claims.yaml: 'x' lacks rule",
        "claims.yaml: 'x': r is neither a page nor a run",
        "index.html: not there",
        "an error in a cell",
        "messages on standard error",
        "the name of an object in place of what it shows: '<IPython.core.display.Markdown object>'",
        "a glued number that is none: 'gains nan points",
        "left unresolved: 'As in {numref}",
        "left unresolved: '$x$'",
        "no caption with a number",
        "the file is not there",
        "no alternative text",
        "link to #here: no such place",
        "link to away.html: no such file",
        "2 pages to read, at most 1",
        "4 words, at most 3",
        "'matrix a layer': write 'per'",
        "text of 5.3 pixels on a phone",
        "printed text in place of a table or a sentence: '1 2'",
        "a visible cell of 1 lines, at most 0",
        "a visible line of 5 columns, at most 3",
        "x is used in a visible cell, and defined above in no cell that a reader sees",
    ]
    assert [part for part in wanted if not any(part in problem for problem in problems)] == []
    assert len(problems) == len(wanted)


FOLDED, REMOVED = ":tags: [hide-input]\n", ":tags: [remove-cell]\n"


@pytest.mark.parametrize(
    ("above", "code", "problems"),
    [
        ("x = 2", "print(x)", []),
        ("", "x = 2\nx += len([y for y in range(x)])", []),
        (FOLDED + "x = 2", FOLDED + "print(x)", []),
        ("x = 2", "def f(y, z=x):\n    return y + later\n\n\nlater = 1", []),
        (FOLDED + "x = 2", "print(x)", ["x is used in a visible cell, and defined above in a folded cell"]),
        (REMOVED + "x = 2", FOLDED + "print(x)", ["x is used in a folded cell, and defined above in no cell that"]),
        ("y = 2", "def f(y):\n    return x + y", ["x is used in a visible cell, and defined above in no cell that"]),
    ],
)
def test_names_that_a_reader_does_not_see_are_found(tmp_path, above, code, problems):
    page = tmp_path / "page.md"
    page.write_text(PAGE.format(above) + PAGE.format(code))
    found = list(check_book.undefined(page))
    assert len(found) == len(problems) and all(map(str.startswith, found, problems))


@pytest.mark.parametrize(
    "number, bound, problem",
    [
        (0.2, "> 0.1", None),
        (0.2, "> 0.1, < 0.15", "0.2"),
        (-0.5, "<= -0.5", None),
        (None, "> 0", "not there"),
        ("0.2", "> 0", "'0.2', no number"),
        (0.2, "about 0.2", "compared with something that is no bound"),
    ],
)
def test_number_outside_its_bound_is_found(number, bound, problem):
    assert check_book.outside(number, bound) == problem
