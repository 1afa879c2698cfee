"""Files that are there whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, which takes its place in one step if nothing is raised; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own in the same folder: the rename is atomic, and two runs cannot share a half-written file.
    handle, name = tempfile.mkstemp(suffix=".part", prefix=path.stem, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
