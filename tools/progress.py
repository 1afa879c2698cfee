"""One line about work in progress; where nobody watches, as in a log, a line for everything that is done."""

import shutil
import sys
import threading
import time


class Progress:
    """How far some pieces of work are.

    Args:
        total: how many pieces.
        what: they are, in the plural.
        file: where the line is shown; standard output if it is left out.
    """

    def __init__(self, total: int, what: str, file=None):
        self.total, self.what, self.file = total, what, file or sys.stdout
        self.done, self.running, self.began = 0, {}, time.monotonic()
        self._live, self._lock = self.file.isatty(), threading.Lock()

    def begin(self, name: str) -> None:
        """A piece of work begins."""
        with self._lock:
            self.running[name] = time.monotonic()

    def end(self, name: str, said: str) -> None:
        """A piece of work ended; `said` is how."""
        with self._lock:
            self.running.pop(name, None)
            self.done += 1
        if not self._live:
            print(f"{name}: {said} ({self.done} of {self.total})", file=self.file, flush=True)

    def line(self) -> str:
        """What is done, running and left, and since when."""
        now = time.monotonic()
        with self._lock:
            running = [f"{name} {_clock(now - began)}" for name, began in self.running.items()]
        left = self.total - self.done - len(running)
        return (
            f"{_clock(now - self.began)}  {self.done} of {self.total} {self.what} done, {left} left; "
            f"running: {', '.join(running) or 'nothing'}"
        )

    def show(self, said: str = "") -> None:
        """Show the line in the place of the one before; `said` behind it."""
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            line = f"{self.line()} {said}"[:width]
            print(f"\r{line:<{width}}", end="", file=self.file, flush=True)

    def close(self) -> None:
        """Make room for what comes next."""
        if self._live:
            self.show()
            print(file=self.file, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
