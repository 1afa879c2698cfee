"""Locks of work that one process does at a time."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


class Busy(RuntimeError):
    """Another process is at the same work."""


@contextmanager
def alone(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock file, or raise Busy if it is held; `wait` for it instead."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        raise Busy(f"{path.with_suffix('')}: another process is at it. Wait until it is done, or stop it.") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()  # while it is held: whoever waits for it makes a new one
        lock.release()
