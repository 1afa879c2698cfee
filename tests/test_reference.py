"""The reference pages: every public name has an entry, and docstrings become what Sphinx understands."""

import importlib
import inspect
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
# How notebooks are read and executed; others call `runs`.
INTERNAL = {"attention_book.notebooks.execution", "attention_book.notebooks.parameters"}


def public_names(name: str) -> list[str]:
    """What a module lists in `__all__`; else what it defines, or what the public modules of a package do."""
    module = importlib.import_module(name)
    if hasattr(module, "__all__"):
        return [f"{name}.{one}" for one in module.__all__ if not inspect.ismodule(getattr(module, one))]
    if hasattr(module, "__path__"):
        below = [f"{name}.{one.name}" for one in pkgutil.iter_modules(module.__path__) if not one.name.startswith("_")]
        return [found for one in below if one not in INTERNAL for found in public_names(one)]
    own = [one for one, thing in vars(module).items() if getattr(thing, "__module__", None) == name]
    return [f"{name}.{one}" for one in own if not one.startswith("_")]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The reference pages alone, built with warnings as errors by the book's settings for autodoc."""
    source = tmp_path_factory.mktemp("reference")
    shutil.copytree(ROOT / "book" / "use" / "reference", source / "reference")
    page = (ROOT / "book" / "use" / "api.md").read_text(encoding="utf-8")
    (source / "index.md").write_text(f"{page}\n```{{toctree}}\n:glob:\n\nreference/*\n```\n")
    settings = yaml.safe_load((ROOT / "_config.yml").read_text())["sphinx"]
    extensions = ["myst_parser", *settings["extra_extensions"], *settings["local_extensions"]]
    values = {name: value for name, value in settings["config"].items() if name.startswith(("auto", "add_module"))}
    values |= {"extensions": extensions, "myst_enable_extensions": ["dollarmath"]}
    values |= {"suppress_warnings": ["myst.xref_missing"], "html_theme": "basic"}  # other pages are not here
    lines = [f"sys.path.insert(0, {str(ROOT / folder)!r})" for folder in settings["local_extensions"].values()]
    lines += [f"{name} = {value!r}" for name, value in values.items()]
    (source / "conf.py").write_text("\n".join(["import sys", *lines]))
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-q",
        "-W",
        "--keep-going",
        "-b",
        "html",
        str(source),
        str(source / "html"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return source / "html"


def test_every_public_name_has_an_entry(built):
    from sphinx.util.inventory import InventoryFile

    import statmech_attention as sma

    with (built / "objects.inv").open("rb") as file:
        inventory = InventoryFile.load(file, "", lambda base, link: link)
    entries = {name for kind, found in inventory.items() if kind.startswith("py:") for name in found}
    rooms = [f"statmech_attention.{one.name}" for one in pkgutil.iter_modules(sma.__path__) if one.ispkg]
    missing = [name for room in rooms for name in public_names(room) if name not in entries]
    assert missing == [], "name the module, or the name itself, on a page of book/use/reference"


def test_every_name_of_the_package_itself_is_in_the_table():
    import statmech_attention as sma

    page = (ROOT / "book" / "use" / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(?:   ~|.. autofunction:: statmech_attention\.)([\w.]+)$", page, flags=re.MULTILINE)
    for path in listed:
        module, _, name = f"statmech_attention.{path}".rpartition(".")
        assert getattr(sma, name) is getattr(importlib.import_module(module), name), path
    names = {name for name in sma.__all__ if not inspect.ismodule(getattr(sma, name))}
    assert {path.rpartition(".")[2] for path in listed} == names


def test_formulas_and_code_are_marked_and_none_is_left_as_it_was_written(built):
    from bs4 import BeautifulSoup

    pages = {path: BeautifulSoup(path.read_text(), "html.parser") for path in (built / "reference").glob("*.html")}
    assert len(pages[built / "reference" / "theory.html"].select("span.math")) > 50
    for path, page in pages.items():
        for marked in page.select(".math, code, pre, script"):
            marked.decompose()
        assert re.findall(r".{,30}(?:[$`]|:math:).{,30}", page.get_text()) == [], path.name
