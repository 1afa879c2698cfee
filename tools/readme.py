"""Write what the README takes from the executed book and from the records: `make readme`.

Three blocks, each between two comments: the figure with its caption, the table of what is
reproduced (a row for every call of `pages.agreement` on a page), and what is recorded. `--check`
writes nothing and fails where the README says something else.
"""

import argparse
import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from bs4 import BeautifulSoup
from check_book import ROOT
from execute_pages import Pages

from attention_book import results
from attention_book.notebooks.pages import AGREEMENT

PAGE, FIGURE, PICTURE = "book/theory/choosing_paths", "fig-choosing-accuracy", "book/images/accuracy.svg"
BEGIN, END = "<!-- {}: written by `make readme` -->\n", "<!-- end: {} -->"
COUNTS = ("no", "one", "two", "three", "four", "five", "six")


class Unready(Exception):
    """The README cannot be written yet, as the message says."""


def main() -> int:
    """Run the command line; return 1 if the book is not built or the README out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the README is out of date")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project's folder")
    options = parser.parse_args()
    readme = options.root / "README.md"
    text = said = readme.read_text(encoding="utf-8")
    try:
        notebooks = executed(options.root)
        text = put(text, "figure", figure(notebooks[PAGE]))
        text = put(text, "agreement", agreement(notebooks))
        text = put(text, "recorded", recorded(options.root / "results"))
    except Unready as error:
        print(f"readme: {error.args[0]}", file=sys.stderr)
        return 1
    if options.check:
        changed = [line for line in text.splitlines() if line not in said.splitlines()]
        for line in changed:
            print(f"readme: README.md is out of date, `make readme` would write: {line}", file=sys.stderr)
        print("readme: README.md is " + ("up to date" if text == said else "out of date"))
        return 1 if text != said else 0
    readme.write_text(text, encoding="utf-8")
    copy_picture(options.root)
    return 0


def executed(root: Path) -> dict:
    """Return the executed notebooks of the built book by page, in the order of the contents."""
    if not (root / "_build" / ".done").is_file():
        raise Unready("the book is not built. Run `make book` first.")
    pages = Pages(root)
    found = {name: pages.executed(name) for name in pages.notebooks}
    for name, notebook in found.items():
        if notebook is None:
            raise Unready(f"{name}: has changed since the book was built. Run `make book` first.")
    return found


def agreement(notebooks: dict) -> str:
    """Return the table of what is reproduced, in the order of the paper's figures, in Markdown."""
    rows = []
    for name, notebook in notebooks.items():
        page = name.removeprefix("book/")
        for row in (data[AGREEMENT] for data, _ in _outputs(notebook) if AGREEMENT in data):
            command = "`make reproduce`, `make book`" if row["recorded"] else f"`... run {page}`"
            rows.append((f"{row['figure']}: {row['what']}", f"[{page}]({name}.md)", command, row["says"]))
    rows.sort(key=lambda row: _number(row[0]))
    head = ("figure of the paper", "chapter", "command", "agreement")
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)).replace(" --- ", "---")


def figure(notebook) -> str:
    """Return the figure with its caption, from the executed page that draws it, in Markdown."""
    glued = {facts["scrapbook"]["name"]: data for data, facts in _outputs(notebook) if "scrapbook" in facts}
    # A value that is glued without being shown has a prefix before its kind.
    draws = ast.literal_eval(glued["hmc_draws"]["application/papermill.record/text/plain"])
    return (
        f"![Test accuracy against width: theory, and three Gaussian-process limits]({PICTURE})\n\n"
        "*Figure 2(c) of [Tiberi, Mignacco, Irie, Sompolinsky (NeurIPS 2024)](https://arxiv.org/abs/2405.15926), "
        f"theory, over {draws} draws of data and random heads.*"
    )


def recorded(folder: Path) -> str:
    """Return a paragraph on what is recorded: networks, what was computed of each, and samples."""
    files = sorted((folder / "one_shot").glob("network-*.nc"))
    asked = [results.record(path)["parameters"] for path in files]
    kinds = Counter((one.get("kind") == "skip", one["layers"], one["heads"]) for one in asked)
    networks = []
    for (skip, layers, heads), number in sorted(kinds.items()):
        shape = f"$L$ = $H$ = {layers}" if layers == heads else f"$L$ = {layers}, $H$ = {heads}"
        networks.append(f"{_count(number)} of {shape}" + " beside skip connections" * skip)
    parts = {"theory": "theory", "pruning": "pruning", "evidence": "the evidence lost without each head"}
    names = [path.name.removeprefix("network") for path in files]
    there = {part: all((folder / "one_shot" / (part + name)).is_file() for name in names) for part in parts}
    common = [text for part, text in parts.items() if there[part]]
    text = (
        f"Networks recorded, at the paper's scale: {_listed(networks, ', and ')}" if files else "No network is recorded"
    )
    text += f", each with {_listed(common)}." if files and common else "."
    markov = [results.record(path)["parameters"] for path in (folder / "sampling").glob("weights-*.nc")]
    weights = [f"of the hidden Markov network at $N$ = {_widths(one['width'] for one in markov)}"] if markov else []
    samples = []
    for sampler, found in (("weights", weights), ("posterior", [])):
        for path in sorted((folder / "one_shot").glob(f"{sampler}-*.nc")):
            network, widths = path.stem.removeprefix(f"{sampler}-"), results.record(path)["parameters"]["widths"]
            found.append(f"of the one-shot network {network} at $N$ = {_widths(widths)}")
        name = {"weights": "all weights by NUTS", "posterior": "the exact posterior"}[sampler]
        samples += [f"{name}{',' * (len(found) > 1)} {_listed(found)}"] if found else []
    return text + (f" Samples recorded: {'; '.join(samples)}." if samples else "")


def put(text: str, name: str, block: str) -> str:
    """Return a text with another block between its two marks."""
    begin, end = BEGIN.format(name), END.format(name)
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise Unready(f"README.md: wanted the lines {begin.strip()} and {end}, found none.")
    return f"{before}{begin}\n{block}\n\n{end}{after}"


def copy_picture(root: Path) -> None:
    """Copy the figure out of the built book, without the date in it."""
    page = root / "_build" / "html" / f"{PAGE}.html"
    image = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").find(id=FIGURE).find("img")
    target = root / PICTURE
    target.parent.mkdir(exist_ok=True)
    drawn = (page.parent / image["src"]).read_text(encoding="utf-8")
    target.write_text(re.sub(r"\s*<dc:date>.*?</dc:date>", "", drawn), encoding="utf-8")


def _outputs(notebook) -> Iterable[tuple[dict, dict]]:
    """Yield the data and metadata of everything that the cells of a notebook displayed."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            yield output.get("data", {}), output.get("metadata", {})


def _number(row: str) -> tuple[int, str]:
    """Return the first figure that a row names."""
    number, letter = re.match(r"(\d+)(?:\((\w)\))?", row).groups("")
    return int(number), letter


def _count(number: int) -> str:
    return COUNTS[number] if number < len(COUNTS) else str(number)


def _widths(widths: Iterable[float]) -> str:
    return _listed([f"{width:g}" for width in sorted(widths)])


def _listed(texts: list[str], last: str = " and ") -> str:
    return ", ".join(texts[:-1]) + last + texts[-1] if len(texts) > 1 else texts[0]


if __name__ == "__main__":
    sys.exit(main())
