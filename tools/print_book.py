"""Print the whole book as one PDF: the built pages in the order of the contents, by Chromium; no LaTeX.

The articles of all pages stand in one document, so that links between pages lead to pages of the PDF, which has an outline, too.
Code that a page folds away is left out; figures with a slider are pictures.
"""

import argparse
import base64
import copy
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import yaml
from browse import READY
from browser import Browser, Unavailable
from bs4 import BeautifulSoup, Tag
from check_book import ROOT, page_names

PRINTED, LINK = "book.pdf", "the-book-as-a-pdf"
PATIENCE = 900  # seconds for thousands of formulas
# No script of a page, no mark that is for a screen alone.
LEFT_OUT = f"script, a.headerlink, button, .pst-js-only, details.hide.above-input, .toctree-wrapper, style, #{LINK}"
PAPER = {
    "paperWidth": 8.27,
    "paperHeight": 11.69,
    "marginTop": 0.75,
    "marginBottom": 0.75,
    "marginLeft": 0.7,
    "marginRight": 0.7,
}
FOOT = '<div style="width:100%;text-align:center;font-size:8px;color:#555"><span class="pageNumber"></span></div>'
STYLE = """
html, body { background: white; overflow: visible; height: auto; }
article.bd-article { padding: 0; break-before: page; }
article.bd-article:first-of-type { break-before: auto; }
body { font-size: 10.5pt; }
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
img { max-width: 100%; max-height: 8.6in; width: auto; height: auto; }
a { text-decoration: none; }
"""


def main() -> int:
    """Run the command line; returns 0 as well where nothing could be printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html", help="the built book")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        path = print_book(options.html, page_names(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))))
    except Unavailable as reason:
        print(f"print_book: skipped, {reason}")
        return 0
    print(
        f"The book is printed, {path.stat().st_size / 2**20:.0f} MB, {time.monotonic() - began:.0f} s:\n\n    {path}\n"
    )
    return 0


def print_book(html: Path, names: list[str]) -> Path:
    """Print pages of a built book and link the PDF from the first of them.

    Args:
        html: the folder of the built book.
        names: of the pages, in order.

    Returns:
        The PDF.

    Raises:
        Unavailable: no Chromium, or no built book.
    """
    if not (html / "index.html").is_file():
        raise Unavailable("the book is not built: make book")
    whole, printed = html / ".printed.html", html / PRINTED
    try:
        with Browser(PATIENCE) as browser:
            document = together(html, names)
            whole.write_text(str(document), encoding="utf-8")
            browser.open(whole)
            wrong = [*browser.evaluate(READY), *browser.faults]
            if wrong:
                raise RuntimeError(f"the book cannot be printed: {'; '.join(wrong[:5])}")
            settings = {"printBackground": True, "displayHeaderFooter": True, "headerTemplate": "<span></span>"}
            outline = {"generateTaggedPDF": True, "generateDocumentOutline": True}
            told = browser.call("Page.printToPDF", footerTemplate=FOOT, **PAPER, **settings, **outline)
    finally:
        whole.unlink(missing_ok=True)
    printed.write_bytes(titled(base64.b64decode(told["data"]), headings(document)))
    link(html / f"{names[0]}.html")
    return printed


def together(html: Path, names: list[str]) -> BeautifulSoup:
    """All pages in one document, which stands in the folder of the built book.

    Args:
        html: the folder of the built book.
        names: of the pages, in order.

    Returns:
        The document.
    """
    pages = {name: BeautifulSoup((html / f"{name}.html").read_text(encoding="utf-8"), "html.parser") for name in names}
    first = pages[names[0]]
    whole = BeautifulSoup(
        '<!DOCTYPE html><html lang="en" data-theme="light"><head></head><body></body></html>', "html.parser"
    )
    title = first.find("title")
    whole.head.append(copy.copy(title))
    for one in first.head.select("link[rel=stylesheet]"):
        one = copy.copy(one)
        one["href"] = _path(one["href"], html, names[0])
        whole.head.append(one)
    formulas = next((page for page in pages.values() if "window.MathJax" in str(page.head)), None)
    for one in formulas.head.select("script") if formulas else ():
        if "window.MathJax" in one.text or "tex-svg" in one.get("src", ""):
            one = copy.copy(one)
            if one.get("src"):
                one["src"] = _path(one["src"], html, next(name for name in names if pages[name] is formulas))
            whole.head.append(one)
    style = whole.new_tag("style")
    style.string = STYLE
    whole.head.append(style)
    for name, page in pages.items():
        whole.body.append(_article(page.select_one("article"), html, name, names))
    return whole


def headings(document: BeautifulSoup) -> list[str]:
    """The headings of a document, in order, without marks of formulas."""
    found = document.select("h1, h2, h3, h4, h5, h6")
    return [re.sub(r"\\[()]", "", " ".join(one.get_text().split())) for one in found]


def titled(pdf: bytes, titles: list[str]) -> bytes:
    """A PDF with other titles in its outline: Chromium's say a word twice, or join two, where a heading was moved or has two lines.

    Args:
        pdf: as Chromium writes it, with objects and cross-references in plain text.
        titles: of all entries, in order.

    Returns:
        The PDF, changed objects appended; as it was where the outline has another number of entries.
    """
    entry = re.compile(rb"(?<=\n)(\d+) 0 obj\n<</Title (\((?:\\.|[^\\()])*\)|<[0-9A-Fa-f]*>)(.*?)>>\nendobj", re.DOTALL)
    entries = {one[1]: one[3] for one in entry.finditer(pdf)}
    outlines = re.search(rb"/Outlines (\d+) 0 R", pdf)
    top = outlines and re.search(rb"\n" + outlines[1] + rb" 0 obj\n(.*?)endobj", pdf, re.DOTALL)
    order = list(_in_order(top[1], entries)) if top else []
    if len(order) != len(titles):
        return pdf
    added, places = bytearray(), {}
    for number, title in zip(order, titles, strict=True):
        places[int(number)] = len(pdf) + len(added)
        written = ("\ufeff" + title).encode("utf-16-be").hex().encode()
        added += number + b" 0 obj\n<</Title <" + written + b">" + entries[number] + b">>\nendobj\n"
    table = b"".join(b"%d 1\n%010d 00000 n \n" % place for place in sorted(places.items()))
    before, trailer = (
        re.search(rb"startxref\n(\d+)", pdf)[1],
        re.findall(rb"trailer\n<<(.*?)>>\nstartxref", pdf, re.DOTALL)[-1],
    )
    end = b"trailer\n<<" + trailer + b"\n/Prev " + before + b">>\nstartxref\n%d\n%%%%EOF\n" % (len(pdf) + len(added))
    return pdf + bytes(added) + b"xref\n" + table + end


def _in_order(entry: bytes, entries: dict[bytes, bytes]) -> Iterator[bytes]:
    """The numbers of the entries below one of an outline."""
    found = re.search(rb"/First (\d+) 0 R", entry)
    while found:
        yield found[1]
        yield from _in_order(entries[found[1]], entries)
        found = re.search(rb"/Next (\d+) 0 R", entries[found[1]])


def link(page: Path) -> None:
    """Put a link to the PDF below the title of a page, once.

    Args:
        page: the first page of the built book.
    """
    text = page.read_text(encoding="utf-8")
    if LINK not in text:
        depth = "../" * (len(page.relative_to(page.parents[1]).parts) - 1)
        said = f'<p id="{LINK}"><a href="{depth}{PRINTED}">The whole book as a PDF</a></p>'
        page.write_text(re.sub(r"</h1>", lambda found: found[0] + said, text, count=1), encoding="utf-8")


def _article(article: Tag, html: Path, name: str, names: list[str]) -> Tag:
    """The article of a page, what it names and points to seen from the whole."""
    for one in article.select(LEFT_OUT):
        one.decompose()
    for one in article.select("details"):
        one["open"] = ""
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
    """A link of a page as it is written in the folder of the built book."""
    if urlsplit(link).scheme:
        return link
    file = ((html / name).parent / unquote(urlsplit(link).path)).resolve()
    return file.relative_to(html.resolve()).as_posix()


if __name__ == "__main__":
    sys.exit(main())
