"""A long run in parts: each is kept beside the result when it is done, and all go when the result is written."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from statmech_attention import results


class Parts:
    """The parts of one result, in the folder `checkpoints` beside it; an interrupted run finds those that are done."""

    def __init__(self, path: Path, parameters: Mapping[str, Any], modules: tuple[str, ...]):
        self._path, self._folder = path, path.parent / "checkpoints" / path.stem
        self._record = {"parameters": parameters, "modules": modules}

    def is_done(self, name: str) -> bool:
        """Whether a part is there, of these parameters and this code."""
        return results.is_current(self._file(name), self._record["parameters"])

    def part(self, name: str, compute: Callable[[], xr.Dataset]) -> xr.Dataset:
        """A part as it was kept, or computed and kept."""
        if not self.is_done(name):
            results.save(compute(), self._file(name), **self._record)
        return results.load(self._file(name))

    def finish(self, together: xr.Dataset, seed: int) -> Path:
        """Write the result, whose variable `seconds` holds what the parts took, and drop the parts."""
        seconds = float(together["seconds"].sum())
        results.save(together, self._path, seed=seed, wall_seconds=seconds, **self._record)
        for file in self._folder.iterdir():
            file.unlink()
        self._folder.rmdir()
        return self._path

    def _file(self, name: str) -> Path:
        return self._folder / f"{name}.nc"
