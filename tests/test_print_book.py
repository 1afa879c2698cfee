"""The book as one PDF: pages in order, links between them inside, linked from the first page once."""

import re

import print_book
import pytest
from browser import Unavailable

PAGE = """<!DOCTYPE html><html><head><title>{0}</title><link rel="stylesheet" href="{1}_static/a.css"></head>
<body><article class="bd-article"><section id="top"><h1>{0}<a class="headerlink" href="#top">#</a></h1>
<p><a href="{2}.html#top">other</a> <a href="{1}genindex.html">index</a> <a href="https://example.org">away</a> <a href="#top">here</a></p>
<img src="{1}_images/x.svg" alt="x"><details class="admonition hide above-input"><pre>code</pre></details>
<details><summary>more</summary>kept</details><script>document.title = "changed"</script></section></article></body></html>"""
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="20"><rect width="20" height="20"/></svg>'


@pytest.fixture
def html(tmp_path):
    for folder in ("book/part", "_images", "_static"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "index.html").write_text("")
    (tmp_path / "_static" / "a.css").write_text("")
    (tmp_path / "_images" / "x.svg").write_text(PICTURE)
    (tmp_path / "book" / "first.html").write_text(PAGE.format("First", "../", "part/second"))
    (tmp_path / "book" / "part" / "second.html").write_text(PAGE.format("Second", "../../", "../first"))
    return tmp_path


NAMES = ["book/first", "book/part/second"]


def test_pages_stand_in_order_and_point_to_each_other(html):
    whole = print_book.together(html, NAMES)
    assert [one.get_text(strip=True) for one in whole.select("h1")] == ["First", "Second"]
    links = [link.get("href") for link in whole.select("a")]
    assert links[:4] == ["#book-part-second--top", None, "https://example.org", "#book-first--top"]
    assert links[4] == "#book-first--top"
    assert {one["id"] for one in whole.select("[id]")} >= {link[1:] for link in links if link and link.startswith("#")}
    assert [one["src"] for one in whole.select("img")] == ["_images/x.svg"] * 2
    assert [one["href"] for one in whole.select("link")] == ["_static/a.css"]
    text = whole.get_text()
    assert "code" not in text and text.count("kept") == 2 and "changed" not in text


def test_the_pdf_is_printed_and_linked_once(html):
    try:
        path = print_book.print_book(html, NAMES)
    except Unavailable as reason:
        pytest.skip(str(reason))
    written = path.read_bytes()
    assert written.startswith(b"%PDF-") and len(re.findall(rb"/Type */Page\b", written)) == 2
    assert outline(written) == {"First", "Second"}
    print_book.link(html / "book" / "first.html")
    first = (html / "book" / "first.html").read_text()
    assert "as a PDF" not in print_book.together(html, NAMES).get_text()
    assert first.count('href="../book.pdf"') == 1 and (html / "book" / "../book.pdf").is_file()
    assert sorted(one.name for one in html.iterdir()) == ["_images", "_static", "book", "book.pdf", "index.html"]


def outline(pdf: bytes) -> set[str]:
    """The titles to which the last table of cross-references leads."""
    table = pdf[int(pdf.rsplit(b"startxref\n", 1)[1].split()[0]) :]
    found = {}
    for number, place in re.findall(rb"(\d+) 1\n(\d{10}) 00000 n \n", table):
        entry = re.match(rb"(\d+) 0 obj\n<</Title <([0-9a-f]+)>", pdf[int(place) :])
        assert entry[1] == number
        found[number] = bytes.fromhex(entry[2].decode()).decode("utf-16")

    return set(found.values())


def test_titles_are_those_of_the_document_and_nothing_changes_where_they_do_not_fit():
    # As Chromium writes it: the second entry is the first one's child, and what is not an entry has a title as well.
    pdf = b"%PDF-1.4\n1 0 obj\n<</Title (T)\n/Creator (C)>>\nendobj\n3 0 obj\n<</Title (A \\(1\\)A)\n/Parent 5 0 R\n/First 4 0 R>>\nendobj\n"
    pdf += (
        b"4 0 obj\n<</Title <FEFF0042>\n/Parent 3 0 R>>\nendobj\n5 0 obj\n<</Type /Outlines\n/First 3 0 R>>\nendobj\n"
    )
    pdf += b"6 0 obj\n<</Outlines 5 0 R>>\nendobj\nxref\n0 1\n0000000000 65535 f \ntrailer\n<</Size 7\n/Root 6 0 R>>\nstartxref\n9\n%%EOF\n"
    changed = print_book.titled(pdf, ["A (1)", "β"])
    assert changed.startswith(pdf) and outline(changed) == {"A (1)", "β"}
    assert b"/Prev 9>>" in changed and b"/Root 6 0 R" in changed[len(pdf) :]
    assert print_book.titled(pdf, ["A"]) == pdf


def test_without_a_book_the_reason_is_said(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["print_book", "--html", str(tmp_path)])
    assert print_book.main() == 0
    assert capsys.readouterr().out == "print_book: skipped, the book is not built: make book\n"
