"""Files that are there whole or not at all."""

import contextlib
import glob
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
    """Yield a new file beside `path`, which replaces `path` in one step if nothing is raised; folders are made.

    It is `NAME.RANDOM.part`. The next write of `path` removes such files of killed processes.

    Raises:
        ValueError: a folder of that name.
        OSError: `path` cannot be written, as on a full disk; what was there stays.
    """
    checks.refuse_folder(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = _locked(path)
    except OSError as error:
        raise _named(error, path) from error
    try:
        _drop_abandoned(path)
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # Some libraries leave out the number of the error or the file.
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise _named(error, path) from error
        raise
    finally:
        if handle is not None:
            os.close(handle)


def _locked(path: Path) -> tuple[int | None, Path]:
    """Make a file beside `path`, locked while its handle is open, so that no process takes it for abandoned."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=_SUFFIX, dir=path.parent)
        if fcntl is None:
            os.close(handle)
            return None, Path(name)
        with contextlib.suppress(OSError):  # a file system without locks: nothing is dropped there
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.path.exists(name):  # not dropped before it was locked
            return handle, Path(name)
        os.close(handle)


def _drop_abandoned(path: Path) -> None:
    """Remove unlocked parts of `path`, left by killed processes."""
    if fcntl is None:
        return
    for left in path.parent.glob(f"{glob.escape(path.name)}.*{_SUFFIX}"):
        with contextlib.suppress(OSError), open(left, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def _named(error: OSError, path: Path) -> OSError:
    """Return the same error with the name of the file that was to be written."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    return type(error)(error.errno, f"{reason}; nothing was written", str(path))
