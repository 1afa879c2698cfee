"""The script that writes what the README takes from the executed book and the records."""

import sys

import nbformat.v4 as v4
import pytest
import readme
from execute_pages import READER
from jupyter_cache import get_cache
from jupyter_cache.base import CacheBundleIn
from jupyter_cache.readers import get_reader

from attention_book.notebooks.pages import AGREEMENT

PAGE = """\
---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---

# A page

```{code-cell}
print("a cell")
```
"""


def row(figure, says, recorded=False):
    data = {AGREEMENT: {"figure": figure, "what": "shown", "says": says, "recorded": recorded}}
    return v4.new_output("display_data", data)


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A project whose pages have outputs; a function that writes what one page puts out."""
    (tmp_path / "_toc.yml").write_text(
        "root: book/index\nparts:\n- chapters:\n  - file: book/theory/choosing_paths\n  - file: book/other\n"
    )
    (tmp_path / "_build").mkdir()
    (tmp_path / "_build" / ".done").write_text("{}")
    for name in ("index", "other", "theory/choosing_paths"):
        page = tmp_path / "book" / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text("# No notebook\n" if name == "index" else PAGE)
    marks = "\n".join(
        readme.BEGIN.format(name) + "old\n" + readme.END.format(name) for name in ("figure", "agreement", "recorded")
    )
    (tmp_path / "README.md").write_text(f"# Title\n\n{marks}\n\nThe end.\n")
    html = tmp_path / "_build" / "html" / "book" / "theory"
    html.mkdir(parents=True)
    (html / "choosing_paths.html").write_text('<figure id="fig-choosing-accuracy"><img src="curve.svg"></figure>')
    (html / "curve.svg").write_text("<svg>\n  <dc:date>2026-11-22</dc:date>\n</svg>")

    def put_out(name, *outputs):
        page = tmp_path / "book" / f"{name}.md"
        page.write_text(PAGE.replace("a cell", name))
        notebook = get_reader(READER)(str(page))
        notebook.cells[-1].outputs = list(outputs)
        get_cache(tmp_path / ".cache" / "book").cache_notebook_bundle(
            CacheBundleIn(nb=notebook, uri=str(page)), check_validity=False, overwrite=True
        )

    draws = {"application/papermill.record/text/plain": "10"}
    glued = v4.new_output("display_data", draws, metadata={"scrapbook": {"name": "hmc_draws"}})
    put_out("theory/choosing_paths", glued, row("2(c)", "yes"), row("10", "late"))
    put_out("other", row("2(a), 2(b)", "within 0.6 points", recorded=True))
    return tmp_path, put_out


def run(monkeypatch, root, *options):
    monkeypatch.setattr(sys, "argv", ["readme", "--root", str(root), *options])
    return readme.main()


def test_the_blocks_are_written_and_the_rest_is_left_alone(book, monkeypatch, capsys):
    root, put_out = book
    assert run(monkeypatch, root, "--check") == 1
    assert "within 0.6 points" in capsys.readouterr().err
    assert "old" in (root / "README.md").read_text()
    assert run(monkeypatch, root) == 0
    text = (root / "README.md").read_text()
    assert text.startswith("# Title\n") and text.endswith("\nThe end.\n") and "old" not in text
    assert "theory, over 10 draws of data and random heads." in text
    link = "[theory/choosing_paths](book/theory/choosing_paths.md)"
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert table == [
        "| figure of the paper | chapter | command | agreement |",
        "| 2(a), 2(b): shown | [other](book/other.md) | `make reproduce`, `make book` | within 0.6 points |",
        f"| 2(c): shown | {link} | `... run theory/choosing_paths` | yes |",
        f"| 10: shown | {link} | `... run theory/choosing_paths` | late |",
    ]
    assert "|---|---|---|---|" in text
    assert "No network is recorded." in text
    assert (root / "book" / "images" / "accuracy.svg").read_text() == "<svg>\n</svg>"
    assert run(monkeypatch, root, "--check") == 0
    put_out("other", row("2(a), 2(b)", "within 0.7 points"))
    assert run(monkeypatch, root, "--check") == 1
    assert "within 0.7 points" in capsys.readouterr().err
