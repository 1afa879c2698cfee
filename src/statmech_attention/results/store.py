"""Recorded results: small netCDF files that say how they were made.

A heavy run writes one file when it is done; a chapter reads it. A file holds an xarray Dataset and, in its
attributes, parameters, seed, wall time, and where the numbers come from (source hash, versions, device).
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from statmech_attention.results import provenance
from statmech_attention.results.atomic import replacing
from statmech_attention.results.dependencies import code_hash

_PARAMETERS, _PROVENANCE = "parameters", "provenance"


def save(
    dataset: xr.Dataset,
    path: str | os.PathLike,
    *,
    parameters: Mapping[str, Any],
    seed: int | None = None,
    wall_seconds: float | None = None,
    modules: Sequence[str] | None = None,
) -> Path:
    """Write a result with its provenance; the file is there whole or not at all.

    Args:
        dataset: the numbers, with named dimensions; attributes `units` and `long_name` are kept.
        path: where to, ending in `.nc`; folders are made.
        parameters: what the run was asked to do; numbers, texts, truth values, and lists of them.
        seed: the seed of its random numbers, if it used any.
        wall_seconds: how long it took.
        modules: those of this package that computed it, such as "training"; a change to them or to what they import
            puts it out of date. The whole package where None.

    Returns:
        The path.

    Raises:
        ValueError: a path that does not end in `.nc`, parameters that JSON cannot hold, attributes in the way.
    """
    path = Path(path)
    if path.suffix != ".nc":
        raise ValueError(f"path: wanted a file name ending in .nc, got {path.name!r}.")
    taken = {_PARAMETERS, _PROVENANCE} & set(dataset.attrs)
    if taken:
        raise ValueError(f"dataset: wanted no attributes named {sorted(taken)}: they are kept for the record.")
    facts = {
        **provenance.provenance(),
        "source": _source(modules),
        "modules": None if modules is None else list(modules),
        "seed": seed,
        "wall_seconds": wall_seconds,
        "written": _now(),
    }
    recorded = dataset.assign_attrs({_PARAMETERS: _json(parameters), _PROVENANCE: json.dumps(facts, sort_keys=True)})
    _write(recorded, path)
    return path


def load(path: str | os.PathLike) -> xr.Dataset:
    """Read a result into memory.

    Args:
        path: a file that `save` wrote.

    Returns:
        The Dataset, without the record; see `record`.

    Raises:
        FileNotFoundError: no such file; says how results are made.
        ValueError: a file that is not a recorded result, or a damaged one.
    """
    dataset = _read(path)
    dataset.attrs = {name: value for name, value in dataset.attrs.items() if name not in (_PARAMETERS, _PROVENANCE)}
    return dataset


def record(path: str | os.PathLike) -> dict[str, Any]:
    """How a result was made.

    Args:
        path: a file that `save` wrote.

    Returns:
        `parameters` as they were given, `seed`, `wall_seconds`, `written` (UTC), source hash, versions and device by name,
        and `confirmed`, a list of what `confirm` wrote.

    Raises:
        FileNotFoundError, ValueError: as `load`.
    """
    attributes = _read(path).attrs
    return {"confirmed": [], _PARAMETERS: json.loads(attributes[_PARAMETERS]), **json.loads(attributes[_PROVENANCE])}


def confirm(path: str | os.PathLike, *, how: str, difference: float) -> None:
    """Add to a record that today's code gives the same numbers, so that `is_current` holds of it; the numbers stay as they are.

    It is for code that changed without changing what it computes. Whoever calls this has computed part of the result again.

    Args:
        path: a file that `save` wrote.
        how: what was computed again, in a few words.
        difference: the largest one that was found, relative.

    Raises:
        FileNotFoundError, ValueError: as `load`; a module that computed the result is gone; a difference that is no number.
    """
    if not 0 <= difference < float("inf"):
        raise ValueError(f"difference: wanted a finite number of at least 0, got {difference!r}.")
    dataset = _read(path)
    facts = json.loads(dataset.attrs[_PROVENANCE])
    said = {**provenance.provenance(), "source": _source(facts.get("modules")), "how": how, "difference": difference}
    said["written"] = _now()
    facts["confirmed"] = [*facts.get("confirmed", ()), said]
    _write(dataset.assign_attrs({_PROVENANCE: json.dumps(facts, sort_keys=True)}), Path(path))


def is_current(path: str | os.PathLike, parameters: Mapping[str, Any]) -> bool:
    """True where a result is there, made by this very code with these very parameters: it need not be made again.

    Args:
        path: where the result would be.
        parameters: what the run would be asked to do.

    Returns:
        False for a missing or damaged file, other parameters, or a change to the code that it names as its own, unless `confirm`
        said that the numbers are still the same.

    Raises:
        ValueError: parameters that JSON cannot hold.
    """
    wanted = json.loads(_json(parameters))
    try:
        made = record(path)
    except (FileNotFoundError, ValueError):
        return False
    if made[_PARAMETERS] != wanted:
        return False
    try:
        return _source(made.get("modules")) in (made["source"], *(one["source"] for one in made["confirmed"]))
    except ValueError:  # a module of that time is gone
        return False


def _read(path) -> xr.Dataset:
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: no recorded result there. Results are written by the notebooks in book/runs and by `make bench`."
        )
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"{path}: wanted a netCDF file, got one that cannot be read ({error}). Remove it and run again."
        ) from error
    if not {_PARAMETERS, _PROVENANCE} <= set(dataset.attrs):
        raise ValueError(f"{path}: wanted a recorded result, got a netCDF file without parameters and provenance.")
    return dataset


def _write(dataset: xr.Dataset, path: Path) -> None:
    with replacing(path) as temporary:
        dataset.to_netcdf(temporary, engine="h5netcdf", encoding=_encoding(dataset))


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _source(modules: Sequence[str] | None) -> str:
    return provenance.source_hash() if modules is None else code_hash(tuple(modules))


def _json(parameters: Mapping[str, Any]) -> str:
    def plain(value):
        if isinstance(value, np.ndarray | np.generic):
            return value.tolist()
        raise ValueError(
            f"parameters: wanted numbers, texts, truth values and lists of them, got {type(value).__name__}."
        )

    return json.dumps(dict(parameters), sort_keys=True, default=plain)


def _encoding(dataset: xr.Dataset) -> dict:
    compressible = (
        name for name, variable in dataset.variables.items() if variable.ndim and variable.dtype.kind in "fiub"
    )
    return {name: {"zlib": True, "complevel": 4} for name in compressible}
