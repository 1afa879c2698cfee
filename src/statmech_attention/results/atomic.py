"""Files that are there whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from statmech_attention import checks

try:
    import fcntl
except ImportError:  # on Windows, where an open file cannot be renamed either
    fcntl = None  # type: ignore[assignment]

_SUFFIX = ".part"


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to, which replaces `path` in one step if nothing is raised.

    A file `NAME.RANDOM.part` left by a killed process is removed by the next writer. An OSError
    names `path`.
    """
    checks.refuse_folder(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = _locked(path)
    except OSError as error:
        raise _with_name(error, path) from error
    try:
        _drop_abandoned(path)
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # Of libraries that write, some tell neither the number of the error nor the file.
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise _with_name(error, path) from error
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _locked(path: Path) -> tuple[int | None, Path]:
    """A new file beside `path`, locked while its handle is open, so that nobody drops it."""
    while True:
        # A name of its own in the same folder: the rename is atomic, and two runs cannot share a half-written file.
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=_SUFFIX, dir=path.parent)
        if fcntl is None:
            os.close(handle)
            return None, Path(name)
        with contextlib.suppress(OSError):  # a file system without locks: nothing is dropped there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):  # nobody dropped it before it was locked
            return handle, Path(name)
        os.close(handle)


def _drop_abandoned(path: Path) -> None:
    """Remove what killed processes left of `path`: files that nobody holds a lock on."""
    if fcntl is None:
        return
    for left in path.parent.glob(f"{_escaped(path.name)}.*{_SUFFIX}"):
        with contextlib.suppress(OSError), open(left, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _escaped(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _with_name(error: OSError, path: Path) -> OSError:
    """The same error with the name of the file that was to be written."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return type(error)(error.errno, f"{reason}; nothing was written", str(path))
