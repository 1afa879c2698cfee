"""Look at every page of the built book in a browser: on a desk and on a phone, in light and in dark, as files, without a network.

Looked for: errors in the console, requests to the network, formulas that are left as they were written, pages that scroll
sideways or stick out of the window, words that can hardly be told from what is behind them, sliders that do not move, a search
that does not find.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from queue import SimpleQueue

import yaml
from browser import Browser, Unavailable
from check_book import ROOT, page_names
from progress import overwrite

LOOKS = ((1400, "light"), (390, "light"), (390, "dark"), (1400, "dark"))  # one thing changes at a time
CONTRAST = 3.0  # of words and their background, by the formula of WCAG 2; what it asks of large letters
SEARCHES = {"adversarial": "book/hidden_markov/task", "bifurcation": "book/dmft/bifurcations"}
# Done once a page: formulas are set, figures with sliders drawn. What is still raw is text between the delimiters.
READY = """
(async () => {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  if (window.plotlyLoaded) await window.plotlyLoaded;
  const raw = [...document.querySelectorAll(".math")].filter(one => !one.querySelector("mjx-container"));
  const bad = [...document.querySelectorAll("[data-mml-node=merror], mjx-merror")];
  return [...raw.map(one => "formula left raw: " + one.textContent.trim().slice(0, 80)),
          ...bad.map(one => "formula with an error: " + (one.dataset.mjxError || one.textContent).slice(0, 80))];
})()
"""
# Done at each width and in each theme. A figure follows the window in the browser's own time; sidebars and colours, which go
# over to the new look little by little, are brought to where they will be.
LAID_OUT = """
(async (width, theme, contrast) => {
  const root = document.documentElement, found = [], hidden = [];
  const settled = () => {
    for (const one of document.getAnimations()) { try { one.finish(); } catch { one.cancel(); } }
    return root.dataset.theme === theme && document.scrollingElement.scrollWidth <= width;
  };
  for (let left = 40; left && !settled(); left--) await new Promise(done => setTimeout(done, 50));
  if (root.dataset.theme !== theme) found.push("the theme is " + root.dataset.theme);
  if (document.scrollingElement.scrollWidth > width)
    found.push("scrolls sideways: " + document.scrollingElement.scrollWidth + " pixels");
  const article = document.querySelector("article") || document.body;
  const name = one => one.tagName.toLowerCase() + [...one.classList].map(word => "." + word).join("");
  const within = one => {
    for (; one && one !== article; one = one.parentElement)
      if (getComputedStyle(one).overflowX !== "visible") return true;
    return false;
  };
  for (const one of article.querySelectorAll("img, svg, table, pre, div, p, input, iframe")) {
    const box = one.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1) && !within(one.parentElement)) {
      found.push(name(one) + " reaches from " + Math.round(box.left) + " to " + Math.round(box.right));
      break;
    }
  }
  const numbers = colour => (colour.match(/[\\d.]+/g) || []).map(Number);
  const light = ([red, green, blue]) => [red, green, blue].map(value => value / 255)
    .map(value => value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4)
    .reduce((sum, value, place) => sum + value * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = new Map();
  const ground = one => {
    if (!one) return [255, 255, 255];
    if (!behind.has(one)) {
      const colour = numbers(getComputedStyle(one).backgroundColor), opacity = colour.length > 3 ? colour[3] : 1;
      behind.set(one, opacity === 1 ? colour.slice(0, 3)
        : ground(one.parentElement).map((value, place) => opacity * colour[place] + (1 - opacity) * value));
    }
    return behind.get(one);
  };
  const said = new Set();
  const words = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
  while (words.nextNode()) {
    const one = words.currentNode.parentElement;
    if (!words.currentNode.data.trim() || one.closest("mjx-container, script, style, svg, .js-plotly-plot, .headerlink")) continue;
    if (!one.checkVisibility({visibilityProperty: true, opacityProperty: true})) continue;
    const [front, back] = [light(numbers(getComputedStyle(one).color)), light(ground(one))];
    const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
    if (ratio < contrast && !said.has(name(one))) {
      said.add(name(one));
      found.push("hardly legible, " + ratio.toFixed(1) + ": " + name(one) + ", " + words.currentNode.data.trim().slice(0, 40));
    }
  }
  return found;
})(%d, "%s", %g)
"""
SLIDERS = "document.querySelectorAll('article [role=slider], article input[type=range]').length"
# What a figure shows: its curves and pictures. That of a slider beside it is the next one in the page.
SHOWN = """
(async place => {
  const one = document.querySelectorAll("article [role=slider], article input[type=range]")[place];
  one.focus();
  for (let left = 4; left; left--) await new Promise(done => requestAnimationFrame(done));
  const plot = one.matches("[role=slider]") ? one : one.closest("div").querySelector(".js-plotly-plot");
  return plot.querySelector(".cartesianlayer").innerHTML;
})(%d)
"""
FOUND = """
(async () => {
  for (let left = 100; left && !/\\d|did not match/.test(document.querySelector(".search-summary, #search-results > p")?.textContent || ""); left--)
    await new Promise(done => setTimeout(done, 50));
  return [...document.querySelectorAll("#search-results li a")].map(link => link.getAttribute("href"));
})()
"""


def main() -> int:
    """Run the command line; returns 1 if anything is wrong, 0 as well where nothing could be looked at."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html", help="the built book")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="so many browsers at a time")
    parser.add_argument("pages", nargs="*", help="pages such as book/theory/model; all where none is named")
    options = parser.parse_args()
    began = time.monotonic()
    count = bad = 0
    try:
        for name, problems in browse(options.html, options.pages, options.jobs):
            overwrite(f"browsing: {name}")
            count, bad = count + 1, bad + len(problems)
            for problem in problems:
                overwrite("")
                print(f"browse: {name}: {problem}", file=sys.stderr, flush=True)
    except Unavailable as reason:
        print(f"browse: skipped, {reason}")
        return 0
    overwrite("")
    print(f"browse: {count} pages in a browser, {bad} problems, {time.monotonic() - began:.0f} s")
    return 1 if bad else 0


def browse(html: Path, names: list[str] = (), jobs: int = 1) -> Iterator[tuple[str, list[str]]]:
    """Look at the pages of a built book.

    Args:
        html: its folder.
        names: of pages; all those of the table of contents and the search where there are none.
        jobs: browsers, one page each at a time.

    Yields:
        What was looked at, in order, and a line for every problem.

    Raises:
        Unavailable: no Chromium, or no built book.
    """
    if not (html / "index.html").is_file():
        raise Unavailable("the book is not built: make book")
    contents = page_names(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    looks = [(name, page, (html / f"{name}.html",)) for name in names or contents]
    looks += [] if names else [(f"search for {words}", search, (html, words, SEARCHES[words])) for words in SEARCHES]
    free = SimpleQueue()

    def look(name, function, arguments) -> tuple[str, list[str]]:
        browser = free.get()
        try:
            return name, list(function(browser, *arguments))
        finally:
            free.put(browser)

    jobs = max(1, min(jobs, len(looks)))
    with ExitStack() as opened, ThreadPoolExecutor(jobs) as pool:
        for _ in range(jobs):
            free.put(opened.enter_context(Browser()))
        yield from pool.map(look, *zip(*looks, strict=True))


def page(browser: Browser, path: Path) -> Iterator[str]:
    """What is wrong with a page.

    Args:
        browser: that looks.
        path: of the page.

    Yields:
        A line for each problem, with the width and the theme where it depends on them.
    """
    browser.look(*LOOKS[0])
    browser.open(path)
    yield from browser.evaluate(READY)
    for place in range(browser.evaluate(SLIDERS)):
        shown = []
        for key in ("Home", "End"):
            browser.evaluate(SHOWN % place)
            browser.press(key)
            shown.append(browser.evaluate(SHOWN % place))
        if not all(shown) or shown[0] == shown[1]:
            yield f"slider {place + 1} moves nothing"
    for width, theme in LOOKS:
        browser.look(width, theme)
        for problem in browser.evaluate(LAID_OUT % (width, theme, CONTRAST)):
            yield f"{width} pixels, {theme}: {problem}"
    yield from dict.fromkeys(browser.faults)


def search(browser: Browser, html: Path, words: str, wanted: str) -> Iterator[str]:
    """What is wrong with the search.

    Args:
        browser: that looks.
        html: the built book.
        words: to search for.
        wanted: the page that is to be found.

    Yields:
        A line for each problem.
    """
    browser.open(html / "search.html", f"?q={words}")
    found = browser.evaluate(FOUND)
    if not any(link.split("?")[0].split("#")[0] == f"{wanted}.html" for link in found):
        yield f"wanted {wanted}, found {found[:5]}"
    yield from dict.fromkeys(browser.faults)


if __name__ == "__main__":
    sys.exit(main())
