"""Print the built book as one PDF with Chromium, page after page in the order of the contents: `make pdf`."""

import asyncio
import io
import sys

from browse import Unavailable, chromium
from check_book import ROOT, page_names
from pypdf import PdfReader, PdfWriter

STYLE = """.bd-header, .bd-sidebar-primary, .bd-sidebar-secondary, .bd-footer, .prev-next-footer, .headerlink, button,
details.hide { display: none !important } article { max-width: none } mjx-container > svg, img { max-width: 100% }"""


async def printed() -> bytes:
    """Return the PDF of all pages, with an entry of the outline for each."""
    book, html = PdfWriter(), ROOT / "_build" / "html"
    async with chromium() as browser:
        page = await browser.new_page()
        for name in page_names(ROOT):
            await page.goto((html / f"{name}.html").as_uri())
            await page.evaluate("window.MathJax?.startup?.promise")
            await page.add_style_tag(content=STYLE)
            pdf = PdfReader(io.BytesIO(await page.pdf(format="A4", print_background=True)))
            book.append(pdf, outline_item=(await page.title()).split(" — ")[0])
    file = io.BytesIO()
    book.write(file)
    return file.getvalue()


if __name__ == "__main__":
    target = ROOT / "_build" / "html" / "book.pdf"
    try:
        target.write_bytes(asyncio.run(printed()))
    except Unavailable as reason:
        sys.exit(f"print_book: skipped, {reason}")
    print(f"The book is printed:\n\n    {target}\n")
