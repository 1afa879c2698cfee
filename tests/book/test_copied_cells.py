"""Cells that a reader copies from pages run in an empty folder, with both packages from the wheel."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import check_book
import pytest

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("dmft/model", "appendix/layers", "appendix/making", "one_shot/trained")
SLOW = ("encoder/heads", "encoder/chain")
BUILD = "from setuptools import build_meta; build_meta.build_wheel('dist')"
# Each page has names of its own, as in a notebook; a page that fails is named with the cell.
RUN = """
import json, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import attention_book, statmech_attention
print(json.dumps([attention_book.__file__, statmech_attention.__file__]), file=sys.stderr)
for page, cells in json.load(sys.stdin).items():
    names = {"__name__": "__main__"}
    for cell in cells:
        try:
            exec(compile(cell, page, "exec"), names)
        except Exception as error:
            raise SystemExit(f"{page}: {type(error).__name__}: {error} in the cell\\n{cell}")
    plt.close("all")
import os
from attention_book.runs import results
del os.environ[results.SETTING]
try:
    results.load("../../results/dmft/phases-seed1.nc")
except FileNotFoundError as error:
    print(error, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with what the wheel contains, which is built from a copy: building leaves files behind."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    subprocess.run([sys.executable, "-c", BUILD], cwd=folder, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


def run(site, folder, code, given="", **settings):
    """What code prints and says in an empty folder, and its status."""
    environment = {**os.environ, "PYTHONPATH": str(site), **settings}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, cwd=folder, env=environment, input=given, capture_output=True, text=True)


@pytest.mark.parametrize("names", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)], ids=["quick", "slow"])
def test_cells_that_are_copied_run_in_an_empty_folder(site, tmp_path, names):
    removed = re.compile("remove-(?:cell|input)")
    pages = {page: check_book.cells(ROOT / "book" / f"{page}.md") for page in names}
    shown = {page: [code for above, code in cells if not removed.search(above)] for page, cells in pages.items()}
    done = run(site, tmp_path, RUN, json.dumps(shown), STATMECH_ATTENTION_RESULTS=str(ROOT / "results"))
    assert done.returncode == 0, done.stderr
    used, *_, said = done.stderr.splitlines()
    assert all(Path(file).is_relative_to(site) for file in json.loads(used))
    assert said.endswith(
        "Run this in a checkout, or set the environment variable STATMECH_ATTENTION_RESULTS to that folder."
    )


def test_no_page_takes_a_file_of_the_checkout_from_the_folder_that_it_is_in():
    """`results.load` finds the book's records by `../../results`, and `results.folder` where they are."""
    opened = re.compile(r"(?:Path|open|glob|read_text|load_dataset)\([^)]*\.\./")
    pages = [path for path in (ROOT / "book").rglob("*.md") if path.parent.name != "runs"]
    cells = [(path.name, code) for path in pages for _, code in check_book.cells(path)]
    assert [name for name, code in cells if opened.search(code)] == [] and len(cells) > 300


def test_package_of_the_book_names_its_extra(site, tmp_path):
    absent = "import importlib.util as there; find = there.find_spec\n"
    absent += "there.find_spec = lambda name: None if name == 'papermill' else find(name)\n"
    done = run(site, tmp_path, absent + "import statmech_attention\nimport attention_book.stats")
    said = (
        "ImportError: attention_book: wanted the extra book, got no papermill. pip install 'statmech-attention[book]'"
    )
    assert said in done.stderr
