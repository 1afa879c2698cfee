"""The look at pages in a browser: it finds what is wrong, and nothing on a page that is right."""

import asyncio

import browse
import pytest

THEME = """<meta name="viewport" content="width=device-width, initial-scale=1">
<script>
const dark = matchMedia("(prefers-color-scheme: dark)"), page = document.documentElement.dataset;
const set = () => page.theme = dark.matches ? "dark" : "light";
dark.addEventListener("change", set); set();
</script>
<style>html { background: white; color: black } html[data-theme=dark] { background: #111; color: #eee }
article { transition: margin 2s, color 2s; margin-left: 0 }
@media (max-width: 800px) { article { margin-left: -50px; padding-left: 50px } }</style>"""
SLIDER = """<div><label><input type="range" oninput="{}"></label><img alt="" src="data:,0"></div>"""
MOVES = SLIDER.format("document.querySelector('img').src = 'data:,' + this.value")
DRAWS = """<div role="group"><p><input type="range" oninput="document.querySelector('text').textContent = this.value">
</p><svg><text>0</text></svg></div>"""
WIDE = "wide " * 200
RIGHT = (
    f"{THEME}<article><p>Some words.</p><div style='overflow-x: auto'><pre>{WIDE}</pre></div>{MOVES}{DRAWS}</article>"
)
WRONG = (
    THEME
    + """<article><p style="color: #222; width: 900px">Dark words.</p><span class="math">\\(x\\)</span>
<svg width="9" height="9"><g data-mml-node="merror" data-mjx-error="no such thing"></g></svg>"""
    + SLIDER
    + """</article>
<script>console.error("oh"); new Image().src = "https://example.org/x.png"; nothing.there</script>"""
)


def test_faults_of_a_page_in_the_browser_are_found(tmp_path):
    for name, text in (("index", ""), ("right", RIGHT), ("wrong", WRONG)):
        (tmp_path / f"{name}.html").write_text(f"<!DOCTYPE html><html><body>{text}</body></html>")
    names = ["right", "wrong"]
    try:
        looked = asyncio.run(browse.browse(tmp_path, names, jobs=2))
    except browse.Unavailable as reason:
        pytest.skip(str(reason))
    assert list(looked) == names and looked["right"] == []
    found = looked["wrong"]
    wanted = [
        "formula left raw: \\(x\\)",
        "formula with an error: no such thing",
        "slider 1 moves nothing",
        "390 pixels, light: scrolls sideways: ",
        "390 pixels, dark: p reaches from ",
        "1400 pixels, dark: hardly legible, 1.",
        "console: oh",
        "exception: ReferenceError: nothing is not defined",
        "asks the network for https://example.org/x.png",
    ]
    assert [part for part in wanted if not any(problem.startswith(part) for problem in found)] == []
    assert not any(problem.startswith("1400 pixels, light") for problem in found)
