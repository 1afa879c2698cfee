"""Check the built book: every page and figure is there, nothing is broken, no link leads nowhere.

The build refuses what Sphinx warns about; this looks for what a reader would stumble over all the same.
"""

import argparse
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from bs4 import BeautifulSoup, Tag

ROOT = Path(__file__).resolve().parents[1]
# What is on a page if something went wrong, as CSS selectors.
BROKEN = {
    "div.output.traceback": "an error in a cell",
    "div.output.stderr": "messages on standard error",
    ".system-message": "a message of the parser",
    ".problematic": "a role or reference that was not understood",
}
# Roles that were left as they were written, and references without a target.
UNRESOLVED = re.compile(r"\{(?:numref|ref|eq|doc|cite\S*|glue\S*|math)\}|\?\?|\bNone:")
FIGURE_NAME = re.compile(r"^\s*:?name:\s*[\"']?(fig[\w:-]*)", re.MULTILINE)


def main() -> int:
    """Run the command line; returns 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Check the pages under _build/html.")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    root = parser.parse_args().root
    pages, figures, problems = check(root)
    for problem in problems:
        print(f"check_book: {problem}", file=sys.stderr)
    print(f"check_book: {pages} pages, {figures} figures, {len(problems)} problems")
    return 1 if problems else 0


def check(root: Path) -> tuple[int, int, list[str]]:
    """Look at every page of the table of contents.

    Args:
        root: the project's folder, with `_toc.yml` and `_build/html`.

    Returns:
        The number of pages, the number of figures, and one line for every problem.
    """
    names = page_names(yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8")))
    html = root / "_build" / "html"
    built, problems, figures = {}, [], 0
    for name in names:
        path = html / f"{name}.html"
        if path.is_file():
            built[path] = BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")
        else:
            problems.append(f"{name}: the page was not built")
    if not (html / "index.html").is_file():
        problems.append("index.html: not there, though it is where a reader starts")
    for path, page in built.items():
        name = path.relative_to(html).with_suffix("").as_posix()
        article = page.select_one("article") or page
        figures += len(article.select("figure"))
        found = [*_broken(article), *_images(article, path), *_links(article, path, built), *_missing(root, name, page)]
        problems += [f"{name}: {problem}" for problem in found]
    return len(names), figures, problems


def page_names(toc: dict) -> list[str]:
    """The pages of a table of contents, in its order.

    Args:
        toc: what `_toc.yml` holds, or a part of it.

    Returns:
        Names such as "book/theory/model".
    """
    names = [toc[key] for key in ("root", "file") if key in toc]
    for key in ("parts", "chapters", "sections"):
        for entry in toc.get(key, []):
            names += page_names(entry)
    return names


def _broken(article: Tag):
    for selector, meaning in BROKEN.items():
        for tag in article.select(selector):
            yield f"{meaning}: {tag.get_text(' ', strip=True)[:120]!r}"
    for text in article.find_all(string=re.compile(r"IPython\.core\.display")):
        yield f"the name of an object in place of what it shows: {text.strip()[:120]!r}"
    for tag in article.select(".pasted-text"):
        if re.search(r"\bnan\b", tag.get_text()):
            yield f"a glued number that is none: {tag.parent.get_text(' ', strip=True)[:120]!r}"
    for text in article.find_all(string=UNRESOLVED):
        if not text.find_parent(["code", "pre", "script", "style"]) and not text.find_parent(class_="math"):
            yield f"left unresolved: {text.strip()[:120]!r}"


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
        # Without an alternative text Sphinx puts the file's name in its place.
        if image.get("alt", "").strip() in ("", source) or "_images/" in image.get("alt", ""):
            yield f"picture {source}: no alternative text"


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


def _missing(root: Path, name: str, page: BeautifulSoup):
    """Figures that the source of the page names and the page does not have."""
    source = root / f"{name}.md"
    for figure in FIGURE_NAME.findall(source.read_text(encoding="utf-8")) if source.is_file() else []:
        if not page.find(id=re.sub(r"[_:]", "-", figure.lower())):
            yield f"figure {figure}: named in the source, not on the page"


def _file(page: Path, link: str) -> Path:
    return (page.parent / unquote(urlsplit(link).path)).resolve()


if __name__ == "__main__":
    sys.exit(main())
