"""Links below figures and tables of the built book."""

import csv
import hashlib

import nbformat
from bs4 import BeautifulSoup
from downloads import offer

from attention_book.notebooks.pages import DATA

FIGURE = '<figure><img alt="a" src="../_images/{}.svg"/><figcaption>Caption</figcaption></figure>'
TABLE = "<table><tr><th>a</th><th>b</th></tr><tr><td>one, two</td><td>\N{MINUS SIGN}3</td></tr></table>"


def test_a_figure_and_a_table_are_offered_with_their_numbers(tmp_path):
    picture, output = "<svg>\n</svg>", nbformat.v4.new_output
    name = hashlib.sha256(picture.encode()).hexdigest()
    cell = nbformat.v4.new_code_cell(outputs=[output("display_data", {"image/svg+xml": picture, DATA: "x,y\n"})])
    page = tmp_path / "book" / "page.html"
    for folder in ("book", "_images"):
        (tmp_path / folder).mkdir()
    page.write_text(f'<article><div class="cell_output">{FIGURE.format(name)}{TABLE}</div>{TABLE}</article>')
    offer(tmp_path, {"book/page": nbformat.v4.new_notebook(cells=[cell])})
    links = [link["href"] for link in BeautifulSoup(page.read_text(), "html.parser").select("p.downloads a")]
    wanted = [f"../_images/{name}.svg", f"../_images/{name}.csv", "../_images/book-page-table1.csv"]
    assert links == wanted  # and none for what no cell has shown
    assert (tmp_path / "_images" / f"{name}.csv").read_text() == "x,y\n"
    with open(tmp_path / "_images" / "book-page-table1.csv", newline="") as file:
        assert [*csv.reader(file)] == [["a", "b"], ["one, two", "-3"]]
