"""Which of the package's modules a module needs, and a hash of what they compute."""

import ast
import functools
import hashlib
import io
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

_PACKAGE = Path(__file__).parents[1]
_NAME = "statmech_attention"
# These write down and draw what others compute; a change there makes no result out of date.
_RECORDERS = frozenset({"results", "notebooks", "plotting"})


def needed(modules: Iterable[str]) -> list[str]:
    """Modules of this package that some modules import, directly or through others, and these modules themselves.

    Args:
        modules: names below the package, such as "tasks.images".

    Returns:
        Names below the package, sorted; without those that only record or draw results.

    Raises:
        ValueError: no module of that name.
    """
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found or name.split(".")[0] in _RECORDERS:
            continue
        found.add(name)
        waiting.extend(_imported(name))
    return sorted(found)


@functools.cache  # what counts is the code that this process began with
def code_hash(modules: tuple[str, ...]) -> str:
    """SHA-256 of the code of modules and of all they need; comments, docstrings and empty lines do not count.

    Args:
        modules: names below the package.

    Returns:
        64 hexadecimal digits, the same on every system and Python version.

    Raises:
        ValueError: no module of that name.
    """
    digest = hashlib.sha256()
    for name in needed(modules):
        digest.update(f"{name}\0{_code(_file(name).read_text(encoding='utf-8'))}\0".encode())
    return digest.hexdigest()


def _file(name: str) -> Path:
    stem = _PACKAGE.joinpath(*name.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    raise ValueError(f"modules: there is no module {_NAME}.{name}.")


def _exists(name: str) -> bool:
    try:
        _file(name)
    except ValueError:
        return False
    return True


def _imported(name: str) -> Iterator[str]:
    """Modules of this package in the import statements of one of them, those inside functions included."""
    tree = ast.parse(_file(name).read_text(encoding="utf-8"))
    prefix = f"{_NAME}."
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name.removeprefix(prefix) for one in node.names if one.name.startswith(prefix))
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module != _NAME and not node.module.startswith(prefix):
                continue
            inside = node.module.removeprefix(_NAME).removeprefix(".")
            for one in node.names:
                submodule = f"{inside}.{one.name}".removeprefix(".")
                if _exists(submodule):
                    yield submodule
                elif inside:
                    yield inside


def _code(text: str) -> str:
    """Source without what does not change its results. Cut out of the text: how Python spells trees varies."""
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            words = node.body[0]
            lines[words.lineno - 1 : words.end_lineno] = [""] * (words.end_lineno - words.lineno + 1)
    return "\n".join(line.rstrip() for line in lines if line.strip())
