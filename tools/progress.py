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
        parts = [f"{self.done} of {self.total} {self.what} done", f"{self.total - self.done - len(running)} left"]
        return f"{_clock(now - self.began)}  {', '.join(parts)}" + f"; running: {', '.join(running)}" * bool(running)

    def show(self) -> None:
        """Show the line in the place of the one before."""
        overwrite(self.line(), self.file)

    def close(self) -> None:
        """Show the line for the last time, and make room for what comes next."""
        self.show()
        if self._live:
            print(file=self.file, flush=True)


def overwrite(text: str, file=None) -> None:
    """Show a line in the place of the one before; nothing where nobody watches."""
    file = file or sys.stdout
    if file.isatty():
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{text[:width]:<{width}}", end="", file=file, flush=True)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
