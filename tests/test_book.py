"""The book's helpers, its settings, and the scripts that build and check it."""

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
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
    from attention_book.notebooks import runs

    monkeypatch.chdir(ROOT)
    for chapter in runs.chapters():
        for name, one in runs.parameters_of(chapter).items():
            assert one.help, f"{chapter}, {name}: a comment that says what it is"
            if "int" in one.type or "float" in one.type:
                assert one.allowed, f"{chapter}, {name}: bounds, as in `# width N, in [1, 100]`"


def test_the_hash_sees_names_and_contents_but_not_line_ends(tmp_path):
    from attention_book.results import hash_files

    first, second = tmp_path / "a.py", tmp_path / "b.py"
    found = []
    for contents in (
        (b"x = 1\n", b"y = 2\n"),
        (b"x = 1\r\n", b"y = 2\n"),
        (b"y = 2\n", b"x = 1\n"),
        (b"x = 2\n", b"y = 2\n"),
    ):
        for path, content in zip((first, second), contents, strict=True):
            path.write_bytes(content)
        found.append(hash_files([second, first], tmp_path))
    assert found[0] == found[1] and len(set(found)) == 3


@pytest.fixture
def tiny_book(tmp_path, monkeypatch):
    """A project of one page with this book's settings."""
    import build_book

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
    """The pages that a build says it executed, each on a line of its own."""
    return sorted(re.findall(r"^book/(\S+): \d+ s$", said, flags=re.MULTILINE))


def test_broken_pages_are_all_named_until_they_are_mended_and_the_others_are_kept(tiny_book, monkeypatch, capfd):
    import build_book
    import check_book

    more_pages(tiny_book, "other", "third")
    cells = {"index": "print(6 * 7)", "other": "1 / 0", "third": "raise ValueError('third')"}
    for name, source in cells.items():
        (tiny_book / "book" / f"{name}.md").write_text(PAGE.format(source))
    monkeypatch.setattr("sys.argv", ["build_book", "--jobs", "2"])
    for wanted in (["index"], []):
        assert build_book.main() != 0
        said = capfd.readouterr()
        assert executed(said.out) == wanted and "book/other: CellExecutionError" in said.out
        assert "ZeroDivisionError: division by zero" in said.err and "ValueError: third" in said.err
    for name in ("other", "third"):
        (tiny_book / "book" / f"{name}.md").write_text(PAGE.format("print(6 * 8)"))
    assert build_book.main() == 0
    said = capfd.readouterr().out
    assert executed(said) == ["other", "third"] and str(tiny_book / "_build" / "html" / "index.html") in said
    shown = (tiny_book / "_build" / "html" / "book" / "other.html").read_text()
    # Without an address of the project a page has its notebook alone to be opened.
    assert "48" in shown and "_sources/book/other.ipynb" in shown and "mybinder.org" not in shown
    assert check_book.check(tiny_book) == (3, 0, [])
    assert "mathjax/tex-svg.js" in shown or (tiny_book / "_build" / "html" / "_static/mathjax/tex-svg.js").is_file()
    # Sphinx took the outputs as they are, and what it says is in a file.
    log = (tiny_book / "_build" / "book.log").read_text()
    assert "build succeeded" in log and "Executing notebook" not in log


def test_a_page_is_executed_again_only_if_its_cells_or_what_it_may_read_have_changed(tiny_book, capsys):
    import build_book

    page, record = tiny_book / "book" / "index.md", tiny_book / "results" / "a.nc"
    record.parent.mkdir()
    page.write_text(PAGE.format(f"from pathlib import Path\nprint(Path({str(record)!r}).exists())"))

    def built():
        assert build_book.main() == 0
        shown = (tiny_book / "_build" / "html" / "book" / "index.html").read_text()
        return executed(capsys.readouterr().out), re.findall(r">(True|False)\n<|Another (title)", shown)[0]

    assert built() == (["index"], ("False", ""))
    record.write_text("seen")
    assert built() == (["index"], ("True", ""))
    # Text that is no cell is rendered, not executed.
    page.write_text(page.read_text().replace("# A page", "# Another title"))
    assert built() == ([], ("", "title"))


def test_page_is_stale_when_anything_that_it_may_read_changes(tiny_book):
    import build_book

    wanted = dict.fromkeys(("constraints.txt", "src/package/a.py", "src/package/a.js", "results/a.nc"), True)
    for name, changes in (wanted | {"_static/book.css": False, "book/text.md": False}).items():
        before = [build_book.fingerprint(tiny_book, names) for names in (build_book.READ, build_book.SOURCES)]
        (tiny_book / name).parent.mkdir(parents=True, exist_ok=True)
        (tiny_book / name).write_text(name)
        now = [build_book.fingerprint(tiny_book, names) for names in (build_book.READ, build_book.SOURCES)]
        assert [one != other for one, other in zip(before, now, strict=True)] == [changes, True], name


def test_check_finds_what_is_broken_in_a_built_book(tmp_path, monkeypatch):
    import check_book

    monkeypatch.setattr(check_book, "WORDS", 3)
    monkeypatch.setattr(check_book, "PAGES", 1)
    monkeypatch.setattr(check_book, "FOLDED", 1)
    monkeypatch.setattr(check_book, "VISIBLE", 0)

    html = tmp_path / "_build" / "html" / "book"
    html.mkdir(parents=True)
    contents = "root: book/index\nparts:\n- chapters:\n  - file: book/gone\n  - file: book/read\n"
    (tmp_path / "_toc.yml").write_text(contents)
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "index.md").write_text("mystnb:\n  figure:\n    name: fig-curve\n")
    (tmp_path / "book" / "read.md").write_text(PAGE.format("1") + PAGE.format(":tags: [hide-input]\n2\n\n3"))
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
        "figure fig-curve: named in the source",
        "2 pages to read, at most 1",
        "4 words, at most 3",
        "'matrix a layer': write 'per'",
        "text of 5.3 pixels on a phone",
        "printed text in place of a table or a sentence: '1 2'",
        "a visible cell of 1 lines, at most 0",
        "2 lines of folded and hidden code, at most 1",
    ]
    assert [part for part in wanted if not any(part in problem for problem in problems)] == []
    assert len(problems) == len(wanted)


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
    import check_book

    assert check_book.outside(number, bound) == problem


def test_claim_without_a_rule_is_found(tmp_path):
    import check_book

    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "claims.yaml").write_text("claims:\n  - {claim: x, date: d, unit: u, run: r, outcome: o}\n")
    assert check_book.claims(tmp_path) == ["claims.yaml: 'x' lacks rule"]
