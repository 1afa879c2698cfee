"""Print the built book as one PDF with Chromium, to be read on paper and cited: `make pdf`.

All pages become one document, so that links lead to pages of the PDF. It is printed until the page numbers
of the contents and of references to other chapters no longer change.
"""

import argparse
import asyncio
import datetime
import html
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import yaml
from browse import Unavailable, chromium
from check_book import ROOT, page_names
from playwright.async_api import Browser, Page
from pypdf import PdfReader

HERE = Path(__file__).with_suffix("")
CALCULATORS = 20_000  # milliseconds in which those of a page solve what they draw
WIDTH = 643  # pixels of 170 mm, what is left of A4
TRIES = 5
TITLE = """<section class="title"><h1>{title}</h1><p>An executable book</p><p>{authors}</p>
<p>Version {version}, printed on {date}</p>
<p class="cite">To cite it: {authors}. <i>{title}</i>. Version {version}, {year}.</p>
<p class="cite">{license} licence. Folded code is left out; the pages of the book have it, and run.</p></section>"""


async def printed(built: Path, names: list[str]) -> tuple[bytes, list[str]]:
    """Return the PDF, and the links within it that lead nowhere."""
    async with chromium() as browser:
        chapters = [await gathered(browser, built, name, names) for name in names]
        styles = "".join(dict.fromkeys(style for chapter in chapters for style in chapter["styles"]))
        body = front(chapters) + "".join(chapter["html"] for chapter in chapters)
        head = f"<meta charset=utf-8><title>{settings()['title']}</title>{styles}<style>{headers(chapters)}</style>"
        source = built / "print.html"
        source.write_text(f'<!DOCTYPE html><html lang="en" data-theme="light"><head>{head}</head><body>{body}</body>')
        try:
            page = await browser.new_page(viewport={"width": WIDTH, "height": 900})
            await page.emulate_media(media="print", color_scheme="light")
            await page.add_init_script(path=HERE.with_suffix(".js"))
            await page.goto(source.as_uri(), timeout=0)
            await page.add_style_tag(path=HERE.with_suffix(".css"))
            await page.evaluate("print.fit()")
            return await with_numbers(page), await page.evaluate("print.dead()")
        finally:
            source.unlink()


async def gathered(browser: Browser, built: Path, name: str, names: list[str]) -> dict:
    """One page as it looks once formulas and calculators are drawn: its title, its HTML and its styles."""
    page = await browser.new_page(color_scheme="light")
    await page.add_init_script(path=HERE.with_suffix(".js"))
    await page.goto((built / f"{name}.html").as_uri(), timeout=0)
    await page.evaluate("window.MathJax?.startup?.promise")
    if await page.locator(".calculator").count():
        await page.wait_for_timeout(CALCULATORS)
    found = await page.evaluate("print.gather", [name, names])
    await page.close()
    return found


async def with_numbers(page: Page) -> bytes:
    """Print until every number that a page shows is the one of the page that it leads to."""
    shown = None
    for _ in range(TRIES):
        pdf = await page.pdf(prefer_css_page_size=True, print_background=True, outline=True, tagged=True)
        reader = PdfReader(io.BytesIO(pdf))
        numbers = {name: reader.get_destination_page_number(at) + 1 for name, at in reader.named_destinations.items()}
        numbers = {name.lstrip("/"): number for name, number in numbers.items()}
        if numbers == shown:
            return pdf
        shown = numbers
        await page.evaluate("print.number", numbers)
    raise RuntimeError(f"print_book: page numbers still change after {TRIES} prints.")


def settings() -> dict:
    """The book's title and the numbers of its citation."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    title = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["title"]
    authors, date = ", ".join(one["name"] for one in cited["authors"]), datetime.date.today()
    shown = {"title": title, "authors": authors, "version": cited["version"], "license": cited["license"]}
    shown |= {"date": f"{date.day} {date:%B} {date.year}", "year": str(date.year)}
    return {name: html.escape(text) for name, text in shown.items()}


def front(chapters: list[dict]) -> str:
    """The title page and the contents."""
    lines = {chapter["name"]: chapter for chapter in chapters}
    rows = []
    for caption, names in parts():
        rows += [f"<h2>{html.escape(caption)}</h2>"] if caption else []
        for one in filter(None, map(lines.get, names)):
            rows.append(
                f'<p><a href="#{one["place"]}">{one["title"]}</a><i></i><b data-page="{one["place"]}">000</b></p>'
            )
    return f'{TITLE.format_map(settings())}<nav class="chapters"><h1>Contents</h1>{"".join(rows)}</nav>'


def parts() -> Iterator[tuple[str, list[str]]]:
    """Captions of the parts and their pages, the first page of the book alone."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    yield "", [contents["root"]]
    for part in contents.get("parts", []):
        below = [[one["file"], *(section["file"] for section in one.get("sections", []))] for one in part["chapters"]]
        yield part["caption"], sum(below, [])


def headers(chapters: list[dict]) -> str:
    """Style sheet that writes each chapter's title above its pages."""
    named = []
    for number, chapter in enumerate(chapters):
        title = chapter["plain"].replace("\\", "").replace('"', '\\"')
        named.append(f'@page chapter{number} {{ @top-right {{ content: "{title}" }} }}')
        named.append(f"#{chapter['place']} {{ page: chapter{number} }}")
    return "\n".join(named)


def main() -> int:
    """Run the command line; return 1 for links that lead nowhere."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html", help="the built book")
    parser.add_argument("pages", nargs="*", help="pages such as book/theory/network; all if none is named")
    options = parser.parse_args()
    target = options.html / "book.pdf"
    try:
        pdf, dead = asyncio.run(printed(options.html, options.pages or page_names(ROOT)))
    except Unavailable as reason:
        print(f"print_book: skipped, {reason}")
        return 0
    target.write_bytes(pdf)
    print(f"The book is printed:\n\n    {target}\n")
    if options.pages:
        return 0  # links to the others lead nowhere
    print(*(f"print_book: a link leads nowhere: {link}" for link in dead), sep="\n", end="\n" * bool(dead))
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
