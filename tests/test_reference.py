"""The reference pages name every public module and every name of the package itself; the book's build looks at the rest."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import statmech_attention as sma

PAGES = Path(__file__).resolve().parents[1] / "book" / "use"


def public_modules(name: str) -> list[str]:
    """The module itself if it says what is public in it or has no modules below it, else its public modules."""
    module = importlib.import_module(name)
    if hasattr(module, "__all__") or not hasattr(module, "__path__"):
        return [name]
    below = [one.name for one in pkgutil.iter_modules(module.__path__) if not one.name.startswith("_")]
    return [found for one in below for found in public_modules(f"{name}.{one}")]


def test_every_public_module_has_its_members_on_a_page():
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((PAGES / "reference").glob("*.md")))
    shown = re.findall(r"^\.\. automodule:: ([\w.]+)\n +:members:", text, re.MULTILINE)
    rooms = [f"statmech_attention.{one.name}" for one in pkgutil.iter_modules(sma.__path__) if one.ispkg]
    wanted = [name for room in rooms for name in public_modules(room)]
    assert [name for name in wanted if name not in shown] == [], "wanted automodule on a page of book/use/reference"


def test_every_name_of_the_package_itself_is_in_the_table():
    page = (PAGES / "api.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(?:   ~|.. autofunction:: statmech_attention\.)([\w.]+)$", page, flags=re.MULTILINE)
    for path in listed:
        module, _, name = f"statmech_attention.{path}".rpartition(".")
        assert getattr(sma, name) is getattr(importlib.import_module(module), name), path
    names = {name for name in sma.__all__ if not inspect.ismodule(getattr(sma, name))}
    assert {path.rpartition(".")[2] for path in listed} == names
