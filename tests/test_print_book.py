"""The printed book: contents, page numbers, links from page to page, and nothing wider than the paper."""

import asyncio
import io

import browse
import print_book
import pytest
from pypdf import PdfReader

HEAD = '<!DOCTYPE html><html><head><meta charset="utf-8"><style>pre { white-space: pre }</style></head><body>'
WIDE = "<table><tr>" + "<td>column of a table</td>" * 14 + "<td>the last</td></tr></table>"
INDEX = f"""{HEAD}<article class="bd-article"><section id="first"><h1>The first<a class="headerlink">#</a></h1>
<p>See <a href="paper.html#deep">the deep part</a> and <a href="other.html">another</a>.</p>
<details class="hide"><summary>Code</summary><div class="cell_input">folded code</div><div>kept output</div></details>
<pre>{"code " * 40}the end of the line</pre>{WIDE}</section></article></body></html>"""
PAPER = f"""{HEAD}<article class="bd-article"><section id="second"><h1>The second</h1>
<p><a href="#missing">nowhere</a></p><div style="height: 1500px"></div><h2 id="deep">Deep</h2>
<p><a href="index.html">back</a></p></section></article></body></html>"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("html")
    (folder / "book").mkdir()
    for name, text in {"index": INDEX, "paper": PAPER}.items():
        (folder / "book" / f"{name}.html").write_text(text)
    try:
        pdf, dead = asyncio.run(print_book.printed(folder, ["book/index", "book/paper"]))
    except browse.Unavailable as reason:
        pytest.skip(str(reason))
    assert not (folder / "print.html").exists()
    return PdfReader(io.BytesIO(pdf)), dead


def test_printed_book_has_a_title_page_contents_and_numbers_of_pages(printed):
    texts = [" ".join(page.extract_text().split()) for page in printed[0].pages]
    second, deep = (next(i for i, text in enumerate(texts, 1) if word in text) for word in ("nowhere", "Deep"))
    assert "To cite it:" in texts[0] and "Contents" in texts[1] and "See the deep part" in texts[2]
    assert f"The first 3 Start here The second {second} " in texts[1] and deep > second == 4
    assert f"(p. {deep})" in texts[2] and "back (p. 3)" in texts[deep - 1]
    assert all(str(number) in text.split() for number, text in enumerate(texts[1:], 2))


def test_printed_book_keeps_long_lines_wide_tables_and_outputs_but_no_folded_code(printed):
    first = printed[0].pages[2]
    text = " ".join(first.extract_text().split())
    assert "the end of the line" in text and "kept output" in text and "folded code" not in text
    right = float(first.mediabox.right)
    ends = []
    first.extract_text(visitor_text=lambda part, cm, tm, font, size: ends.append(tm[4] * cm[0] + cm[4]))
    assert "the last" in text and max(ends) < right


def test_links_of_the_printed_book_lead_to_pages_of_it(printed):
    reader, dead = printed
    named = {name.lstrip("/"): reader.get_destination_page_number(at) for name, at in reader.named_destinations.items()}
    assert named["book-paper--deep"] > named["book-paper"] == 3 and named["book-index"] == 2
    assert dead == ["#book-paper--missing"]
    links = [note.get_object() for page in reader.pages for note in page.get("/Annots", [])]
    assert not any("file:" in str(link.get("/A", {}).get("/URI", "")) for link in links)
