"""The skeleton of a recorded experiment: parameters, records it is made from, parts that are kept, and its own record.

An experiment says in `make` how its numbers come about, part by part. It is done once: a record is current if parameters, inputs
and revision agree. A part that is done is kept beside the result until all are, so an interrupted run goes on from there.
"""

import contextlib
import hashlib
import json
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import xarray as xr
from tqdm import tqdm

from attention_book import records
from attention_book.experiments.again import Again
from attention_book.locks import Busy, alone
from statmech_attention import checks, results
from statmech_attention.results.atomic import replacing


class Part(NamedTuple):
    """One part of a run.

    Attributes:
        name: of its file.
        compute: makes it; its argument is called after every step, or with a number after so many.
        steps: how many there are, of the progress bar.
    """

    name: str
    compute: Callable[[Callable[..., Any]], xr.Dataset]
    steps: int = 1


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """A recorded experiment; its fields are its parameters, but for the folder and those whose metadata say otherwise.

    Attributes:
        folder: of the results.
    """

    folder: str | os.PathLike

    name: ClassVar[str]
    revision: ClassVar[int]  # raised, with a line of reason, when the numbers are meant to change
    unit: ClassVar[str | None] = None  # of the progress bar; None where the computation has one of its own
    double: ClassVar[bool] = True  # whether it needs double precision

    @property
    @abstractmethod
    def path(self) -> Path:
        """Where it is recorded."""

    @property
    def sources(self) -> Mapping[str, Path]:
        """By name the records that it is made from."""
        return {}

    @property
    def total(self) -> int:
        """How many steps the progress bar counts."""
        return 1

    @property
    def missing(self) -> str:
        """What `again` needs and is not installed here; empty where nothing is."""
        return ""

    def check(self) -> None:  # noqa: B027 - nothing, where there is nothing to check
        """Raise ValueError for parameters that make no sense; before anything is read."""

    def check_sources(self) -> None:  # noqa: B027
        """Raise ValueError for parameters that do not fit the records that it is made from."""

    @abstractmethod
    def make(self, state: Callable[[str], Path], progress: bool | None) -> Generator[Part, xr.Dataset, xr.Dataset]:
        """Give part after part, get each back as it was kept, and return the result.

        Args:
            state: where a part may keep a state of its own while it is computed, by the part's name.
            progress: for computations with a progress bar of their own.
        """

    @abstractmethod
    def again(self) -> Again:
        """Compute part of the record again."""

    @property
    def parameters(self) -> dict[str, Any]:
        """What the record keeps of what was asked."""
        kept = (one.name for one in fields(self) if one.name != "folder" and one.metadata.get("recorded", True))
        return {name: getattr(self, name) for name in kept}

    @property
    def reason(self) -> str:
        """Why it has to be run, in a few words; empty where its record stands."""
        inputs = {name: results.digest(path) if path.is_file() else None for name, path in self.sources.items()}
        return records.reason_to_make(self.path, self.parameters, inputs=inputs, revision=self.revision)

    def run(self, *, progress: bool | None = None) -> Path:
        """Make the record, unless it is there.

        Args:
            progress: True or False for a progress bar or none; by default one on a terminal.

        Returns:
            Where it is.

        Raises:
            FileNotFoundError: a record that it is made from is not there, or no images.
            ValueError: parameters that make no sense or do not fit these records; single precision.
            Busy: another process is making the same record in the same folder.
        """
        self.check()
        if self.double:
            checks.need_double("experiment", np.zeros(()))
        inputs = {name: results.digest(path) for name, path in self.sources.items()}
        made_of: dict[str, Any] = {"inputs": inputs, "revision": self.revision}
        kept = _Kept(self.path, {"parameters": self.parameters, **made_of})
        if records.is_current(self.path, self.parameters, **made_of):
            kept.tidy()
            return self.path
        self.check_sources()
        with alone(kept.lock):
            if records.is_current(self.path, self.parameters, **made_of):  # made by another process just now
                return self.path
            return self._made(kept, progress)

    def _made(self, kept: "_Kept", progress: bool | None) -> Path:
        """Compute the parts that are not kept yet, and the record."""
        hidden = self.unit is None or (None if progress is None else not progress)
        with tqdm(total=self.total, unit=self.unit or "part", disable=hidden) as bar:
            parts = self.make(kept.state, progress)
            try:
                part = next(parts)
                while True:
                    part = parts.send(kept.part(part, bar.update))
            except StopIteration as end:
                together = end.value
        return kept.finish(together, self.name, getattr(self, "seed", None))


class _Kept:
    """The parts of one run, in a folder of its own: other parameters, inputs or another revision make another folder."""

    def __init__(self, path: Path, record: Mapping[str, Any]):
        mark = hashlib.sha256(json.dumps(record, sort_keys=True, default=list).encode()).hexdigest()[:12]
        self._path, self._record = path, record
        self._folder = path.parent / "checkpoints" / f"{path.stem}-{mark}"
        self.lock = self._folder.with_name(f"{self._folder.name}.lock")

    def part(self, part: Part, step: Callable[..., Any]) -> xr.Dataset:
        """A part as it was kept, or computed and kept."""
        file = self._folder / f"{part.name}.nc"
        if records.is_current(file, **self._record):
            step(part.steps)
        else:  # not there, or damaged
            self._timed(part, step, file)
        return results.load(file)

    def state(self, name: str) -> Path:
        """Where a part keeps a state of its own."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{name}.npz"

    def finish(self, together: xr.Dataset, maker: str, seed: int | None) -> Path:
        """Write the result and drop the parts."""
        seconds = sum(float(file.read_text()) for file in self._folder.glob("*.seconds"))
        results.save(together, self._path, maker=maker, seed=seed, wall_seconds=seconds, **self._record)
        shutil.rmtree(self._folder, ignore_errors=True)
        return self._path

    def tidy(self) -> None:
        """Drop what a kill left between the result and the end; the result stands whether that can be done or not."""
        if self._folder.exists() or self.lock.exists():
            with contextlib.suppress(Busy, OSError), alone(self.lock):
                shutil.rmtree(self._folder, ignore_errors=True)

    def _timed(self, part: Part, step: Callable[..., Any], file: Path) -> None:
        """The time counts over all interruptions but those that leave no time to write it down."""
        clock, began = file.with_suffix(".seconds"), time.monotonic()
        before = float(clock.read_text()) if clock.is_file() else 0.0
        try:
            results.save(part.compute(step), file, **self._record)
        finally:
            # Written whole as the part is, or a kill would leave a file without a number. On a full disk the part's own error counts.
            with contextlib.suppress(OSError), replacing(clock) as temporary:
                temporary.write_text(str(before + time.monotonic() - began))


def axis(name: str, values) -> xr.DataArray:
    """A new axis to concatenate along."""
    return xr.DataArray(list(values), dims=name, name=name)


def different(name: str, values, *, whole: bool = False) -> list[float]:
    """Different positive numbers, at least one, sorted."""
    good = all(checks.is_whole(value, 1) for value in values) if whole else all(0 < value < np.inf for value in values)
    if not len(values) or len(set(values)) < len(values) or not good:
        kind = "whole numbers of at least 1" if whole else "positive numbers"
        raise ValueError(f"{name}: wanted different {kind}, at least one, got {list(values)}.")
    return sorted(map(float, values))
