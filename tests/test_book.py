"""The book's helpers, its settings, and the scripts that build and check it."""

import re
import shutil
import tomllib
from pathlib import Path

import pytest
import yaml

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


def requirements(path: Path) -> list[str]:
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def test_pyproject_and_requirements_say_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert [*project["dependencies"], *extras["book"], *extras["tests"]] == requirements(ROOT / "requirements.txt")
    assert extras["images"] == requirements(ROOT / "requirements-images.txt")


@pytest.mark.parametrize("minor", ["3.11", "3.12", "3.13"])
def test_the_tested_versions_lie_within_the_bounds(minor):
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    pinned = dict(line.split("==") for line in requirements(ROOT / "constraints" / f"python{minor}.txt"))
    pinned = {canonicalize_name(name): version for name, version in pinned.items()}
    for requirement in map(Requirement, requirements(ROOT / "requirements.txt")):
        assert {">=", "<"} <= {bound.operator for bound in requirement.specifier}, f"{requirement}: floor, ceiling"
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement.name


def test_every_page_of_the_table_of_contents_is_there():
    import check_book

    pages = check_book.page_names(yaml.safe_load((ROOT / "_toc.yml").read_text()))
    assert pages[0] == "book/index"
    assert [name for name in pages if not (ROOT / f"{name}.md").is_file()] == []


def test_links_between_pages_lead_to_pages_of_the_book():
    import check_book

    # Sphinx says so too, but after all pages were executed.
    pages = [ROOT / f"{name}.md" for name in check_book.page_names(yaml.safe_load((ROOT / "_toc.yml").read_text()))]
    for page in pages:
        links = re.findall(r"\]\((?!\w+:)([^)#\s]+\.(?:md|ipynb))[^)]*\)", page.read_text())
        assert [link for link in links if (page.parent / link).resolve() not in pages] == [], page


def test_every_page_that_reads_records_says_how_they_were_made():
    import check_book

    reads = re.compile(r"results\.load\(|results\.record\(|\brecorded_\w+\(|\bload_network\(")
    for name in check_book.page_names(yaml.safe_load((ROOT / "_toc.yml").read_text())):
        text = (ROOT / f"{name}.md").read_text()
        assert not reads.search(text) or "pages.made(" in text, (
            f"{name}: wanted a line by pages.made below the first figure"
        )


def test_every_page_with_a_figure_of_the_paper_says_how_well_it_is_reproduced():
    table = (ROOT / "book" / "index.md").read_text().split("## The figures of the paper")[1]
    pages = re.findall(r"^\| \d.*\]\((\S+\.md)\)", table, flags=re.MULTILINE)
    assert len(pages) > 10
    assert [page for page in pages if "pages.agreement(" not in (ROOT / "book" / page).read_text()] == []


def test_every_parameter_of_the_book_has_a_help_and_a_range(monkeypatch):
    from statmech_attention.notebooks import runs

    monkeypatch.chdir(ROOT)
    for chapter in runs.chapters():
        for name, one in runs.parameters_of(chapter).items():
            assert one.help, f"{chapter}, {name}: a comment that says what it is"
            if "int" in one.type or "float" in one.type:
                assert one.allowed, f"{chapter}, {name}: bounds in the cell's metadata, as in {{ge: 1}}"


def test_the_hash_sees_names_and_contents_but_not_line_ends(tmp_path):
    from statmech_attention.results.provenance import hash_files

    first, second = tmp_path / "a.py", tmp_path / "b.py"
    first.write_bytes(b"x = 1\n")
    second.write_bytes(b"y = 2\n")
    before = hash_files([first, second], tmp_path)
    assert hash_files([second, first], tmp_path) == before
    first.write_bytes(b"x = 1\r\n")
    assert hash_files([first, second], tmp_path) == before
    first.write_bytes(b"x = 2\n")
    assert hash_files([first, second], tmp_path) != before
    first.write_bytes(b"y = 2\n")
    second.write_bytes(b"x = 1\n")
    assert hash_files([first, second], tmp_path) != before


@pytest.fixture
def tiny_book(tmp_path, monkeypatch):
    """A project of one page with this book's settings."""
    import build_book

    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "references.bib").write_text("")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/index\n")
    shutil.copy(ROOT / "_config.yml", tmp_path)
    shutil.copytree(ROOT / "_ext", tmp_path / "_ext")
    (tmp_path / "requirements.txt").write_text("jax\n")
    monkeypatch.setattr(build_book, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["build_book"])
    return tmp_path


def test_a_broken_page_breaks_every_build_until_it_is_mended(tiny_book, capsys):
    import build_book
    import check_book

    page = tiny_book / "book" / "index.md"
    page.write_text(PAGE.format("1 / 0"))
    for _ in range(2):
        assert build_book.main() != 0
        assert "ZeroDivisionError" in capsys.readouterr().err
    page.write_text(PAGE.format("print(6 * 7)"))
    assert build_book.main() == 0
    assert str(tiny_book / "_build" / "html" / "index.html") in capsys.readouterr().out
    assert check_book.check(tiny_book) == (1, 0, [])
    # Interactive figures ask for it.
    assert (tiny_book / "_build" / "html" / "_static" / "plotly.min.js").is_file()
    # The same cells under another state of the project are executed again, not taken from the cache.
    (tiny_book / "requirements.txt").write_text("jax<1\n")
    assert build_book.main() == 0
    assert "Executing notebook" in capsys.readouterr().out
    assert build_book.main() == 0
    assert "Executing notebook" not in capsys.readouterr().out


def test_pages_executed_ahead_are_not_executed_again_and_broken_ones_still_break(tiny_book, monkeypatch, capfd):
    import build_book

    (tiny_book / "_toc.yml").write_text(
        "format: jb-book\nroot: book/index\nparts:\n  - caption: more\n    chapters:\n      - file: book/other\n"
    )
    (tiny_book / "book" / "index.md").write_text(PAGE.format("print(6 * 7)"))
    (tiny_book / "book" / "other.md").write_text(PAGE.format("1 / 0"))
    monkeypatch.setattr("sys.argv", ["build_book", "--jobs", "2"])
    assert build_book.main() != 0
    said = capfd.readouterr()
    assert "book/other.md: CellExecutionError" in said.out and "ZeroDivisionError" in said.err
    (tiny_book / "book" / "other.md").write_text(PAGE.format("print(6 * 8)"))
    assert build_book.main() == 0
    said = capfd.readouterr().out
    assert re.findall(r"^(book/.*): \d+ s$", said, flags=re.MULTILINE) == ["book/other.md"]
    assert "Executing notebook" not in said
    assert "48" in (tiny_book / "_build" / "html" / "book" / "other.html").read_text()


def test_the_check_finds_what_is_broken(tmp_path):
    import check_book

    html = tmp_path / "_build" / "html" / "book"
    html.mkdir(parents=True)
    (tmp_path / "_toc.yml").write_text("root: book/index\nparts:\n- chapters:\n  - file: book/gone\n")
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "index.md").write_text("mystnb:\n  figure:\n    name: fig-curve\n")
    (html / "index.html").write_text(
        """<article><p>As in {numref}`fig-x`.</p><code>{numref}</code>
        <div class="output traceback">ValueError</div><div class="output stderr">oh</div>
        <figure id="fig-a"><img src="../_images/a.png" alt="../_images/a.png"></figure>
        <a href="#here">1</a><a href="away.html">2</a><a href="https://example.org">3</a></article>"""
    )
    pages, figures, problems = check_book.check(tmp_path)
    assert (pages, figures) == (2, 1)
    wanted = [
        "the page was not built",
        "index.html: not there",
        "an error in a cell",
        "messages on standard error",
        "left unresolved: 'As in {numref}",
        "no caption with a number",
        "the file is not there",
        "no alternative text",
        "link to #here: no such place",
        "link to away.html: no such file",
        "figure fig-curve: named in the source",
    ]
    assert [part for part in wanted if not any(part in problem for problem in problems)] == []
    assert len(problems) == len(wanted)
