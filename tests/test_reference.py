"""The reference pages show every public name."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import statmech_attention as sma

PAGES = Path(__file__).resolve().parents[1] / "book" / "use"


def homes(name: str) -> set[tuple[str, str]]:
    """The modules that list and that define each public name of a module or of those below it."""
    module = importlib.import_module(name)
    if hasattr(module, "__all__"):
        things = [getattr(module, one) for one in module.__all__]
        return {(name, getattr(one, "__module__", name)) for one in things if not inspect.ismodule(one)}
    if not hasattr(module, "__path__"):
        return {(name, name)}
    below = [one.name for one in pkgutil.iter_modules(module.__path__) if not one.name.startswith("_")]
    return {home for one in below for home in homes(f"{name}.{one}")}


def test_every_public_name_is_defined_or_listed_in_a_module_on_a_page():
    text = "".join(path.read_text(encoding="utf-8") for path in sorted((PAGES / "reference").glob("*.md")))
    shown = set(re.findall(r"^\.\. automodule:: ([\w.]+)\n +:members:", text, re.MULTILINE))
    rooms = [f"statmech_attention.{one.name}" for one in pkgutil.iter_modules(sma.__path__) if one.ispkg]
    missing = [home for room in rooms for home in homes(room) if not shown & set(home)]
    assert sorted(missing) == [], "wanted automodule with :members: on a page of book/use/reference"


def test_every_name_of_the_package_itself_is_in_the_table():
    page = (PAGES / "package.md").read_text(encoding="utf-8")
    listed = re.findall(r"^(?:   ~|.. autofunction:: statmech_attention\.)([\w.]+)$", page, flags=re.MULTILINE)
    for path in listed:
        module, _, name = f"statmech_attention.{path}".rpartition(".")
        assert getattr(sma, name) is getattr(importlib.import_module(module), name), path
    names = {name for name in (*sma.__all__, *sma._LATER) if not inspect.ismodule(getattr(sma, name))}
    assert {path.rpartition(".")[2] for path in listed} == names
