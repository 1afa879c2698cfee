"""The pages as notebooks: where the buttons lead, and what the first cell installs."""

import re
import subprocess
import sys

import nbformat
import page_notebooks
import pytest
from bs4 import BeautifulSoup
from test_book import PAGE, more_pages, tiny_book  # noqa: F401  a fixture

PLACE = "https://github.com/somebody/the-book"


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        ("https://github.com/somebody/the-book", PLACE),
        ("https://github.com/somebody/the-book.git", PLACE),
        ("https://name:secret@github.com/somebody/the-book.git", PLACE),
        ("git@github.com:somebody/the-book.git", PLACE),
        ("ssh://git@github.com:22/somebody/the-book.git", PLACE),
        ("/srv/git/the-book", None),
        ("https://example.org/somebody/the-book", None),
    ],
)
def test_the_address_is_where_the_checkout_came_from(tmp_path, said, wanted):
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    assert page_notebooks.address({}, tmp_path) is None
    subprocess.run(["git", "-C", str(tmp_path), "remote", "add", "origin", said], check=True)
    assert page_notebooks.address({"repository": {"url": ""}}, tmp_path) == wanted
    other = "https://gitlab.com/others/book"
    assert page_notebooks.address({"repository": {"url": other}}, tmp_path) == other


def links(page):
    html = BeautifulSoup(page.read_text(), "html.parser")
    return [link["href"] for link in html.select("a[href]") if re.search(r"ipynb|binder|colab", link["href"])]


def test_every_button_leads_to_a_notebook_that_the_build_made(tiny_book):  # noqa: F811
    import build_book

    config = tiny_book / "_config.yml"
    (tiny_book / "book" / "part").mkdir()
    (tiny_book / "book" / "index.md").write_text("# First\n\nNo cells.\n")
    (tiny_book / "book" / "part" / "cells.md").write_text(PAGE.format("print(6 * 7)"))
    more_pages(tiny_book, "part/cells")
    html, made = tiny_book / "_build" / "html", tiny_book / "_build" / "notebooks"
    assert config.read_text().count('url: ""') == 1
    config.write_text(config.read_text().replace('url: ""', f"url: {PLACE}"))
    assert build_book.main() == 0
    assert links(html / "book" / "index.html") == []
    binder, colab, downloaded = links(html / "book" / "part" / "cells.html")
    (path,) = made.rglob("*.ipynb")
    name = path.relative_to(made).as_posix()
    assert binder == f"https://mybinder.org/v2/gh/somebody/the-book/notebooks?urlpath=lab/tree/{name}"
    assert colab == f"https://colab.research.google.com/github/somebody/the-book/blob/notebooks/{name}"
    copy = html / "book" / "part" / downloaded
    assert copy.read_bytes() == path.read_bytes()
    cells = nbformat.read(path, as_version=4).cells
    nbformat.validate(nbformat.read(path, as_version=4))
    assert [cell.source for cell in cells if cell.cell_type == "code"][1:] == ["print(6 * 7)"]
    assert f'"--branch", "notebooks", "{PLACE}"' in cells[0].source


@pytest.mark.parametrize("where", [PLACE, None])
def test_the_first_cell_gets_what_is_missing_and_nothing_else(tmp_path, where):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "cells.md").write_text(PAGE.format("print(6 * 7)"))
    page_notebooks.export(tmp_path, ["book/cells"], tmp_path / "build", where, "notebooks")
    (path,) = (tmp_path / "build" / "notebooks").rglob("*.ipynb")
    first = nbformat.read(path, as_version=4).cells[0].source
    (tmp_path / "elsewhere").mkdir()
    start = """
import importlib.util, os, subprocess
def run(command, check):
    print(*command[:2], command[-1])
    if command[0] == "git":
        os.makedirs(command[-1] + "/book")
subprocess.run = run
importlib.util.find_spec = lambda name: {}
"""

    def ran(found):
        code = start.format(found) + first + "\nprint(os.path.basename(os.getcwd()))"
        return subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "elsewhere", capture_output=True, text=True)

    assert ran("name").stdout == "elsewhere\n"
    missing = ran(None)
    if where is None:
        assert "ModuleNotFoundError: no attention_book. Write" in missing.stderr
    else:
        assert missing.stdout == f"git clone the-book\n{sys.executable} -m ./the-book[book]\nbook\n"
        # After a restart of the kernel: installed by now, and the pages are where they were.
        assert ran("name").stdout == "book\n"
