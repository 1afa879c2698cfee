"""The skeleton of a recorded experiment: parameters, sources, parts that are kept, and the record.

It runs once: a record is current if parameters, sources and revision agree. A finished part is kept
until all are there, so that an interrupted run goes on.
"""

import contextlib
import hashlib
import json
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import xarray as xr
from tqdm import tqdm

from attention_book import results
from attention_book.locks import Busy, alone
from statmech_attention import checks
from statmech_attention.files import replacing


class Part(NamedTuple):
    """One part of a run."""

    name: str  # of its file
    compute: Callable[[Callable[..., Any]], xr.Dataset]  # its argument is called after every step
    steps: int = 1  # of the progress bar

    @classmethod
    def once(cls, name: str, function: Callable[..., xr.Dataset], *arguments: Any) -> "Part":
        """A part of a single step."""

        def compute(step):
            found = function(*arguments)
            step()
            return found

        return cls(name, compute)


class Recheck(NamedTuple):
    """Part of a record, computed again."""

    what: str  # was computed, in a few words
    difference: float  # the largest one from the record, relative to the largest number of a variable
    tolerance: float  # largest difference allowed


def parameter(about: str, default: Any = MISSING, **allowed: Any) -> Any:
    """Declare a field that the record keeps, and its values.

    `ge`: whole numbers of at least this; `gt`: finite numbers above 0; `among`: these words;
    `each`: lists of different positive numbers, int or float, which are sorted.
    """
    return field(default=default, metadata={"about": about, **allowed})


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC):
    """A recorded experiment; the record keeps the fields that are declared with `parameter`."""

    folder: str | os.PathLike  # of the results

    name: ClassVar[str]
    revision: ClassVar[int]  # raised, with a line of reason, when the numbers are meant to change
    stem: ClassVar[str]  # name of the record's file, parameters in braces
    unit: ClassVar[str | None] = None  # of the progress bar; None if the computation has one of its own
    double: ClassVar[bool] = True  # needs double precision
    makers: ClassVar[dict[str, type["Experiment"]]] = {}  # all experiments by name

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            cls.makers[cls.name] = cls

    def __post_init__(self):
        for one in fields(self):
            value = getattr(self, one.name)
            if "each" in one.metadata:
                value = _different(one.name, value, one.metadata["each"])
            object.__setattr__(self, one.name, list(value) if isinstance(value, tuple | range) else value)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Experiment":
        """Build the experiment from values by name, among others, such as the variables of a notebook."""
        names = ["folder", *(one.name for one in fields(cls) if "about" in one.metadata)]
        return cls(**{name: values[name] for name in names if name in values})

    @property
    def path(self) -> Path:
        """File of the record."""
        return Path(self.folder) / f"{self.stem.format(**vars(self))}.nc"

    @property
    def sources(self) -> Mapping[str, Path]:
        """Records that this one is made from, by name."""
        return {}

    @property
    def total(self) -> int:
        """Steps of the progress bar."""
        return 1

    @property
    def missing(self) -> str:
        """Files that `recheck` needs and that are not installed; empty if there are none."""
        return ""

    def check(self) -> None:
        """Raise ValueError for parameters that make no sense; before anything is read."""
        for one in fields(self):
            value, allowed = getattr(self, one.name), one.metadata
            if "ge" in allowed:
                checks.whole(one.name, value, allowed["ge"])
            if "gt" in allowed:
                checks.positive(one.name, value)
            if "among" in allowed:
                checks.choice(one.name, value, allowed["among"])

    def check_sources(self) -> None:  # noqa: B027 - nothing, where there is nothing to check
        """Raise ValueError for parameters that do not fit the sources."""

    @abstractmethod
    def make(self, state: Callable[[str], Path], progress: bool | None) -> Generator[Part, xr.Dataset, xr.Dataset]:
        """Yield part after part, receive each as it was kept, and return the result.

        `state` gives the file in which a part, by its name, may keep a state of its own.
        """

    @abstractmethod
    def recheck(self) -> Recheck:
        """Compute part of the record again."""

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters that the record keeps."""
        return {one.name: getattr(self, one.name) for one in fields(self) if "about" in one.metadata}

    @property
    def reason(self) -> str:
        """Reason to run it, in a few words; empty if its record is current."""
        inputs = {name: results.digest(path) if path.is_file() else None for name, path in self.sources.items()}
        return results.reason_to_make(self.path, self.parameters, inputs=inputs, revision=self.revision)

    def run(self, *, progress: bool | None = None) -> Path:
        """Make the record unless it is current, and return its file.

        Raises Busy while another process makes the same record.
        """
        self.check()
        if self.double:
            checks.need_double("experiment", np.zeros(()))
        inputs = {name: results.digest(path) for name, path in self.sources.items()}
        made_of: dict[str, Any] = {"inputs": inputs, "revision": self.revision}
        kept = _Kept(self.path, {"parameters": self.parameters, **made_of})
        if results.is_current(self.path, self.parameters, **made_of):
            kept.tidy()
            return self.path
        self.check_sources()
        with alone(kept.lock):
            if results.is_current(self.path, self.parameters, **made_of):  # made by another process just now
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
    """The parts of one run, in a folder for these parameters, sources and revision."""

    def __init__(self, path: Path, record: Mapping[str, Any]):
        mark = hashlib.sha256(json.dumps(record, sort_keys=True, default=list).encode()).hexdigest()[:12]
        self._path, self._record = path, record
        self._folder = path.parent / "checkpoints" / f"{path.stem}-{mark}"
        self.lock = self._folder.with_name(f"{self._folder.name}.lock")

    def part(self, part: Part, step: Callable[..., Any]) -> xr.Dataset:
        """Load a part that is kept, or compute and keep it."""
        file = self._folder / f"{part.name}.nc"
        if results.is_current(file, **self._record):
            step(part.steps)
        else:  # not there, or damaged
            self._timed(part, step, file)
        return results.load(file)

    def state(self, name: str) -> Path:
        """File in which a part keeps a state of its own."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / f"{name}.npz"

    def finish(self, together: xr.Dataset, maker: str, seed: int | None) -> Path:
        """Write the result and drop the parts."""
        seconds = sum(float(file.read_text()) for file in self._folder.glob("*.seconds"))
        results.save(together, self._path, maker=maker, seed=seed, wall_seconds=seconds, **self._record)
        shutil.rmtree(self._folder, ignore_errors=True)
        return self._path

    def tidy(self) -> None:
        """Drop parts that a kill left behind; the result stands whether that succeeds or not."""
        if self._folder.exists() or self.lock.exists():
            with contextlib.suppress(Busy, OSError), alone(self.lock):
                shutil.rmtree(self._folder, ignore_errors=True)

    def _timed(self, part: Part, step: Callable[..., Any], file: Path) -> None:
        """Compute and keep a part, and add up its time over interruptions."""
        clock, began = file.with_suffix(".seconds"), time.monotonic()
        before = float(clock.read_text()) if clock.is_file() else 0.0
        try:
            results.save(part.compute(step), file, **self._record)
        finally:
            # Written whole as the part is, or a kill would leave a file without a number. On a full disk the part's
            # own error counts.
            with contextlib.suppress(OSError), replacing(clock) as temporary:
                temporary.write_text(str(before + time.monotonic() - began))


def axis(name: str, values) -> xr.DataArray:
    """A new axis to concatenate along."""
    return xr.DataArray(list(values), dims=name, name=name)


def difference(found, recorded) -> float:
    """The largest difference over the largest finite recorded number; infinite for other shapes."""
    found, recorded = np.asarray(found, float), np.asarray(recorded, float)
    if found.shape != recorded.shape:
        return np.inf
    # Infinite and undefined entries are equal or they are not.
    differ = ~((found == recorded) | (np.isnan(found) & np.isnan(recorded)))
    if not differ.any():
        return 0.0
    size = np.max(np.abs(recorded), where=np.isfinite(recorded), initial=np.finfo(float).tiny)
    largest = float(np.max(np.abs(found[differ] - recorded[differ])) / size)
    return np.inf if np.isnan(largest) else largest


def largest_difference(found: xr.Dataset, recorded: xr.Dataset, names=None) -> float:
    """The largest `difference` of some variables, by default all of the first."""
    return max(difference(found[name].values, recorded[name].values) for name in names or found)


def _different(name: str, values, kind: type) -> list[float | int]:
    good = all(checks.is_whole(value, 1) if kind is int else 0 < value < np.inf for value in values)
    if not len(values) or len(set(values)) < len(values) or not good:
        wanted = "whole numbers of at least 1" if kind is int else "positive numbers"
        raise ValueError(f"{name}: wanted different {wanted}, at least one, got {list(values)}.")
    return sorted(map(kind, values))
