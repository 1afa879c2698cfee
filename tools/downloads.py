"""Put links below the figures and tables of the built book: the picture, and its numbers as CSV."""

import csv
import hashlib
import os
from pathlib import Path

from bs4 import BeautifulSoup, Tag

from attention_book.notebooks.pages import DATA


def offer(html: Path, notebooks: dict) -> None:
    """Write the numbers of each page's figures and tables beside its pictures, and link them."""
    for name, notebook in notebooks.items():
        path = html / f"{name}.html"
        page = BeautifulSoup(path.read_text("utf-8"), "html.parser")
        numbers = dict(_figures(notebook))
        for image in page.select("article .cell_output img[src$='.svg']"):
            picture = path.parent / image["src"]
            links = {"SVG": image["src"]}
            if text := numbers.get(picture.stem):
                picture.with_suffix(".csv").write_text(text, "utf-8")
                links["CSV"] = os.path.splitext(image["src"])[0] + ".csv"
            _link(page, image.find_parent("figure") or image.parent, links)
        for number, table in enumerate(page.select("article .cell_output table"), 1):
            file = html / "_images" / f"{name.replace('/', '-')}-table{number}.csv"
            with open(file, "w", newline="", encoding="utf-8") as opened:
                rows = table.select("tr")
                csv.writer(opened).writerows([_text(cell) for cell in row.select("th, td")] for row in rows)
            _link(page, table.find_parent(class_="pst-scrollable-table-container") or table, {"CSV": _from(path, file)})
        path.write_text(str(page), "utf-8")


def _figures(notebook):
    """Yield the name that MyST-NB gives to each picture, and the numbers that came with it."""
    for output in (output for cell in notebook.cells for output in cell.get("outputs", [])):
        shown = output.get("data", {})
        if DATA in shown and "image/svg+xml" in shown:
            picture = os.linesep.join(shown["image/svg+xml"].splitlines())
            yield hashlib.sha256(picture.encode()).hexdigest(), shown[DATA]


def _link(page: BeautifulSoup, shown: Tag, links: dict[str, str]) -> None:
    below = page.new_tag("p", attrs={"class": "downloads"})
    for kind, address in links.items():
        link = page.new_tag("a", href=address, download="")
        link.string = kind
        below.extend([link, " "])
    shown.insert_after(below)


def _from(page: Path, file: Path) -> str:
    return Path(os.path.relpath(file, page.parent)).as_posix()


def _text(cell: Tag) -> str:
    return " ".join(cell.get_text(" ").split()).replace("\N{MINUS SIGN}", "-")
