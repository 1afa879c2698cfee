"""Print the part of the built book that is made to be read as one PDF with Chromium, without LaTeX.

The articles of its pages stand in one document, so that links between pages lead to pages of the PDF. The first is the
title page, and a table of contents follows its figure. Folded code is left out; figures with a slider are pictures.
"""

import argparse
import asyncio
import copy
import re
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from browse import Unavailable, chromium, opened
from bs4 import BeautifulSoup, Tag
from check_book import ROOT, page_names, parts, reading
from lighter import MATHJAX
from pypdf import PdfReader, PdfWriter
from pypdf.generic import DictionaryObject, NameObject, TextStringObject

PRINTED, LINK = "book.pdf", "the-book-as-a-pdf"
# No script of a page, no mark that is for a screen alone.
LEFT_OUT = "script, a.headerlink, button, .pst-js-only, details.hide.above-input, "
LEFT_OUT += f".equation-code, .toctree-wrapper, style, #{LINK}"
FOOT = '<div style="width:100%;text-align:center;font-size:8px;color:#555"><span class="pageNumber"></span></div>'
PAPER = {
    "format": "A4",
    "margin": {"top": "0.75in", "bottom": "0.75in", "left": "0.7in", "right": "0.7in"},
    "print_background": True,
    "display_header_footer": True,
    "header_template": "<span></span>",
    "footer_template": FOOT,
    "tagged": True,
    "outline": True,
}
WIDTH = 659  # of A4 between the margins, in pixels
CUT = """width => [...document.querySelectorAll("article :is(mjx-container > svg, img, table, pre)")]
  .filter(one => one.getBoundingClientRect().right > width + 2)
  .map(one => `${one.closest("article").id}: ${one.tagName} ${(one.alt || one.textContent).trim().slice(0, 60)}`)"""
RECORDS = "Each of them"  # a list of records: attention_book.notebooks.pages.made
NUMBERS = """pages => document.querySelectorAll("nav a").forEach(link =>
  { link.nextSibling.textContent = pages[link.getAttribute("href").slice(1)] || ""; })"""
STYLE = """
html { --pst-font-family-base: "STIX Two Text", "Latin Modern Roman", "Nimbus Roman", "Liberation Serif", serif;
  --pst-font-family-heading: var(--pst-font-family-base); }
html, body { background: white; overflow: visible; height: auto; }
article.bd-article { padding: 0; break-before: page; }
article.bd-article:first-of-type { break-before: auto; }
body { font-size: 10.5pt; line-height: 1.4; }
p, li { orphans: 3; widows: 3; }
figure, img, svg, table, pre, .admonition, mjx-container[display="true"] { break-inside: avoid; }
h1, h2, h3, h4 { break-after: avoid; }
h1 { font-size: 1.8em; }
h2 { font-size: 1.4em; }
h3 { font-size: 1.2em; }
figcaption, figcaption .caption-text { color: #222; font-weight: 400; font-size: 0.92em; }
.bd-article pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.bd-article table { font-size: 0.8em; width: auto; max-width: 100%; }
.bd-article :is(div, figure, td) { overflow: visible !important; }
div.math mjx-container > svg { max-width: 100%; }
img { max-width: 100%; max-height: 8.6in; width: auto; height: auto; zoom: 0.8; }
a { text-decoration: none; }
.by { color: #555; }
nav { break-before: page; break-after: page; }
nav b { display: block; margin: 1em 0 0.3em; font-size: 1.1em; }
nav p { display: flex; justify-content: space-between; margin: 0.15em 0; }
"""


def main() -> int:
    """Run the command line; return 0 also if nothing could be printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html", help="the built book")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        path = print_book(options.html, [page_names(ROOT)[0], *reading(ROOT)], parts(ROOT), _about(ROOT))
    except Unavailable as reason:
        print(f"print_book: skipped, {reason}")
        return 0
    seconds, size = time.monotonic() - began, path.stat().st_size / 2**20
    print(f"The book is printed, {size:.0f} MB, {seconds:.0f} s:\n\n    {path}\n")
    return 0


def print_book(html: Path, names: list[str], titles: Sequence[tuple[str, list[str]]] = (), about: str = "") -> Path:
    """Print pages of a built book, link the PDF from the first of them and return its path.

    The titles of parts, with their pages, stand in the table of contents, and a line about the book below its title.
    """
    if not (html / "index.html").is_file():
        raise Unavailable("the book is not built: make book")
    whole, path, document = html / ".printed.html", html / PRINTED, together(html, names, titles, about)
    whole.write_text(str(document), encoding="utf-8")
    try:
        asyncio.run(_print(whole.absolute().as_uri(), path))
    finally:
        whole.unlink(missing_ok=True)
    # Chromium joins the last word of a line of a heading with the first one of the next.
    headings = [
        re.sub(r"\\[()]", "", " ".join(one.get_text().split())) for one in document.select("h1, h2, h3, h4, h5, h6")
    ]
    writer = PdfWriter(clone_from=path)
    entries = list(_entries(writer.root_object["/Outlines"]))
    for entry, title in zip(entries, headings, strict=True) if len(entries) == len(headings) else ():
        entry[NameObject("/Title")] = TextStringObject(title)
    writer.write(path)
    link(html / f"{names[0]}.html", html)
    return path


async def _print(address: str, path: Path) -> None:
    async with chromium() as browser, opened(browser, address) as (page, faults):
        if wrong := [*await page.evaluate("look.ready()"), *faults]:
            raise RuntimeError(f"the book cannot be printed: {'; '.join(wrong[:5])}")
        await page.emulate_media(media="print")
        await page.set_viewport_size({"width": WIDTH, "height": 900})
        if cut := await page.evaluate(CUT, WIDTH):
            raise RuntimeError(f"wider than the paper: {'; '.join(cut[:5])}")
        await page.pdf(path=path, **PAPER)
        printed = PdfReader(path)
        places = printed.named_destinations.items()
        numbers = {name.lstrip("/"): printed.get_destination_page_number(place) + 1 for name, place in places}
        await page.evaluate(NUMBERS, numbers)
        await page.pdf(path=path, **PAPER)


def _about(root: Path) -> str:
    author = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["author"]
    version = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))["version"]
    return f"{author[0].upper()}{author[1:]}, version {version}, {date.today():%-d %B %Y}"


def _entries(above: DictionaryObject) -> Iterator[DictionaryObject]:
    """Yield the entries of a PDF's outline below one of them, in order."""
    entry = above.get("/First")
    while entry is not None:
        entry = entry.get_object()
        yield entry
        yield from _entries(entry)
        entry = entry.get("/Next")


def together(
    html: Path, names: list[str], titles: Sequence[tuple[str, list[str]]] = (), about: str = ""
) -> BeautifulSoup:
    """Return all pages as one document, which is to stand in the folder of the built book."""
    pages = {name: BeautifulSoup((html / f"{name}.html").read_text(encoding="utf-8"), "html.parser") for name in names}
    start = '<!DOCTYPE html><html lang="en" data-theme="light"><head></head><body></body></html>'
    whole = BeautifulSoup(start, "html.parser")
    first = names[0]
    formulas = next((name for name, page in pages.items() if "window.MathJax" in str(page.head)), first)
    scripts = [one for one in pages[formulas].head.select("script") if re.search(f"window.MathJax|{MATHJAX}", str(one))]
    head = [(first, one) for one in pages[first].head.select("title, link[rel=stylesheet]")]
    for name, one in [*head, *((formulas, one) for one in scripts)]:
        one = copy.copy(one)
        for kind in {"href", "src"} & one.attrs.keys():
            one[kind] = _path(one[kind], html, name)
        whole.head.append(one)
    style = whole.new_tag("style")
    style.string = STYLE
    whole.head.append(style)
    for name, page in pages.items():
        whole.body.append(_article(page.select_one("article"), html, name, names))
    cover = whole.select_one("article")
    if about and (title := cover.select_one("h1")):
        title.insert_after(_tag(whole, "p", about, {"class": "by"}))
    contents = _tag(whole, "nav", "")
    for name, article in zip(names[1:], whole.select("article")[1:], strict=True):
        contents.extend(_tag(whole, "b", part) for part, pages in titles if name == pages[0])
        if title := article.select_one("h1"):
            contents.append(_tag(whole, "p", ""))
            text = " ".join(title.get_text().split())
            contents.contents[-1].extend(
                [_tag(whole, "a", text, {"href": f"#{article['id']}"}), _tag(whole, "span", "")]
            )
    if figure := cover.select_one("figure"):
        figure.insert_after(contents)
    else:
        cover.append(contents)
    return whole


def _tag(whole: BeautifulSoup, name: str, text: str, attributes: dict[str, str] | None = None) -> Tag:
    tag = whole.new_tag(name, attrs=attributes or {})
    tag.string = text
    return tag


def link(page: Path, html: Path) -> None:
    """Put a link to the PDF below the title of a page of the built book, once."""
    text = page.read_text(encoding="utf-8")
    if LINK not in text:
        depth = "../" * (len(page.relative_to(html).parts) - 1)
        said = f'<p id="{LINK}"><a href="{depth}{PRINTED}">The book as a PDF</a></p>'
        page.write_text(re.sub(r"</h1>", lambda found: found[0] + said, text, count=1), encoding="utf-8")


def _article(article: Tag, html: Path, name: str, names: list[str]) -> Tag:
    """Return the article of a page with identifiers and links of the whole document."""
    for one in article.select(LEFT_OUT):
        one.decompose()
    for one in article.select("details"):
        if one.summary and one.summary.get_text(strip=True) == RECORDS:
            one.decompose()
        else:
            one["open"] = ""
    for one in article.select("noscript"):
        one.name = "p"  # what stands in place of a calculator
    article["id"] = _place(name)
    for one in article.find_all(id=True):
        if one is not article:
            one["id"] = _place(name, one["id"])
    for one in article.select("[src], object[data]"):
        kind = "src" if one.get("src") else "data"
        one[kind] = _path(one[kind], html, name)
    for one in article.select("a[href]"):
        target = urlsplit(one["href"])
        if target.scheme or target.netloc:
            continue
        page = _path(target.path, html, name).removesuffix(".html") if target.path else name
        if page in names:
            one["href"] = "#" + _place(page, unquote(target.fragment))
        else:
            del one["href"]  # the index, a source: not in the PDF
    return article


def _place(name: str, anchor: str = "") -> str:
    return "--".join(filter(None, (name.replace("/", "-"), anchor)))


def _path(link: str, html: Path, name: str) -> str:
    """Return a page's link relative to the folder of the built book."""
    if urlsplit(link).scheme:
        return link
    file = ((html / name).parent / unquote(urlsplit(link).path)).resolve()
    return file.relative_to(html.resolve()).as_posix()


if __name__ == "__main__":
    sys.exit(main())
