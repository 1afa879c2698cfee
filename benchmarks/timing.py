"""Time a call: the first one, which compiles, and the fastest of several others.

On a CPU this is processor time on one core, which depends little on what else the machine does; on
an accelerator it is the time that passes.
"""

import time
from collections.abc import Callable
from typing import Any

import jax

ENOUGH, REPEATS = 1.0, 5  # seconds that repeats may take together, and how many at most


def clock() -> float:
    """Seconds of the processor, or of the wall clock where the work is done elsewhere."""
    return time.process_time() if jax.default_backend() == "cpu" else time.perf_counter()


_UNCOUNTED = [0.0]  # seconds so far


def uncounted(call: Callable[[], Any]) -> Any:
    """The result of a call whose seconds do not count in those of a call around it."""
    start = clock()
    found = jax.block_until_ready(call())
    _UNCOUNTED[0] += clock() - start
    return found


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of a call, and its result."""
    start, before = clock(), _UNCOUNTED[0]
    found = jax.block_until_ready(call())
    return clock() - start - (_UNCOUNTED[0] - before), found


def twice(call: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    """Seconds of the first call and of the fastest later one, by name, and the result."""
    first, found = timed(call)
    later: list[float] = []
    while not later or (len(later) < REPEATS and sum(later) < ENOUGH):
        later.append(timed(call)[0])
    return {"first": first, "seconds": min(later)}, found
