"""The book as one PDF: pages in order, with links between them and an outline."""

import re

import print_book
import pytest
from browse import Unavailable
from pypdf import PdfReader

PAGE = """<!DOCTYPE html><html><head><title>{0}</title><link rel="stylesheet" href="{1}_static/a.css"></head>
<body><article class="bd-article"><section id="top"><h1>{0}<a class="headerlink" href="#top">#</a></h1>
<p><a href="{2}.html#top">other</a> <a href="{1}genindex.html">index</a>
<a href="https://example.org">away</a> <a href="#top">here</a></p>
<img src="{1}_images/x.svg" alt="x"><details class="admonition hide above-input"><pre>code</pre></details>
<details><summary>more</summary>kept</details>
<script>document.title = "changed"</script></section></article></body></html>"""
TITLE = "of two pages whose title is so long that it does not fit into a single line"
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><rect width="20" height="20"/></svg>'


@pytest.fixture
def html(tmp_path):
    for folder in ("book/part", "_images", "_static"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "index.html").write_text("")
    (tmp_path / "_static" / "a.css").write_text("")
    (tmp_path / "_images" / "x.svg").write_text(PICTURE)
    (tmp_path / "book" / "first.html").write_text(PAGE.format(f"First {TITLE}", "../", "part/second"))
    (tmp_path / "book" / "part" / "second.html").write_text(PAGE.format(f"Second {TITLE}", "../../", "../first"))
    return tmp_path


NAMES = ["book/first", "book/part/second"]


def test_pages_stand_in_order_and_point_to_each_other(html):
    whole = print_book.together(html, NAMES)
    assert [one.get_text(strip=True) for one in whole.select("h1")] == [f"First {TITLE}", f"Second {TITLE}"]
    links = [link.get("href") for link in whole.select("a")]
    assert links[:4] == ["#book-part-second--top", None, "https://example.org", "#book-first--top"]
    assert links[4:6] == ["#book-part-second", "#book-first--top"]  # the list of pages ends the first
    assert {one["id"] for one in whole.select("[id]")} >= {link[1:] for link in links if link and link.startswith("#")}
    assert [one["src"] for one in whole.select("img")] == ["_images/x.svg"] * 2
    assert [one["href"] for one in whole.select("link")] == ["_static/a.css"]
    text = whole.get_text()
    assert "code" not in text and text.count("kept") == 2 and "changed" not in text


def test_the_pdf_is_printed_and_linked_once(html):
    try:
        path = print_book.print_book(html, NAMES, [("Part", NAMES[1:])])
    except Unavailable as reason:
        pytest.skip(str(reason))
    written = PdfReader(path)
    assert len(written.pages) == 3  # the title, the contents, the second page
    assert re.sub(r"\s+", "", written.pages[1].extract_text()).startswith(f"PartSecond{TITLE}3".replace(" ", ""))
    assert [one.title for one in written.outline] == [f"First {TITLE}", f"Second {TITLE}"]
    assert len(written.named_destinations) >= 2  # of the links between pages
    print_book.link(html / "book" / "first.html", html)
    first = (html / "book" / "first.html").read_text()
    assert "as a PDF" not in print_book.together(html, NAMES).get_text()
    assert first.count('href="../book.pdf"') == 1 and (html / "book" / "../book.pdf").is_file()
    assert sorted(one.name for one in html.iterdir()) == ["_images", "_static", "book", "book.pdf", "index.html"]
