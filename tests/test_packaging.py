"""The wheel, the library alone without any extra, and versions that stand in several files."""

import functools
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
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from statmech_attention import installed

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "statmech_attention"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {"scikit-learn": "sklearn"}  # where a library is imported by another name
EXTRAS = {
    extra: [Requirement(entry) for entry in entries if not entry.startswith(PROJECT["name"])]
    for extra, entries in PROJECT["optional-dependencies"].items()
}
ABSENT = sorted({MODULES.get(one.name, one.name.replace("-", "_")) for entries in EXTRAS.values() for one in entries})
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
    """The wheel, built from the source distribution, which is built from a copy: building leaves files behind."""
    folder, build = tmp_path_factory.mktemp("wheel"), "from setuptools import build_meta; build_meta.build_{}('dist')"
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    run = functools.partial(subprocess.run, check=True, capture_output=True)
    run([sys.executable, "-c", build.format("sdist")], cwd=folder)
    shutil.unpack_archive(next((folder / "dist").glob("*.tar.gz")), folder / "unpacked", filter="data")
    (unpacked,) = (folder / "unpacked").iterdir()
    run([sys.executable, "-c", build.format("wheel")], cwd=unpacked)
    (path,) = (unpacked / "dist").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """Runs code on the wheel alone, without checkout and extras; returns its output."""
    site, elsewhere = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("elsewhere")
    zipfile.ZipFile(wheel).extractall(site)

    def run(code: str) -> str:
        command, environment = [sys.executable, "-c", BLOCK + code], {**os.environ, "PYTHONPATH": str(site)}
        done = subprocess.run(command, cwd=elsewhere, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_wheel_is_the_library_with_its_licence_and_types(wheel):
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        content = opened.read(metadata)
    said = BytesHeaderParser().parsebytes(content)
    assert Metadata.from_email(content, validate=True).description_content_type == "text/markdown"
    left = re.compile(r"__pycache__|\.egg-info")
    kept = [path for path in SOURCE.parent.rglob("*") if path.is_file() and not left.search(str(path))]
    assert {name for name in names if ".dist-info/" not in name} == {
        path.relative_to(SOURCE.parent).as_posix() for path in kept
    }
    assert any(name.endswith("licenses/LICENSE") for name in names)
    needed = {str(one) for one in map(Requirement, said.get_all("Requires-Dist")) if one.marker is None}
    assert needed == {str(Requirement(entry)) for entry in PROJECT["dependencies"]}


def test_lines_of_the_readme_run_on_the_library_alone(alone):
    lines = (ROOT / "README.md").read_text().split("```python\n")[1].split("```")[0]
    for text, other in {"HiddenMarkov()": "HiddenMarkov(length=4, token_size=4)", "100, 1000": "10, 20"}.items():
        assert text in lines
        lines = lines.replace(text, other)
    *rows, accuracy = alone(lines).splitlines()
    assert len(rows) == 4 and 0 <= float(accuracy) <= 1


def test_every_module_is_imported_without_extras_or_names_the_one_that_it_needs(alone):
    code = """
import importlib, json, pkgutil
import statmech_attention
from statmech_attention import *
said, left = {}, ["statmech_attention"]
while left:
    name = left.pop()
    try:
        there = importlib.import_module(name)
    except ImportError as error:
        said[name] = str(error)
    else:
        left += [f"{name}.{one.name}" for one in pkgutil.iter_modules(getattr(there, "__path__", []))]
print(json.dumps([statmech_attention.__version__, said]))
"""
    version, said = json.loads(alone(code))
    assert version == PROJECT["version"]
    assert "statmech_attention.sampling" in said
    assert not said.keys() & {f"statmech_attention.{room}" for room in ("layers", "model", "theory", "tasks", "dmft")}
    for name, message in said.items():
        (extra,) = re.findall(r"pip install 'statmech-attention\[(\w+)\]'", message)
        assert ", ".join(installed.EXTRAS[extra]) in message, name
        assert set(installed.EXTRAS[extra]) <= {MODULES.get(one.name, one.name) for one in EXTRAS[extra]}


PYTHONS = ("3.11", "3.12", "3.13")


@pytest.mark.parametrize("minor", PYTHONS)
def test_tested_versions_lie_within_the_bounds_of_pyproject(minor):
    pins = map(Requirement, (ROOT / "constraints.txt").read_text().splitlines()[1:])
    here = [one for one in pins if one.marker is None or one.marker.evaluate({"python_version": minor})]
    pinned = {canonicalize_name(one.name): next(iter(one.specifier)).version for one in here}
    assert len(pinned) == len(here), "a version is there twice"
    text = re.findall(r"^[^#\s][^#\n]*", (ROOT / "requirements-text.txt").read_text(), re.MULTILINE)
    for one in (*map(Requirement, (*PROJECT["dependencies"], *text)), *sum(EXTRAS.values(), [])):
        bounds = {bound.operator for bound in one.specifier}
        assert bounds == {"=="} or {">=", "<"} <= bounds, f"{one}: wanted a floor and a ceiling, or one version"
        assert one.specifier.contains(pinned[canonicalize_name(one.name)]), one


def test_versions_in_several_files_agree():
    changed = re.search(r"^## (\d[\w.]*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == changed == PROJECT["version"]
    tests = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    assert tests["jobs"]["tests"]["strategy"]["matrix"]["python"] == list(PYTHONS)
    assert [line.split()[-1] for line in PROJECT["classifiers"] if ":: 3." in line] == list(PYTHONS)


def test_requirements_of_the_book_are_those_of_its_extra():
    wanted = {*PROJECT["dependencies"]}
    for extra in ("sampling", "train", "io", "plot", "book"):
        wanted |= {line for line in PROJECT["optional-dependencies"][extra] if not line.startswith(PROJECT["name"])}
    assert (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()[1:] == sorted(wanted)


def test_links_of_the_readme_lead_to_files():
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8")):
        assert (ROOT / link).is_file(), link


FOLDERS = "tests|tools|src|book|results|workflow|benchmarks|binder|_ext|_static|\\.github|\\.ci"
NAMED = re.compile(rf"(?<![\w./-])(?:(?:{FOLDERS})/[\w./-]*\w|[\w.-]+\.(?:txt|toml))(?![\w*])")
COMMANDS = [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "binder").iterdir()]
COMMANDS += [ROOT / name for name in (".ci/run", "Dockerfile", "Makefile", "CONTRIBUTING.md")]


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.name)
def test_files_and_targets_that_commands_name_are_there(path):
    text = path.read_text(encoding="utf-8")
    named = [name for name in NAMED.findall(text) if "NAME" not in name]
    assert [name for name in named if not (ROOT / name).exists()] == []
    if path.name in ("Makefile", "CONTRIBUTING.md"):  # prose, where commands are between backquotes
        text = "\n".join(re.findall(r"`([^`]+)`", text))
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert {*re.findall(r"\bmake ([a-z]+)", text)} <= {*targets}


def test_pages_of_the_workflow_are_there():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8"))["jobs"]
    pages = " ".join(jobs["ranges"]["strategy"]["matrix"]["pages"]).split()
    assert {*pages} == {path.name for path in (ROOT / "book").iterdir() if path.is_dir()} - {"images", "runs"}
