"""The book's helpers, its settings, and the scripts that build and check it."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
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


def test_an_equation_of_several_lines_with_a_number_is_written_as_one():
    # Sphinx puts what stands between dollars and has several lines into an environment that refuses a number.
    for page in (ROOT / "book").rglob("*.md"):
        between = re.findall(r"^\$\$\n(.*?)^\$\$", page.read_text(), re.MULTILINE | re.DOTALL)
        wrong = [one for one in between if r"\\" in one and r"\tag" in one]
        assert wrong == [], f"{page}: write \\begin{{equation*}} .. \\end{{equation*}} in place of the dollars"


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
    from attention_book.notebooks import runs

    monkeypatch.chdir(ROOT)
    for chapter in runs.chapters():
        for name, one in runs.parameters_of(chapter).items():
            assert one.help, f"{chapter}, {name}: a comment that says what it is"
            if "int" in one.type or "float" in one.type:
                assert one.allowed, f"{chapter}, {name}: bounds in the cell's metadata, as in {{ge: 1}}"


def test_the_hash_sees_names_and_contents_but_not_line_ends(tmp_path):
    from attention_book.records import hash_files

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


def more_pages(root, *names):
    """Write a table of contents with these pages beside the first one."""
    chapters = "".join(f"      - file: book/{name}\n" for name in names)
    (root / "_toc.yml").write_text(
        f"format: jb-book\nroot: book/index\nparts:\n  - caption: more\n    chapters:\n{chapters}"
    )


def executed(said):
    """The pages that a build says it executed, each on a line of its own where nobody watches."""
    return sorted(re.findall(r"^book/(\S+): \d+ s \(", said, flags=re.MULTILINE))


def test_a_broken_page_breaks_every_build_until_it_is_mended(tiny_book, capsys):
    import build_book
    import check_book

    page = tiny_book / "book" / "index.md"
    page.write_text(PAGE.format("1 / 0"))
    for _ in range(2):
        assert build_book.main() != 0
        assert "ZeroDivisionError: division by zero" in capsys.readouterr().err
    page.write_text(PAGE.format("print(6 * 7)"))
    assert build_book.main() == 0
    said = capsys.readouterr().out
    assert str(tiny_book / "_build" / "html" / "index.html") in said and len(said.splitlines()) < 10
    assert check_book.check(tiny_book) == (1, 0, [])
    # Interactive figures ask for the one, formulas for the other, which is MathJax as its makers ship it.
    static = tiny_book / "_build" / "html" / "_static"
    assert (static / "plotly.min.js").is_file()
    digest = hashlib.sha256((static / build_book.MATHJAX).read_bytes()).hexdigest()
    assert digest == "a4354ff94fd868aea0cc6eaaa79a57fda0588646fc46ee3700a349ee0a11cbe6"
    # Sphinx took the outputs as they are, and what it says is in a file.
    log = (tiny_book / "_build" / "book.log").read_text()
    assert "build succeeded" in log and "Executing notebook" not in log


def test_a_page_is_executed_anew_only_if_what_it_read_has_changed(tiny_book, capsys, monkeypatch):
    import build_book

    more_pages(tiny_book, "reads", "lists", "imports")
    (tiny_book / "src").mkdir()
    (tiny_book / "results").mkdir()
    (tiny_book / "src" / "mine.py").write_text("def answer():\n    return 42\n")
    monkeypatch.setenv("PYTHONPATH", str(tiny_book / "src"), prepend=os.pathsep)
    start = "from pathlib import Path\nfolder = Path('../results')\n"
    sources = {
        "index": "print('nothing')",
        "reads": start + "print((folder / 'a.nc').exists() and (folder / 'a.nc').read_text())",
        "lists": start + "print(len(list(folder.glob('b*.nc'))))",
        "imports": "import mine\nprint(mine.answer())",
    }
    for name, source in sources.items():
        (tiny_book / "book" / f"{name}.md").write_text(PAGE.format(source))

    (tiny_book / "_build").mkdir()
    (tiny_book / "_build" / ".done").write_text("1cb2e538f7cee787")  # as an earlier version left it

    def built():
        assert build_book.main() == 0
        return executed(capsys.readouterr().out)

    def shows(name, text):
        return f">{text}\n<" in (tiny_book / "_build" / "html" / "book" / f"{name}.html").read_text()

    assert built() == sorted(sources)
    assert shows("reads", "False") and shows("lists", "0") and shows("imports", "42")
    assert built() == []
    (tiny_book / "results" / "a.nc").write_text("seen")
    assert built() == ["reads"] and shows("reads", "seen")
    (tiny_book / "results" / "a.nc").write_text("other")
    assert built() == ["reads"] and shows("reads", "other")
    (tiny_book / "results" / "b1.nc").write_text("")
    assert built() == ["lists"] and shows("lists", "1") and shows("reads", "other")
    (tiny_book / "src" / "mine.py").write_text("def answer():\n    return 43\n")
    assert built() == ["imports"] and shows("imports", "43") and shows("lists", "1")
    # Text that is no cell is rendered, not executed; the versions are everybody's.
    page = tiny_book / "book" / "index.md"
    page.write_text(page.read_text().replace("# A page", "# Another title"))
    assert built() == []
    assert "Another title" in (tiny_book / "_build" / "html" / "book" / "index.html").read_text()
    (tiny_book / "requirements.txt").write_text("jax<1\n")
    assert built() == sorted(sources)


def test_as_many_pages_at_a_time_as_there_are_cores_and_memory(monkeypatch):
    import build_book

    monkeypatch.setattr(build_book, "cores", lambda: 4)
    pages = []
    for gibibytes in (64, 5, 1):
        monkeypatch.setattr("os.sysconf", lambda name, size=gibibytes: {"SC_PAGE_SIZE": 4096}.get(name, size * 2**18))
        pages.append(build_book.pages_at_a_time())
    assert pages == [4, 2, 1]


def test_the_longest_page_is_first_and_one_that_starts_another_python_depends_on_the_whole_package(tiny_book, capsys):
    from execute_pages import execute
    from page_cache import PageCache

    source = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'pass'], check=True)"
    (tiny_book / "book" / "index.md").write_text(PAGE.format(source))
    (tiny_book / "book" / "longer.md").write_text(PAGE.format("print(6)\n" * 20))
    more_pages(tiny_book, "longer")
    (tiny_book / "src").mkdir()
    (tiny_book / "src" / "unseen.py").write_text("")
    with open(tiny_book / "log", "w") as log:
        cache = PageCache(tiny_book)
        assert execute(cache, cache.stale(), 1, 60, dict(os.environ), log) == {}
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == ["book/longer", "book/index"]
    assert cache.stale() == {}
    (tiny_book / "src" / "unseen.py").write_text("changed = True\n")
    assert cache.stale() == {"book/index": "src/unseen.py changed"}


def test_what_changes_while_a_page_is_executed_is_not_taken_for_what_it_read(tmp_path):
    from page_cache import state

    path = tmp_path / "module.py"
    path.write_text("before")
    began = path.stat().st_mtime + 1
    known = state(path, began)
    assert known == state(path) and len(known) == 16
    os.utime(path, (began + 1, began + 1))
    assert state(path, began) == "changed meanwhile" != state(path)
    assert (state(tmp_path), state(tmp_path / "gone")) == ("folder", "nothing")


def test_broken_pages_are_all_named_and_the_others_are_kept(tiny_book, monkeypatch, capfd):
    import build_book

    more_pages(tiny_book, "other", "third")
    (tiny_book / "book" / "index.md").write_text(PAGE.format("print(6 * 7)"))
    (tiny_book / "book" / "other.md").write_text(PAGE.format("1 / 0"))
    (tiny_book / "book" / "third.md").write_text(PAGE.format("raise ValueError('third')"))
    monkeypatch.setattr("sys.argv", ["build_book", "--jobs", "2"])
    assert build_book.main() != 0
    said = capfd.readouterr()
    assert executed(said.out) == ["index"] and "book/other: CellExecutionError" in said.out
    assert "ZeroDivisionError" in said.err and "ValueError: third" in said.err
    for name in ("other", "third"):
        (tiny_book / "book" / f"{name}.md").write_text(PAGE.format("print(6 * 8)"))
    assert build_book.main() == 0
    assert executed(capfd.readouterr().out) == ["other", "third"]
    assert "48" in (tiny_book / "_build" / "html" / "book" / "other.html").read_text()


def test_a_reference_that_leads_nowhere_any_more_breaks_the_build(tiny_book, capfd):
    import build_book

    more_pages(tiny_book, "other")
    (tiny_book / "book" / "index.md").write_text("# First\n\nSee [there](there).\n")
    (tiny_book / "book" / "other.md").write_text("# Other\n\n(there)=\n## There\n")
    assert build_book.main() == 0
    # The page with the reference is the same; what it refers to is not.
    (tiny_book / "book" / "other.md").write_text("# Other\n\n## There\n")
    for _ in range(2):
        assert build_book.main() != 0
        assert "book/index.md" in capfd.readouterr().err


def test_progress_is_one_line_where_somebody_watches(monkeypatch):
    import io

    from progress import Progress

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "100")
    terminal, log = Terminal(), io.StringIO()
    for file in (terminal, log):
        progress = Progress(3, "pages", file)
        for name in ("a", "b"):
            progress.begin(name)
        progress.end("a", "5 s")
        progress.show()
        assert re.fullmatch(r"\d:\d\d  1 of 3 pages done, 1 left; running: b \d:\d\d", progress.line())
        progress.close()
    assert terminal.getvalue().count("\n") == 1 and "1 of 3 pages done" in terminal.getvalue()
    assert log.getvalue() == "a: 5 s (1 of 3)\n"


def test_compiled_programs_are_kept_apart_by_processor(tmp_path, monkeypatch):
    import compiled

    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    described = "processor : {}\nmodel name : {}\ncpu MHz : 2{}00\nflags : fpu avx2{}\n"
    keys = []
    for facts in ((0, "one", 1, ""), (1, "one", 2, ""), (0, "two", 1, ""), (0, "one", 1, " avx512f")):
        (tmp_path / "cpuinfo").write_text(described.format(*facts))
        keys.append(compiled.machine(tmp_path / "cpuinfo"))
    assert keys[0] == keys[1] and len(set(keys)) == 3
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0")
    assert compiled.machine(tmp_path / "cpuinfo") not in keys
    environment = {"XLA_FLAGS": "--xla_some=1", "TF_CPP_MIN_LOG_LEVEL": "1"}
    compiled.share(environment, tmp_path)
    assert environment["XLA_FLAGS"] == "--xla_some=1 --xla_cpu_max_isa=AVX2"
    assert Path(environment["JAX_COMPILATION_CACHE_DIR"]).parent == tmp_path
    before = dict(environment)
    compiled.share(environment, tmp_path / "elsewhere")
    assert environment == before


SHARED = """
import sys
import jax, jax.numpy as jnp
from jax._src import monitoring

hits = []
monitoring.register_event_listener(lambda event, **_: hits.append(event.endswith("/cache_hits")))
jax.config.update("jax_enable_x64", True)
values = jax.random.normal(jax.random.key(0), (50, 50))
found = jax.jit(lambda x: jnp.linalg.eigh(x @ x.T + jnp.sin(x).sum() * jnp.eye(50)))(values)
print(sum(hits), found[0].tolist(), float(jnp.abs(found[1]).sum()))
"""


def test_a_second_process_loads_what_the_first_compiled_without_a_word(tmp_path):
    import compiled

    # A cache of its own, not that of the tests.
    environment = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    compiled.share(environment, tmp_path)
    runs = [
        subprocess.run([sys.executable, "-c", SHARED], env=environment, check=True, capture_output=True, text=True)
        for _ in range(2)
    ]
    # What another process has not yet written completely is compiled, too.
    kept = max(tmp_path.rglob("*-cache"), key=lambda path: path.stat().st_size)
    kept.write_bytes(kept.read_bytes()[:100])
    runs.append(subprocess.run([sys.executable, "-c", SHARED], env=environment, capture_output=True, text=True))
    assert [run.stderr for run in runs] == ["", "", ""]
    hits, numbers = zip(*(run.stdout.split(maxsplit=1) for run in runs), strict=True)
    assert len(set(numbers)) == 1
    first, second, third = map(int, hits)
    assert first < third < second


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
