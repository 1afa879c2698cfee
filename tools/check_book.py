"""Check the built book for missing pages and figures, broken output and dead links."""

import builtins
import math
import operator
import re
import symtable
import sys
from copy import copy
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from bs4 import BeautifulSoup, Tag

from attention_book.pages import FACTS

ROOT = Path(__file__).resolve().parents[1]
# What is on a page if something went wrong, as CSS selectors.
BROKEN = {
    "div.output.traceback": "an error in a cell",
    "div.output.stderr": "messages on standard error",
    ".system-message": "a message of the parser",
    ".problematic": "a role or reference that was not understood",
}
# Roles that were left as they were written, references without a target, and formulas and code of
# docstrings.
UNRESOLVED = re.compile(r"\{(?:numref|ref|eq|doc|cite\S*|glue\S*|math)\}|\?\?|\bNone:")
UNMARKED = re.compile(r"[$`]|:math:")
# The parts to look things up in; the others are read, and have a length.
LISTED = re.compile(r"^[\s-]*(?:root|file): (\S+)$", re.MULTILINE)
LOOKED_UP = ("Using it", "Appendix")
PAGES, WORDS, FIGURES = 30, 1500, 6  # at most: pages to read; words and figures on each
VISIBLE, COLUMNS = 25, 84  # lines at most of a cell that is shown, and columns of each of them
HIDDEN = re.compile(r"hide-input|hide-cell|remove-input|remove-cell")
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(?:---\n(.*?)^---\n|((?::[^\n]*\n)*))(.*?)^```$", re.MULTILINE | re.DOTALL)
UNREAD = "figure, table, pre, details, script, style, .math, .headerlink, .cell_input, .topic"
# Habits of English that textbooks do without.
STILTED = {
    r"\b(?:heads?|matrix|matrices|numbers?|paths?|weights?|neurons|examples) an? (?:layer|head|path|token)\b": "per",
    r"\b(?:theory|network|kernel|figure|page|table|kernels|networks) (?:knows?|tells?|asks?|hears?|wants?)\b": "shows",
    r"\bwhoever\b": "if you",
}
TEXT, COLUMN = 6.9, 362  # pixels: the smallest text of a figure, where a phone's column is so wide
GLYPHS = re.compile(r"scale\(0?(\.\d+) -0?\.\d+\)")  # of Matplotlib's outlines, in units of 100 points
CLAIM = {"claim", "rule", "date", "unit", "run", "outcome"}
QUOTED = re.compile(r"\{([\w.]+):([^}]+)\}")  # the number of a page and its format
BOUND = re.compile(r"([<>]=?)\s*([-+]?[\d.]+(?:e[-+]?\d+)?)")
COMPARED = {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge}


def main() -> int:
    """Run the command line; return 1 if anything is wrong."""
    pages, figures, problems = check(ROOT)
    for problem in problems:
        print(f"check_book: {problem}", file=sys.stderr)
    print(f"check_book: {pages} pages, {figures} figures, {len(problems)} problems")
    return 1 if problems else 0


def check(root: Path) -> tuple[int, int, list[str]]:
    """Check every page; return the numbers of pages and figures, and the problems."""
    names, html = page_names(root), root / "_build" / "html"
    built, problems, figures = {}, [], 0
    for name in names:
        path = html / f"{name}.html"
        if path.is_file():
            built[path] = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        else:
            problems.append(f"{name}: the page was not built")
    if not (html / "index.html").is_file():
        problems.append("index.html: not there, though it is where a reader starts")
    read = reading(root)
    if len(read) > PAGES:
        problems.append(f"_toc.yml: {len(read)} pages to read, at most {PAGES}")
    for path, page in built.items():
        name = path.relative_to(html).with_suffix("").as_posix()
        article = page.select_one("article") or page
        figures += len(article.select("figure"))
        found = [*_broken(article), *_images(article, path), *_links(article, path, built), *_stilted(article)]
        found += _long(article) if name in read else ()
        found += [*_size(root / f"{name}.md"), *undefined(root / f"{name}.md")]
        problems += [f"{name}: {problem}" for problem in found]
    return len(names), figures, problems + claims(root)


def claims(root: Path) -> list[str]:
    """Compare the numbers that pages kept with their bounds in book/claims.yaml, and look at the claims themselves."""
    path = root / "book" / "claims.yaml"
    said = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
    problems = [
        f"claims.yaml: {one.get('claim', one)!r:.60} lacks {', '.join(CLAIM - set(one))}"
        for one in said.get("claims") or []
        if CLAIM - set(one)
    ]
    problems += [
        f"claims.yaml: {one['claim']!r:.60}: {what}" for one in said.get("claims") or [] for what in unrun(one, root)
    ]
    bounds, quoting = said.get("bounds") or {}, [one for one in said.get("claims") or [] if "quotes" in one]
    numbers = kept(root, {*bounds, *(one["page"] for one in quoting)})
    for page, each in bounds.items():
        for name, bound in each.items():
            if (problem := outside(numbers[page].get(name), bound)) is not None:
                problems.append(f"claims.yaml, {page}: {name} is {problem}, claimed {bound}")
    for one in quoting:
        problems += [f"claims.yaml: {one['claim']!r:.60}: {what}" for what in misquoted(one, numbers[one["page"]])]
    return problems


def kept(root: Path, names: set[str]) -> dict[str, dict[str, float]]:
    """Return the numbers that executed pages kept, by page."""
    if not names:
        return {}
    cache, pages = notebooks(root)
    found = {}
    for name in names:
        path = pages.get(f"book/{name}")
        record = cache.get_cached_project_nb(str(path)) if path else None
        found[name] = facts(cache.get_cache_bundle(record.pk).nb if record else None)
    return found


def misquoted(claim: dict, numbers: dict[str, float]) -> list[str]:
    """Say which quotes, such as "{gain:.2f} ± {gain.error:.2f}", an outcome lacks with the numbers of its page."""
    problems = []
    for quote in claim["quotes"]:
        if missing := {name for name, _ in QUOTED.findall(quote)} - set(numbers):
            problems.append(f"{', '.join(sorted(missing))} is not there")
        elif (now := QUOTED.sub(lambda part: format(numbers[part[1]], part[2]), quote)) not in claim["outcome"]:
            problems.append(f"the page has {now}")
    return problems


def unrun(claim: dict, root: Path) -> list[str]:
    """Say what a claim lacks: a page, or a run with a record, and an outcome."""
    problems, run = [], str(claim.get("run", ""))
    if run.startswith("runs/"):
        lines = yaml.safe_load((root / "workflow" / "runs.yaml").read_text(encoding="utf-8"))["runs"]
        folders = {str(line["record"]).partition("/")[0].partition("{")[0] for line in lines if line["run"] == run[5:]}
        if not any(list((root / "results").glob(f"{folder}*/*.nc")) for folder in folders):
            problems.append(f"no record of {run}")
    elif not (root / "book" / f"{run}.md").is_file():
        problems.append(f"{run} is neither a page nor a run")
    if "not run yet" in str(claim.get("outcome", "")):
        problems.append("no outcome yet")
    return problems


def facts(notebook) -> dict[str, float]:
    """Return the numbers that an executed page kept by name, parts of an interval as `gain.low`."""
    found: dict[str, float] = {}
    for cell in notebook.cells if notebook else ():
        for output in cell.get("outputs", []):
            for name, value in output.get("data", {}).get(FACTS, {}).items():
                parts = value if isinstance(value, dict) else {"value": value}
                found[name] = parts["value"]
                found.update({f"{name}.{end}": number for end, number in parts.items()})
    return found


def outside(number, bound: str) -> str | None:
    """Return what a number is, in words, unless it fulfils all comparisons of a bound such as "> 0.1, < 0.2"."""
    comparisons = [BOUND.fullmatch(one.strip()) for one in str(bound).split(",")]
    if not all(comparisons):
        return "compared with something that is no bound"
    if not isinstance(number, (int, float)):
        return "not there" if number is None else f"{number!r}, no number"
    return None if all(COMPARED[one[1]](number, float(one[2])) for one in comparisons) else f"{number:.4g}"


def notebooks(root: Path):
    """Return the cache of executed pages, and the files of the pages with cells by name."""
    from jupyter_cache import get_cache  # takes a second

    pages = {name: root / f"{name}.md" for name in page_names(root)}
    cells = {
        name: path for name, path in pages.items() if path.is_file() and "\nkernelspec:" in path.read_text("utf-8")
    }
    return get_cache(root / ".cache" / "book"), cells


def page_names(root: Path) -> list[str]:
    """Return the pages of the table of contents in order, such as "book/theory/network"."""
    return LISTED.findall((root / "_toc.yml").read_text(encoding="utf-8"))


def reading(root: Path) -> list[str]:
    """Return the pages that are made to be read from beginning to end."""
    parts = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8")).get("parts", [])
    return LISTED.findall(yaml.safe_dump([part for part in parts if part.get("caption") not in LOOKED_UP]))


def _broken(article: Tag):
    for selector, meaning in BROKEN.items():
        for tag in article.select(selector):
            yield f"{meaning}: {tag.get_text(' ', strip=True)[:120]!r}"
    for text in article.find_all(string=re.compile(r"IPython\.core\.display")):
        yield f"the name of an object in place of what it shows: {text.strip()[:120]!r}"
    for tag in article.select(".pasted-text"):
        if re.search(r"\b(?:nan|inf|not defined)\b", tag.get_text()):
            yield f"a glued number that is none: {tag.parent.get_text(' ', strip=True)[:120]!r}"
    for tag in article.select(":not(.cell_input) > .notranslate pre"):
        if re.search(r"^```\{code-cell\}", tag.get_text(), re.MULTILINE):
            yield f"a cell that is shown as text: {tag.get_text()[:80]!r}"
    unmarked = [text for entry in article.select("dl.py") for text in entry.find_all(string=UNMARKED)]
    for text in [*article.find_all(string=UNRESOLVED), *unmarked]:
        if not text.find_parent(["code", "pre", "script", "style"]) and not text.find_parent(class_="math"):
            yield f"left unresolved: {text.strip()[:120]!r}"


def _long(article: Tag):
    text = copy(article)
    for tag in text.select(UNREAD):
        tag.decompose()
    if (words := len(text.get_text(" ").split())) > WORDS:
        yield f"{words} words, at most {WORDS}"
    if (figures := len(article.select("figure"))) > FIGURES:
        yield f"{figures} figures, at most {FIGURES}"
    for tag in article.select(".tag_remove-input .cell_output pre"):
        yield f"printed text in place of a table or a sentence: {tag.get_text(' ', strip=True)[:80]!r}"


def cells(source: Path) -> list[tuple[str, str]]:
    """Return what is written above each cell of a page, such as its tags, and its code."""
    text = source.read_text(encoding="utf-8") if source.is_file() else ""
    return [(block + options, code) for block, options, code in CELL.findall(text)]


def _size(source: Path):
    for above, code in cells(source):
        lines = [line for line in code.splitlines() if line.strip()]
        if not HIDDEN.search(above) and len(lines) > VISIBLE:
            yield f"a visible cell of {len(lines)} lines, at most {VISIBLE}: {lines[0]!r}"
        for line in () if HIDDEN.search(above) else lines:
            if len(line) > COLUMNS:
                yield f"a visible line of {len(line)} columns, at most {COLUMNS}: {line.strip()[:60]!r}"


def undefined(source: Path):
    """Yield the names that a cell uses and that no cell above defines which a reader of this cell sees.

    A visible cell may use names of visible cells alone, a folded one also those of folded cells.
    """
    seen, folded = {*dir(builtins), "display", "get_ipython"}, set()
    for above, code in cells(source):
        if re.search("remove-(?:cell|input)", above):
            continue
        table = symtable.symtable(re.sub(r"^[%!].*", "", code, flags=re.MULTILINE), source.name, "exec")
        defined = {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}
        visible = not HIDDEN.search(above)
        for name in sorted(_used(table) - defined - seen - (set() if visible else folded)):
            where = "in a folded cell" if name in folded else "in no cell that a reader sees"
            yield f"{name} is used in a {'visible' if visible else 'folded'} cell, and defined above {where}"
        (seen if visible else folded).update(defined)


def _used(table: symtable.SymbolTable) -> set[str]:
    """Names of the module that its code refers to, functions included."""
    names = {one.get_name() for one in table.get_symbols() if one.is_referenced() and one.is_global()}
    return names.union(*map(_used, table.get_children()))


def _stilted(article: Tag):
    for paragraph in article.select("p, li, figcaption"):
        for habit, better in STILTED.items():
            for found in re.findall(habit, paragraph.get_text(" ")):
                yield f"{found!r}: write {better!r}"


def _images(article: Tag, path: Path):
    for figure in article.select("figure"):
        if not figure.select_one("img, svg, object, table"):
            yield f"figure {figure.get('id')}: no picture in it"
        if not figure.select_one("figcaption .caption-number"):
            yield f"figure {figure.get('id')}: no caption with a number"
    for image in article.select("img"):
        source = image.get("src", "")
        if not urlsplit(source).scheme and not _file(path, source).is_file():
            yield f"picture {source}: the file is not there"
        elif source.endswith(".svg") and (size := _smallest_text(_file(path, source))) < TEXT:
            yield f"picture {source}: text of {size:.1f} pixels on a phone, at least {TEXT}"
        # Without an alternative text Sphinx puts the file's name in its place.
        if image.get("alt", "").strip() in ("", source) or "_images/" in image.get("alt", ""):
            yield f"picture {source}: no alternative text"


def _smallest_text(picture: Path) -> float:
    svg = picture.read_text(encoding="utf-8")
    width = float(svg.split('viewBox="', 1)[1].split()[2]) * 4 / 3  # in pixels; sizes are in points
    sizes = [100 * float(size) for size in GLYPHS.findall(svg)]  # without sub- and superscripts
    return min(sizes, default=math.inf) * 4 / 3 * min(1.0, COLUMN / width)


def _links(article: Tag, path: Path, built: dict[Path, BeautifulSoup]):
    for link in article.select("a[href]"):
        target = urlsplit(link["href"])
        if target.scheme or target.netloc:
            continue
        file = _file(path, target.path) if target.path else path
        if not file.is_file():
            yield f"link to {link['href']}: no such file"
        elif target.fragment and file in built and not built[file].find(id=unquote(target.fragment)):
            yield f"link to {link['href']}: no such place on that page"


def _file(page: Path, link: str) -> Path:
    return (page.parent / unquote(urlsplit(link).path)).resolve()


if __name__ == "__main__":
    sys.exit(main())
