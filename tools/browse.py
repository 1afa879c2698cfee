"""Look at every page of the built book in Chromium: wide and narrow, light and dark, offline.

Reported are errors in the console, requests to the network, formulas left as text, content wider
than the window, text with too little contrast and sliders that change nothing.
"""

import argparse
import asyncio
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from check_book import ROOT, page_names
from playwright.async_api import Browser, Page, async_playwright
from playwright.async_api import Error as PlaywrightError
from tqdm.asyncio import tqdm

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# The root user of a container has no sandbox, and only the book's own files are opened.
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND")
PATIENCE = 240  # seconds per page
HEIGHT = 300  # of the window, in pixels; painting takes most of the time
LOOKS = ((1400, "light"), (390, "light"), (390, "dark"), (1400, "dark"))  # one thing changes at a time
CONTRAST = 3.0  # the least of WCAG 2 for large letters


class Unavailable(Exception):
    """Neither a browser nor a built book, as the message says."""


def main() -> int:
    """Run the command line; return 1 for a problem, 0 also if there is no browser or no book."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html", help="the built book")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="number of pages at a time")
    parser.add_argument("pages", nargs="*", help="pages such as book/theory/model; all if none is named")
    options = parser.parse_args()
    began = time.monotonic()
    try:
        found = asyncio.run(browse(options.html, options.pages, options.jobs))
    except Unavailable as reason:
        print(f"browse: skipped, {reason}")
        return 0
    problems = [f"browse: {name}: {problem}" for name, said in found.items() for problem in said]
    print(*problems, sep="\n", end="\n" * bool(problems), file=sys.stderr)
    print(f"browse: {len(found)} pages in a browser, {len(problems)} problems, {time.monotonic() - began:.0f} s")
    return 1 if problems else 0


async def browse(html: Path, names: list[str] = (), jobs: int = 1) -> dict[str, list[str]]:
    """Look at pages of a built book, by default all; return each one's problems."""
    if not (html / "index.html").is_file():
        raise Unavailable("the book is not built: make book")
    looks = {name: partial(look_at, path=html / f"{name}.html") for name in names or page_names(ROOT)}
    free = asyncio.Semaphore(jobs)

    async def one(look) -> list[str]:
        try:
            async with free, asyncio.timeout(PATIENCE):
                return await look(browser)
        except (PlaywrightError, TimeoutError) as error:  # one page's, so that the others are looked at
            return [f"cannot be looked at: {type(error).__name__}: {error}"]

    async with chromium() as browser:
        found = await tqdm.gather(*map(one, looks.values()), unit="page", disable=None, leave=False)
    return dict(zip(looks, found, strict=True))


async def look_at(browser: Browser, path: Path) -> list[str]:
    """Return a line for each problem of a page, with width and theme if it depends on them."""
    async with opened(browser, path.absolute().as_uri()) as (page, faults):
        found = await page.evaluate("look.ready()")
        for place in range(await page.locator(await page.evaluate("look.sliders")).count()):
            shown = []
            for key in ("Home", "End"):
                await page.evaluate("look.shown", place)
                await page.keyboard.press(key)
                shown.append(await page.evaluate("look.shown", place))
            if not all(shown) or shown[0] == shown[1]:
                found.append(f"slider {place + 1} moves nothing")
        for width, theme in LOOKS:
            await page.set_viewport_size({"width": width, "height": HEIGHT})
            await page.emulate_media(color_scheme=theme)
            problems = await page.evaluate("look.layout", [width, theme, CONTRAST])
            found += [f"{width} pixels, {theme}: {problem}" for problem in problems]
        return [*found, *faults]


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start the Chromium that the variable CHROMIUM names, or the first on the path."""
    command = next(filter(None, map(shutil.which, filter(None, (os.environ.get("CHROMIUM"), *NAMES)))), None)
    if command is None:
        raise Unavailable(f"no Chromium: wanted one of {', '.join(NAMES)} on the path, or its path in CHROMIUM")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=command, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def opened(browser: Browser, address: str) -> AsyncIterator[tuple[Page, dict[str, None]]]:
    """Open an address in a window of its own; yield the page and its growing list of faults."""
    width, theme = LOOKS[0]
    context = await browser.new_context(viewport={"width": width, "height": HEIGHT}, color_scheme=theme)
    await context.add_init_script(path=Path(__file__).with_suffix(".js"))
    page, faults = await context.new_page(), {}  # a dictionary: each fault once, in order

    def console(message) -> None:
        if message.type in ("error", "assert"):
            faults[f"console: {message.text} {message.location['url']}"] = None

    def request(asked) -> None:
        if not asked.url.startswith(("file:", "data:", "blob:", "about:")):
            faults[f"asks the network for {asked.url}"] = None

    page.on("console", console)
    page.on("request", request)
    page.on("pageerror", lambda error: faults.update({f"exception: {error.name}: {error.message}": None}))
    try:
        await page.goto(address, timeout=PATIENCE * 1000)
        yield page, faults
    finally:
        await context.close()


if __name__ == "__main__":
    sys.exit(main())
