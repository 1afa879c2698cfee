"""A built book made light: what pages show is kept, and formulas are drawn as before."""

import asyncio

import lighter
import pytest
from browse import Unavailable, chromium, opened
from bs4 import BeautifulSoup

FORMULAS = (
    r"\(\mathbb E\,\hat A^{\top}_{\pi\pi'} \le \mathrm{tr}\,\mathsf X\, \mathcal L \odot \sqrt{\textstyle\sum_i x}"
    r"\begin{cases} 1 \\ 2 \\ 3 \end{cases}\)"  # a brace made of pieces
)
PAGE = f"""<!DOCTYPE html><html><head><script defer src="_static/mathjax.js"></script></head>
<body><article>
<i class="fa-star seen"></i><span class="math">{FORMULAS}</span><img src="_images/x.svg"></article></body></html>"""
THEME = "a.seen,.unseen{color:red}@media print{.unseen{color:blue}}.seen:not(.unseen){color:green}"


@pytest.fixture
def html(tmp_path):
    for folder in ("_images", "_static/scripts", "_static/styles"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "index.html").write_text(PAGE)
    (tmp_path / "_images" / "x.svg").write_text('<svg><path d="M 1.23456 2 \nL 3 4 \nz" x="0.123456"/></svg>')
    icons = '{"star":[1,1,[],"f005","M1"],"bell":[1,1,["ring"],"f0f3","M2"]}'
    (tmp_path / "_static" / "scripts" / "fontawesome.js").write_text(icons)
    (tmp_path / "_static" / "styles" / "pydata-sphinx-theme.css").write_text(THEME)
    lighter.mathjax(tmp_path / "_static" / lighter.MATHJAX)
    return tmp_path


def test_what_no_page_shows_is_left_out(html):
    lighter.lighten(html)
    assert (html / "_images" / "x.svg").read_text() == '<svg><path d="M1.23 2L3 4z" x="0.123456"/></svg>'
    assert "bell" not in (kept := (html / "_static" / "scripts" / "fontawesome.js").read_text()) and "star" in kept
    wanted = "a.seen,.unseen{color:red}@media print{}.seen:not(.unseen){color:green}"
    assert (html / "_static" / "styles" / "pydata-sphinx-theme.css").read_text() == wanted
    files = [html / "index.html", html / "_static" / "mathjax.js", html / "_images" / "x.svg"]
    page = BeautifulSoup(files[0].read_text(), "html.parser")
    assert lighter.weight(files[0], page) == sum(file.stat().st_size for file in files) < 1.1e6


def test_formulas_are_drawn_as_by_all_of_mathjax(html):
    async def drawn() -> list[str]:
        async with chromium() as browser, opened(browser, (html / "index.html").as_uri()) as (page, faults):
            assert not [*await page.evaluate("look.ready()"), *faults]
            return await page.evaluate("[...document.querySelectorAll('mjx-container path')].map(one => one.outerHTML)")

    try:
        before = asyncio.run(drawn())
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert len(before) > 15
    size = (html / "_static" / lighter.MATHJAX).stat().st_size
    lighter.lighten(html)
    assert (html / "_static" / lighter.MATHJAX).stat().st_size < size and asyncio.run(drawn()) == before
