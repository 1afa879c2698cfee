"""Write requirements.txt from pyproject.toml: all that the library, the book and the tests need."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAD = (
    "# Made by `python tools/requirements.py` from pyproject.toml, which explains the bounds; "
    "constraints/ has tested versions.\n"
)


def requirements() -> str:
    """Return the text: the library's dependencies and those of its extras, but for images and workflow."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = "sampling", "train", "io", "plot", "book", "dev"
    extras = (project["optional-dependencies"][name] for name in names)
    lines = {*project["dependencies"], *(line for extra in extras for line in extra)}
    return HEAD + "\n".join(sorted(line for line in lines if not re.match(r"statmech-attention\b", line))) + "\n"


if __name__ == "__main__":
    (ROOT / "requirements.txt").write_text(requirements(), encoding="utf-8")
