"""Copy the figure that the README shows out of the built book, so that it is never drawn by hand."""

import shutil
import sys
from pathlib import Path

from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[1]
PAGE, FIGURE, TARGET = "book/hidden_markov/theory.html", "fig-hmc-accuracy", "accuracy"


def main() -> int:
    """Run the command line; returns the exit status."""
    page = ROOT / "_build" / "html" / PAGE
    if not page.is_file():
        print(f"{PAGE}: not built yet. Run `make book` first.", file=sys.stderr)
        return 1
    image = BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser").find(id=FIGURE).find("img")
    source = page.parent / image["src"]
    target = ROOT / "book" / "images" / f"{TARGET}{source.suffix}"
    target.parent.mkdir(exist_ok=True)
    shutil.copyfile(source, target)
    print(target.relative_to(ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
