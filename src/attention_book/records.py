"""Recorded results of the book: which of them are current, and hashes of the source."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import statmech_attention
from statmech_attention import checks, results
from statmech_attention.results.store import as_json

_PACKAGE = Path(statmech_attention.__file__).parent


def reason_to_make(
    path: str | os.PathLike,
    parameters: Mapping[str, Any],
    *,
    inputs: Mapping[str, str | None] | None = None,
    revision: int = 1,
) -> str:
    """Return why a result has to be made, in a few words; empty if it is current.

    `inputs` are the digests of the records that it would be computed from, by name; None for a missing one.
    """
    wanted = json.loads(as_json(parameters))
    try:
        results.load(path)
        made = results.record(path)
    except FileNotFoundError:
        return "not there"
    except ValueError:
        return "damaged"
    kept = made["parameters"]
    for name in sorted({*kept, *wanted}):
        if name not in kept or name not in wanted:
            return f"{name} was {kept.get(name, 'not there')}"
        if kept[name] != wanted[name]:
            return f"{name} was {kept[name]}"
    for name, used in ({} if inputs is None else checks.mapping("inputs", inputs)).items():
        if made["inputs"].get(name) != used:
            return f"another {name}"
    same = made["revision"] == checks.whole("revision", revision, 0)
    return "" if same else f"revision {revision} has other numbers than {made['revision']}"


def is_current(path: str | os.PathLike, parameters: Mapping[str, Any], **made_of: Any) -> bool:
    """True if a result with these parameters, inputs and revision is there; False for a damaged file."""
    return not reason_to_make(path, parameters, **made_of)


def hash_files(paths: Iterable[Path], root: Path) -> str:
    """SHA-256 of the names of files below `root` and of their contents, the same on every system."""
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in paths):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        # The length keeps two files from being taken for one longer file.
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def source_hash() -> str:
    """SHA-256 of every module and style sheet of the library."""
    files = [path for pattern in ("*.py", "*.mplstyle") for path in _PACKAGE.rglob(pattern)]
    return hash_files(files, _PACKAGE)
