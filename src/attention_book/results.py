"""Recorded results of the book: those of the library, whether they are current, and hashes of sources.

A record holds no hash of code: it is right if computing part of it again gives the same numbers,
which `make verify` does.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import statmech_attention
from statmech_attention import checks
from statmech_attention.results.store import as_json, load, record, save

__all__ = ["digest", "hash_files", "is_current", "load", "reason_to_make", "record", "save", "source_hash"]

_PACKAGE = Path(statmech_attention.__file__).parent
_NOT_NUMBERS = ("seconds",)  # measured by a clock: the same numbers computed again are the same result


def reason_to_make(
    path: str | os.PathLike,
    parameters: Mapping[str, Any],
    *,
    inputs: Mapping[str, str | None] | None = None,
    revision: int = 1,
) -> str:
    """Return in a few words why a result has to be made, "" if it is current."""
    wanted = json.loads(as_json(parameters))
    try:
        load(path)
        made = record(path)
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
    return "" if made["revision"] == revision else f"revision {revision} has other numbers than {made['revision']}"


def is_current(path: str | os.PathLike, parameters: Mapping[str, Any], **made_of: Any) -> bool:
    """Return True if a result with these parameters, `inputs` and `revision` is there, undamaged."""
    return not reason_to_make(path, parameters, **made_of)


def digest(path: str | os.PathLike) -> str:
    """Return 16 digits of the SHA-256 of a result's numbers and texts, without measured seconds."""
    dataset = load(path)
    found = hashlib.sha256()
    for name in sorted(set(map(str, dataset.variables)) - set(_NOT_NUMBERS)):
        variable = dataset.variables[name]
        values = np.ascontiguousarray(variable.values)
        # Texts come back as objects, whose bytes are addresses.
        content = "\0".join(map(str, values.ravel())).encode() if values.dtype.kind in "OU" else values.tobytes()
        found.update(f"{name} {variable.dims} {values.shape} {values.dtype.kind}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]


def hash_files(paths: Iterable[Path], root: Path) -> str:
    """Return the SHA-256 of names below `root` and contents of files, the same on every system."""
    digest = hashlib.sha256()
    for name, path in sorted((path.relative_to(root).as_posix(), path) for path in paths):
        content = path.read_bytes().replace(b"\r\n", b"\n")
        # The length keeps two files from being taken for one longer file.
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def source_hash() -> str:
    """Return the SHA-256 of the library's modules and style sheets."""
    return hash_files((path for pattern in ("*.py", "*.mplstyle") for path in _PACKAGE.rglob(pattern)), _PACKAGE)
