"""Lock files: one process at a time does some work."""

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]


class Busy(RuntimeError):
    """Another process is doing the same work."""


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold a lock file during some work, or raise `Busy`; on Windows, where there are no locks, hold nothing."""
    with _held(path, _lock_file(path, wait=False)):
        yield


@contextmanager
def in_turn(path: Path) -> Iterator[None]:
    """Wait for a lock file and hold it; hold nothing where it cannot be written: the work itself then says why."""
    try:
        handle = _lock_file(path, wait=True)
    except OSError:
        handle = None
    with _held(path, handle):
        yield


@contextmanager
def _held(path: Path, handle: int | None) -> Iterator[None]:
    try:
        yield
    finally:
        if handle is not None:
            path.unlink(missing_ok=True)
            os.close(handle)


def _lock_file(path: Path, wait: bool) -> int | None:
    """Open and lock the file of this name: not one that its last holder has removed since it was opened."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while fcntl is not None:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise Busy(
                f"{path.with_suffix('')}: another process is at it. Wait until it is done, or stop it."
            ) from None
        except OSError:  # a file system without locks
            return handle
        except BaseException:  # stopped while it waited
            os.close(handle)
            raise
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)
    return None
