"""The rooms of the package: what imports what, what hides what, and what an import loads."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import statmech_attention

SOURCE = Path(statmech_attention.__file__).parent

# From the ground up. A room imports from the lines above its own; beside it only where that is said.
FLOORS = (
    ("installed", "arguments"),
    ("checks",),
    ("results",),
    ("compiling",),
    ("layers",),
    ("model",),
    ("theory",),
    ("sampling", "training", "pruning", "tasks", "dmft"),
    ("plotting",),
    ("experiments",),
    ("notebooks",),
)
BESIDE = {("pruning", "training"), ("training", "tasks")}
# The face of the package, and what its command line starts: nothing else in the package imports them.
FACE = ("__init__", "__main__")
HEAVY = ("xarray", "h5netcdf", "h5py", "numpyro", "matplotlib", "torch", "jupytext")

FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def modules_imported(path: Path) -> set[str]:
    """What a file imports of the package when it runs, wherever in the file: dotted names, the last maybe not a module's."""
    found, tree = set(), ast.parse(path.read_text())
    typed = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    for node in (one for one in ast.walk(tree) if not any(one in ast.walk(block) for block in typed)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path}: a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if name.partition(".")[0] == SOURCE.name}


def rooms_imported(path: Path) -> set[str]:
    """Rooms that a file imports; what is in none is of the package's face."""
    rooms = {(*name.split("."), "__init__")[1] for name in modules_imported(path)}
    return {room if room in FLOOR else "__init__" for room in rooms}


def file_of(name: str) -> Path | None:
    """The file that a dotted name is, or is defined in."""
    parts = name.split(".")[1:]
    places = [SOURCE.joinpath(*parts[:count]) for count in (len(parts), len(parts) - 1)]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return next((file for file in files if file.exists()), None)


def test_every_file_is_in_a_room():
    rooms = {room_of(path) for path in SOURCE.rglob("*.py")}
    assert rooms == {*FLOOR, *FACE}


@pytest.mark.parametrize("room", FLOOR)
def test_a_room_imports_only_from_rooms_below(room):
    upward = {
        f"{path.relative_to(SOURCE)} -> {other}"
        for path in SOURCE.rglob("*.py")
        if room_of(path) == room
        for other in rooms_imported(path) - {room}
        if other in FACE or (FLOOR[other] >= FLOOR[room] and (room, other) not in BESIDE)
    }
    assert not upward


def test_pruning_needs_no_task():
    """A network from elsewhere is pruned without any of this book's tasks, on the way through training too."""
    left, seen = [path for path in SOURCE.rglob("*.py") if room_of(path) == "pruning"], set()
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            left += filter(None, map(file_of, modules_imported(path)))
    assert not [path for path in seen if room_of(path) == "tasks"]


def test_no_attribute_of_a_package_hides_a_module():
    modules = [
        module.name
        for module in pkgutil.walk_packages([str(SOURCE)], f"{SOURCE.name}.")
        if not module.name.endswith("__main__")
    ]
    for name in modules:
        importlib.import_module(name)
    hidden = []
    for name in modules:
        package, _, last = name.rpartition(".")
        if getattr(sys.modules[package], last) is not sys.modules[name]:
            hidden.append(name)
    assert not hidden


def test_the_face_of_the_package_imports_the_theory_and_what_is_below_it():
    assert rooms_imported(SOURCE / "__init__.py") == {"installed", "layers", "model", "theory"}


def test_the_import_of_the_package_loads_nothing_that_waits_to_be_asked():
    code = (
        f"import sys, statmech_attention; print(*({{*{HEAVY!r}}} & {{name.partition('.')[0] for name in sys.modules}}))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
