"""What is installed: the wheel, the library alone without any extra, and lists that say the same in several files."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.parser import BytesHeaderParser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attention_book.__main__ import report
from statmech_attention import installed

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "statmech_attention"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
# Rooms that need an extra, and those that need none; plotting and sampling are needed by those after them.
ROOMS = {"sampling": ["sampling"], "plotting": ["plot"], "experiments": ["sampling"], "notebooks": ["plot", "book"]}
LIBRARY = sorted(
    {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    - {*ROOMS, "__init__", "__main__"}
)


def requirements(path: Path) -> list[str]:
    lines = (line.split("#")[0].strip() for line in path.read_text().splitlines())
    return [line for line in lines if line]


def others(extra: str) -> list[str]:
    """Entries of an extra, without the project's own extras."""
    return [entry for entry in EXTRAS[extra] if not entry.startswith(PROJECT["name"])]


def modules(entries) -> set[str]:
    """The names under which requirements are imported."""
    return {Requirement(entry).name.replace("-", "_") for entry in entries}


ABSENT = sorted(modules(entry for extra in EXTRAS for entry in others(extra)) | {"IPython", "PIL", "myst_nb"})
# Takes the place of the finder that looks along the path, and does not find them.
BLOCK = f"""
import sys
from importlib.machinery import PathFinder
class Without(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {ABSENT} else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(PathFinder)] = Without
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built from a copy, since building leaves files behind."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(SOURCE, folder / "src" / SOURCE.name, ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sys; from setuptools import build_meta; build_meta.build_wheel('dist')"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
    (path,) = (folder / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """Runs code with what the wheel holds, far from the checkout, where no extra is installed; returns what it printed."""
    site, elsewhere = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    zipfile.ZipFile(wheel).extractall(site)

    def run(code: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(site)}
        done = subprocess.run(
            [sys.executable, "-c", BLOCK + code], cwd=elsewhere, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_the_wheel_is_the_library_with_its_licence_and_types(wheel):
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        said = BytesHeaderParser().parsebytes(opened.read(metadata))
    package = {name for name in names if ".dist-info/" not in name}
    kept = [path for pattern in ("*.py", "*.mplstyle", "py.typed") for path in SOURCE.rglob(pattern)]
    assert package == {path.relative_to(SOURCE.parent).as_posix() for path in kept}
    assert "statmech_attention/py.typed" in package
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert (said["Name"], said["Version"]) == (installed.NAME, PROJECT["version"])
    assert said["License-Expression"] == "BSD-3-Clause"
    needed = [Requirement(entry) for entry in said.get_all("Requires-Dist")]
    assert {one.name for one in needed if one.marker is None} == {
        Requirement(one).name for one in PROJECT["dependencies"]
    }
    assert set(said.get_all("Provides-Extra")) == set(EXTRAS) >= set(installed.EXTRAS)


def test_the_readmes_lines_run_on_the_library_alone(alone):
    lines = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert len(lines.splitlines()) <= 12
    small = {
        "HiddenMarkov()": "HiddenMarkov(length=4, token_size=4)",
        "key_train, 100": "key_train, 10",
        "key_test, 1000": "key_test, 20",
    }
    for text, other in small.items():
        assert text in lines
        lines = lines.replace(text, other)
    *rows, accuracy = alone(lines).splitlines()
    assert len(rows) == 4 and 0 <= float(accuracy) <= 1


def test_all_else_is_imported_with_the_library_alone(alone):
    """With the names that `import *` brings, and what `help` shows."""
    code = f"""
import importlib, pkgutil, pydoc
import statmech_attention as sma
from statmech_attention import *
for room in {LIBRARY}:
    there = importlib.import_module(f"statmech_attention.{{room}}")
    for one in pkgutil.iter_modules(getattr(there, "__path__", [])):
        importlib.import_module(f"statmech_attention.{{room}}.{{one.name}}")
print(sma.__version__, "solve(" in pydoc.plain(pydoc.render_doc(sma)), "sampling" in dir(sma))
"""
    assert alone(code).split() == [PROJECT["version"], "True", "False"]


def test_a_missing_extra_is_named_by_whatever_needs_it(alone):
    code = """
import importlib, json, tempfile
import statmech_attention as sma
from statmech_attention.installed import MissingExtra
from attention_book.tasks.images import load
said = {}
for name in ("sampling", "plotting", "experiments", "notebooks.runs", "notebooks.parameters"):
    try:
        importlib.import_module(f"statmech_attention.{name}")
    except MissingExtra as error:
        said[name] = str(error)
try:
    sma.sampling
except MissingExtra as error:
    said["sma.sampling"] = str(error)
try:
    load("mnist", tempfile.mkdtemp())
except FileNotFoundError as error:
    said["load"] = str(error)
print(json.dumps(said))
"""
    said = json.loads(alone(code))
    wanted = {
        "sampling": "sampling",
        "plotting": "plot",
        "experiments": "sampling",
        "notebooks.runs": "book",
        "notebooks.parameters": "book",
        "sma.sampling": "sampling",
        "load": "images",
    }
    assert said.keys() == wanted.keys()
    for name, extra in wanted.items():
        assert f"pip install 'statmech-attention[{extra}]'" in said[name]
        assert f"wanted the extra {extra}, got no {', '.join(installed.EXTRAS[extra])}. " in said[name]


def test_list_says_what_the_rest_would_need_and_run_refuses(alone):
    code = """
from attention_book.__main__ import main
sys.stderr = sys.stdout
print(main(["list"]), main(["run", "hidden_markov/theory"]))
"""
    said = alone(code)
    for extra, libraries in installed.EXTRAS.items():
        assert f"lacks {', '.join(libraries)}: pip install 'statmech-attention[{extra}]'" in said
    assert "error: notebooks with parameters: wanted the extra book" in said
    assert said.splitlines()[-1] == "0 2"


def test_only_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(installed, "EXTRAS", {extra: ("json",) for extra in installed.EXTRAS})
    assert report() == ""
    installed.need("plot", "a figure")
    monkeypatch.setitem(installed.EXTRAS, "plot", ("json", "no_such_library"))
    assert installed.absent("plot") == ["no_such_library"]
    with pytest.raises(installed.MissingExtra, match=r"a figure: .* got no no_such_library\. pip install '.*\[plot\]'"):
        installed.need("plot", "a figure")
    assert [line.split()[0] for line in report().splitlines()] == ["Not", "plot", "lacks"]


def test_what_rooms_ask_for_is_in_the_extra_that_they_name():
    for extra, libraries in installed.EXTRAS.items():
        assert set(libraries) <= modules(others(extra))


@pytest.mark.parametrize("room", [*LIBRARY, "__init__", "__main__", *ROOMS])
def test_a_module_imports_only_what_is_installed_with_its_room(room):
    """On import; in a function an import may be of something that is not always there."""
    bound = {"pydantic_core"} if room == "notebooks" else set()  # comes with pydantic, of the same version
    allowed = modules(PROJECT["dependencies"]) | {"statmech_attention", *sys.stdlib_module_names, *bound}
    allowed = allowed.union(*(installed.EXTRAS[extra] for extra in ROOMS.get(room, ())))
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0].removesuffix(".py") != room:
            continue
        for statement in ast.parse(path.read_text()).body:
            if isinstance(statement, ast.Import):
                found = {alias.name.partition(".")[0] for alias in statement.names}
            elif isinstance(statement, ast.ImportFrom):
                found = {statement.module.partition(".")[0]}
            else:
                continue
            assert found <= allowed, path.relative_to(ROOT)


def test_pyproject_and_requirements_say_the_same():
    entries = [
        *PROJECT["dependencies"],
        *(entry for extra in ("sampling", "plot", "book", "dev") for entry in others(extra)),
    ]
    assert entries == requirements(ROOT / "requirements.txt")
    named = {path.stem.removeprefix("requirements-"): path for path in ROOT.glob("requirements-*.txt")}
    del named["workflow"]  # Snakemake runs beside the package, and need not be in its environment
    del named["text"]  # installed without what its packages ask for, as no extra can be
    assert {extra: others(extra) for extra in named} == {extra: requirements(path) for extra, path in named.items()}
    assert set(EXTRAS) == {"sampling", "plot", "book", "dev", *named}


def test_an_extra_brings_what_it_rests_on():
    assert EXTRAS["book"][0] == f"{PROJECT['name']}[plot,sampling]"
    assert EXTRAS["dev"][0] == f"{PROJECT['name']}[book]"


@pytest.mark.parametrize("minor", ["3.11", "3.12", "3.13"])
def test_the_tested_versions_lie_within_the_bounds(minor):
    pinned = dict(line.split("==") for line in requirements(ROOT / "constraints" / f"python{minor}.txt"))
    pinned = {canonicalize_name(name): version for name, version in pinned.items()}
    for requirement in map(Requirement, requirements(ROOT / "requirements-text.txt")):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement.name
    for requirement in map(Requirement, requirements(ROOT / "requirements.txt")):
        bounds = {bound.operator for bound in requirement.specifier}
        assert bounds == {"=="} or {">=", "<"} <= bounds, f"{requirement}: floor and ceiling, or one version"
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement.name


def test_every_python_of_the_constraints_is_tested():
    versions = sorted(path.stem.removeprefix("python") for path in (ROOT / "constraints").glob("*.txt"))
    tests = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert tests["jobs"]["tests"]["strategy"]["matrix"]["python"] == versions
    assert [line.split()[-1] for line in PROJECT["classifiers"] if ":: 3." in line] == versions


def test_the_version_stands_in_one_place_and_is_repeated_truly():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == PROJECT["version"]
    assert (
        re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1].rstrip(",") == PROJECT["version"]
    )
    assert not [path for path in SOURCE.rglob("*.py") if re.search(r"__version__ = [\"']", path.read_text())]


def test_the_hooks_take_the_ruff_of_the_requirements():
    (ruff,) = (line for line in requirements(ROOT / "requirements.txt") if line.startswith("ruff"))
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {entry for hook in hooks for entry in hook["additional_dependencies"]} == {ruff}
