"""The records of the book and the runs that make them: the lines of `workflow/runs.yaml`."""

import contextlib
import itertools
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

ROOT = Path(__file__).resolve().parents[3]
RUNS = ROOT / "book" / "runs"
_NOT_COMPARED = {"seconds", "steps", "gradient_norm"}  # of a clock, and of the way to a minimum
_ENTRIES = {"record", "run", "for", "with", "pieces", "verify", "tolerance", "drawn", "quick", "needs"}
MOST_ERRORS = 5.0  # between two means of Markov chains


@dataclass(frozen=True)
class Record:
    """One record: its file, the notebook that makes it, and how part of it is computed again."""

    path: Path
    run: str  # name of a notebook in book/runs
    parameters: Mapping[str, Any]
    pieces: Mapping[str, list] = field(default_factory=dict)  # parameters of which each value has a run of its own
    verify: Mapping[str, Any] = field(default_factory=dict)  # parameters of the part that is computed again
    tolerance: float = 1e-6  # of a number computed again, relative to the largest of its variable
    drawn: Mapping[str, str | None] = field(default_factory=dict)  # variables from chains, with those of their errors
    quick: bool = False  # part of `make verify QUICK=1`
    needs: str = ""  # what has to be installed, in words

    @property
    def inputs(self) -> list[Path]:
        """The records that the run reads."""
        return [Path(value) for value in self.parameters.values() if isinstance(value, str) and value.endswith(".nc")]

    def runs(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Files and parameters of its runs: one for the whole record, or one for each of its pieces."""
        if not self.pieces:
            yield self.path, dict(self.parameters)
        folder = self.path.parent / "pieces" / self.path.stem
        for values in itertools.product(*self.pieces.values()) if self.pieces else ():
            own = dict(zip(self.pieces, values, strict=True))
            yield folder / f"{'-'.join(f'{name}{value}' for name, value in own.items())}.nc", {**self.parameters, **own}

    def arguments(self, output: Path, parameters: Mapping[str, Any]) -> list[str]:
        """Arguments of `python -m attention_book run` for one of its runs."""
        arguments = [f"{RUNS / self.run}.md"]
        for name, value in {**parameters, "output": output}.items():
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            arguments += ["-p", f"{name}={text.lower() if isinstance(value, bool) else text}"]
        return arguments


def records(configuration: Mapping[str, Any], root: Path = ROOT) -> list[Record]:
    """All records of a configuration such as `workflow/runs.yaml`, those that others read first."""
    folder, known = root / configuration["folder"], {}
    for line in configuration["runs"]:
        for record in _expanded(line, folder):
            if record.path in known:
                raise ValueError(
                    f"{record.path}: there twice. Put a parameter into its name, as record: name-seed{{seed}}."
                )
            known[record.path] = record
    return list(known.values())


def _expanded(line: Mapping[str, Any], folder: Path) -> Iterator[Record]:
    """A record for each value in the lists of `for`."""
    if unknown := set(line) - _ENTRIES or {"record", "run"} - set(line):
        raise ValueError(f"runs: wanted record, run and perhaps {', '.join(sorted(_ENTRIES))}, got {sorted(unknown)}.")
    each = line.get("for", {})
    kept = {name: line[name] for name in ("pieces", "drawn", "quick", "needs") if name in line}
    for values in itertools.product(*each.values()):
        own = {**line.get("with", {}), **dict(zip(each, values, strict=True))}
        own = {name: _file(value, own, folder) for name, value in own.items()}
        verify = {name: _file(value, own, folder) for name, value in line.get("verify", {}).items()}
        path = folder / f"{line['record'].format(**own)}.nc"
        own = {name: value for name, value in own.items() if not name.startswith("_")}
        yield Record(path, line["run"], own, verify=verify, tolerance=float(line.get("tolerance", 1e-6)), **kept)


def _file(value: Any, own: Mapping[str, Any], folder: Path) -> Any:
    """A value, the name of a record with its folder."""
    return str(folder / value.format(**own)) if isinstance(value, str) and value.endswith(".nc") else value


def recompute(record: Record) -> tuple[float, float]:
    """Compute part of a record again; return its `largest_difference`, and of drawn numbers the `errors_apart`."""
    import jupytext

    from attention_book.runs import results
    from attention_book.runs.execution import execute

    asked = {**record.parameters, **{name: values[0] for name, values in record.pieces.items()}, **record.verify}
    recorded = results.load(record.path)
    for name, values in record.pieces.items():
        recorded = recorded.isel({name: values.index(asked[name])})
    with tempfile.TemporaryDirectory() as folder:
        path, source = Path(folder) / "again.nc", RUNS / f"{record.run}.md"
        given = {**asked, "output": str(path)}
        execute(jupytext.read(source), source, given, path.with_suffix(".ipynb"), progress=False)
        again = results.load(path)
    return largest_difference(again.drop_vars(record.drawn), recorded), errors_apart(again, recorded, record.drawn)


def largest_difference(again: xr.Dataset, recorded: xr.Dataset) -> float:
    """The largest `difference` of the variables that both have, where both have coordinates."""
    recorded = _where_both_are(again, recorded)
    names = [name for name in again.variables if name in recorded and name not in {*again.indexes, *_NOT_COMPARED}]
    if not names:
        raise ValueError(
            f"wanted variables of the record, {', '.join(map(str, recorded))}, got {', '.join(map(str, again))}."
        )
    return max(difference(_turned(again[name], recorded[name]).values, recorded[name].values) for name in names)


def errors_apart(again: xr.Dataset, recorded: xr.Dataset, drawn: Mapping[str, str | None]) -> float:
    """The largest difference of two means over chains, in its standard errors."""
    recorded = _where_both_are(again, recorded)
    apart = [
        abs(again[name] - recorded[name]) / np.hypot(again[error], recorded[error])
        for name, error in drawn.items()
        if error
    ]
    return float(np.max([0.0, *(one.max(skipna=False) for one in apart)]))


def _where_both_are(again: xr.Dataset, recorded: xr.Dataset) -> xr.Dataset:
    """The recorded numbers at the coordinates of those computed again, its attributes as variables."""
    common = {name: again[name] for name in again.indexes if name in recorded.indexes}
    recorded = recorded.sel(common)
    return recorded.assign({name: (f"{name}_axis", values) for name, values in recorded.attrs.items() if name in again})


def _turned(array: xr.DataArray, other: xr.DataArray) -> xr.DataArray:
    """The first with its axes in the order of the second; older records have other names of some."""
    return array.transpose(*other.dims) if set(array.dims) == set(other.dims) else array


def difference(again, recorded) -> float:
    """The largest difference over the largest finite recorded number; infinite for other shapes, texts and gaps."""
    again, recorded = np.asarray(again), np.asarray(recorded)
    if again.shape != recorded.shape or {"O", "T", "U"} & {again.dtype.kind, recorded.dtype.kind}:
        return 0.0 if np.array_equal(again, recorded) else np.inf
    again, recorded = again.astype(float), recorded.astype(float)
    differ = ~((again == recorded) | (np.isnan(again) & np.isnan(recorded)))
    if not differ.any():
        return 0.0
    size = np.max(np.abs(recorded), where=np.isfinite(recorded), initial=np.finfo(float).tiny)
    largest = float(np.max(np.abs(again[differ] - recorded[differ])) / size)
    return np.inf if np.isnan(largest) else largest


def combine(target: Path, names: list[str], pieces: list[Path]) -> None:
    """Join the pieces of a record along some parameters, in the order given, and remove them."""
    from attention_book.runs import results

    made = [results.record(path) for path in pieces]
    first = made[0]["parameters"]
    axes = {name: list(dict.fromkeys(piece["parameters"][name] for piece in made)) for name in names}
    joined = [results.load(path) for path in pieces]
    for name, values in reversed(axes.items()):
        axis = xr.DataArray(values, dims=name, name=name)
        joined = [xr.concat(joined[at : at + len(values)], axis) for at in range(0, len(joined), len(values))]
    seconds = sum(piece["wall_seconds"] or 0.0 for piece in made)
    asked, kept = {**first, **axes}, {name: made[0][name] for name in ("inputs", "revision")}
    results.save(joined[0], target, parameters=asked, wall_seconds=seconds, **kept)
    for path in pieces:
        path.unlink()
    with contextlib.suppress(OSError):  # other files are there
        pieces[0].parent.rmdir()


if __name__ == "__main__":  # python -m attention_book.runs.workflow TARGET NAME,NAME PIECE ...
    combine(Path(sys.argv[1]), sys.argv[2].split(","), [Path(piece) for piece in sys.argv[3:]])
