"""Problems of more examples than fit into memory: chunks are added one by one, each forgotten before the next."""

import contextlib
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from statmech_attention import checks
from statmech_attention.installed import progress_bar
from statmech_attention.layers import Chain
from statmech_attention.theory.problem import Problem

_SECONDS_PER_SAVE = 30.0
_DEFAULTS = {"width": None, "temperature": None, "variance": 1.0}


class ChunkError(ValueError):
    """A stream that stopped.

    Attributes:
        problem: the sum of the chunks before, or None if there are none.
        chunks: their number.
    """

    def __init__(self, message: str, problem: Problem | None = None, chunks: int = 0):
        super().__init__(message)
        self.problem, self.chunks = problem, chunks

    def __reduce__(self):
        return type(self), (str(self), self.problem, self.chunks)


def problem_of_chunks(
    chunks: Iterable | Callable[[int], Iterable], *, layers, checkpoint, progress, **numbers
) -> Problem:
    """See `Problem.of_chunks`."""
    total, done = None, 0
    if checkpoint is not None and (checkpoint := checks.path("checkpoint", checkpoint)).suffix != ".nc":
        raise ValueError(f"checkpoint: wanted a file name ending in .nc, got {checkpoint.name!r}.")
    if checkpoint is not None and checkpoint.exists():
        from statmech_attention.theory.records import load_problem  # xarray takes a while to import

        total, done = load_problem(checkpoint)
        if layers is not None and (wanted := Chain.of(layers).spelled) != total.layers:
            raise ValueError(
                f"checkpoint: wanted a sum with layers {wanted}, got {total.layers} in {checkpoint.name!r}."
            )
        total = total.replace(**{name: numbers.get(name, default) for name, default in _DEFAULTS.items()})

    def save() -> None:
        if checkpoint is not None and total is not None:
            from statmech_attention.theory.records import save_problem

            save_problem(total, checkpoint, chunks=done)

    stream, saved = _others(chunks, done, partial(added, total, layers=layers, numbers=numbers)), time.monotonic()
    try:
        for chunk in progress_bar(stream, "chunks", progress):
            total = added(total, chunk, layers=layers, numbers=numbers)
            done += 1
            del chunk  # before the next one is made
            if checkpoint is not None and time.monotonic() > saved + _SECONDS_PER_SAVE:
                save()
                saved = time.monotonic()
        save()
    except BaseException as error:
        with contextlib.suppress(OSError):  # a full disk may be the error
            save()
        if not isinstance(error, Exception):
            raise
        raise ChunkError(
            f"chunk {done}: {said(error)} (Chunks are counted from 0; those before are the .problem of this error.)",
            total,
            done,
        ) from error
    if total is None:
        raise ValueError("chunks: wanted at least one pair (attentioned inputs, labels), got none.")
    return total


def added(total: Problem | None, chunk: Any, *, layers, numbers) -> Problem:
    """The sum of a problem, if there is one, and that of a chunk."""
    if isinstance(chunk, Problem):
        one = chunk.replace(**numbers)
        return one.reduce() if total is None else total + one
    if not isinstance(chunk, (tuple, list)) or len(chunk) != 2:
        got = f"{len(chunk)} entries" if isinstance(chunk, (tuple, list)) else type(chunk).__name__
        raise ValueError(f"wanted a pair (attentioned inputs, labels) or a Problem, got {got}.")
    one = Problem(*chunk, layers=layers, **numbers)
    return one.reduce() if total is None else total + one


def said(error: Exception) -> str:
    """The text of an error, with its kind if that is not one of bad input."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _others(chunks, done: int, add: Callable) -> Iterable:
    """The chunks after the first `done`, which have to be there; the first of all has to fit the sum."""
    if callable(chunks):
        return chunks(done)
    if not isinstance(chunks, Iterable) or not getattr(chunks, "ndim", 1):
        raise ValueError(f"chunks: wanted pairs (attentioned inputs, labels), got {type(chunks).__name__}.")
    others = iter(chunks)
    for number in range(done):
        if (chunk := next(others, None)) is None:
            raise ValueError(
                f"checkpoint: wanted the sum of this stream, got one of {done} chunks and a stream of {number}."
            )
        if number == 0:
            try:
                add(chunk)
            except ValueError as error:
                raise ValueError(f"checkpoint: wanted the sum of this stream, got another: {error}") from error
    return others
