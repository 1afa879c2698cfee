"""Write the pages as notebooks, whose first cell installs what is missing where it runs.

They are written to `_build/notebooks` and beside the sources of the built pages, from where they
are downloaded. The book's workflow puts them on a branch of the repository, where the pages'
buttons open them.
"""

import re
import shutil
import subprocess
from pathlib import Path

import jupytext
import nbformat

# A web address as it stands in the settings or in Git, there perhaps with a name, a password or the
# port of a shell.
ADDRESS = re.compile(
    r"(?:https://|ssh://|git@)(?:[^/@]+@)?(github\.com|gitlab\.com)(?::\d+)?[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?"
)
BUTTONS = ("binderhub_url", "colab_url")
GET = """\
# Where the package is not installed, as on Colab, this gets the book and what its pages need;
# elsewhere it does nothing.
import importlib.util, os, subprocess, sys

if importlib.util.find_spec("attention_book") is None:
    if not os.path.isdir("{name}"):
        subprocess.run(["git", "clone", "--depth", "1", "--branch", "{branch}", "{address}", "{name}"], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--editable", "./{name}[book]"], check=True)
    importlib.invalidate_caches()
if os.path.isdir("{name}/{folder}"):
    os.chdir("{name}/{folder}")  # pages read recorded results from beside them
"""


def address(settings: dict, root: Path) -> str | None:
    """Return the repository's web address from the settings or Git; None if it is not public."""
    said = settings.get("repository", {}).get("url")
    if not said:
        command = ["git", "-C", str(root), "remote", "get-url", "origin"]
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except OSError:  # no Git
            return None
        said = done.stdout.strip()
    found = ADDRESS.fullmatch(said)
    return f"https://{found[1]}/{found[2]}" if found else None


def launch(settings: dict, where: str | None) -> None:
    """Point the pages' buttons to the repository; without one, remove them."""
    if where is None:
        settings.pop("repository", None)
        for name in BUTTONS:
            settings["launch_buttons"].pop(name, None)
    else:
        settings["repository"]["url"] = where
        settings["html"] |= {"use_repository_button": True, "use_issues_button": True}


def export(root: Path, names: list[str], build: Path, where: str | None, branch: str) -> None:
    """Write the named pages as notebooks, which will lie on a branch of the repository."""
    shutil.rmtree(build / "notebooks", ignore_errors=True)
    for name in names:
        notebook = jupytext.read(root / f"{name}.md")
        notebook.metadata.pop("jupytext", None)  # its partner is the page, not a file beside it
        if where is not None:
            folder = name.rpartition("/")[0]
            first = GET.format(address=where, branch=branch, name=where.rpartition("/")[2], folder=folder)
            notebook.cells.insert(0, nbformat.v4.new_code_cell(first.strip()))
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"  # the same page gives the same file
        path = build / "notebooks" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, path)
        beside = build / "html" / "_sources" / f"{name}.ipynb"
        beside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, beside)
