"""Recorded results: small netCDF files with a record of their making.

A file holds an xarray Dataset and, in its attributes, the parameters of the run and its provenance.
"""

import io
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statmech_attention.installed import need

need("io", "saving and loading")

import h5netcdf
import numpy as np
import xarray as xr
from xarray.backends import H5NetCDFStore

from statmech_attention import checks
from statmech_attention.results.atomic import replacing
from statmech_attention.results.provenance import provenance

_PARAMETERS, _PROVENANCE = "parameters", "provenance"
_LARGE = 4000  # bytes


def save(
    dataset: xr.Dataset,
    path: str | os.PathLike,
    *,
    parameters: Mapping[str, Any],
    inputs: Mapping[str, str] | None = None,
    seed: int | None = None,
    revision: int = 1,
    maker: str | None = None,
    wall_seconds: float | None = None,
) -> Path:
    """Write a result with its provenance, whole or not at all, and return its path.

    Args:
        dataset: the numbers, with named dimensions; attributes `units` and `long_name` are kept.
        path: a name ending in `.nc`; folders are made.
        parameters: of the run: numbers, texts, truth values, and lists of them.
        inputs: digests, by name, of the records from which the result was computed.
        seed: of the random numbers, if any.
        revision: a number that is raised when the numbers are meant to change.
        maker: name of the program or experiment.
        wall_seconds: duration of the run.

    Raises:
        ValueError: no Dataset, a path that does not end in `.nc` or is a folder, parameters that JSON
            cannot hold, attributes named like those of the record.
        OSError: a full disk or a folder that cannot be written to; what was there before stays.
    """
    if not isinstance(dataset, xr.Dataset):
        raise ValueError(f"dataset: wanted an xarray.Dataset, got {type(dataset).__name__}. Write xr.Dataset(...).")
    path = checks.path("path", path)
    if path.suffix != ".nc":
        raise ValueError(f"path: wanted a file name ending in .nc, got {path.name!r}.")
    taken = {_PARAMETERS, _PROVENANCE} & set(dataset.attrs)
    if taken:
        raise ValueError(f"dataset: wanted no attributes named {sorted(taken)}: they are kept for the record.")
    facts = {
        **provenance(),
        "inputs": {} if inputs is None else json.loads(as_json(inputs, "inputs")),
        "revision": checks.whole("revision", revision, 0),
        "maker": maker,
        "seed": seed,
        "wall_seconds": wall_seconds,
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    recorded = dataset.assign_attrs({_PARAMETERS: as_json(parameters), _PROVENANCE: json.dumps(facts, sort_keys=True)})
    # In memory first: HDF5 ends the process if it cannot flush to a full disk.
    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        recorded.dump_to_store(H5NetCDFStore(file), encoding=_encoding(recorded))
    with replacing(path) as temporary:
        temporary.write_bytes(content.getvalue())
    return path


def load(path: str | os.PathLike) -> xr.Dataset:
    """Read the Dataset of a result into memory, without the record.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file that `save` did not write, or a damaged one.
    """
    path = _existing(path)
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
    except (OSError, ValueError, KeyError) as error:
        raise _unreadable(path, error) from error
    _record(path, dataset.attrs)
    dataset.attrs = {name: value for name, value in dataset.attrs.items() if name not in (_PARAMETERS, _PROVENANCE)}
    return dataset


def record(path: str | os.PathLike) -> dict[str, Any]:
    """Return the arguments of `save`, and by name `written` (UTC), versions and device; numbers are not read.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file that `save` did not write, or a damaged record.
    """
    path = _existing(path)
    try:
        # xarray takes twenty times as long, since it looks at every variable.
        with h5netcdf.File(path, "r") as opened:
            attributes = dict(opened.attrs)
    except (OSError, ValueError, KeyError) as error:
        raise _unreadable(path, error) from error
    return _record(path, attributes)


def as_json(parameters: Mapping[str, Any], name: str = "parameters") -> str:
    """Return parameters as JSON, arrays as lists."""

    def plain(value):
        if isinstance(value, np.ndarray | np.generic):
            return value.tolist()
        raise ValueError(f"{name}: wanted numbers, texts, truth values and lists of them, got {type(value).__name__}.")

    return json.dumps(checks.mapping(name, parameters), sort_keys=True, default=plain)


def _existing(path) -> Path:
    path = checks.path("path", path)
    checks.refuse_folder(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: no recorded result there.")
    return path


def _unreadable(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path}: wanted a netCDF file, got one that cannot be read ({error}). Remove this file and run again."
    )


def _record(path: Path, attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Return parameters and provenance from a file's attributes."""
    if not {_PARAMETERS, _PROVENANCE} <= set(attributes):
        raise ValueError(f"{path}: wanted a recorded result, got a netCDF file without parameters and provenance.")
    try:
        records = [json.loads(attributes[name]) for name in (_PARAMETERS, _PROVENANCE)]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: a damaged record ({error}). Remove this file and run again.") from error
    if not all(isinstance(record, dict) for record in records) or not {"inputs", "revision"} <= set(records[1]):
        raise ValueError(f"{path}: a damaged record, without inputs or revision. Remove this file and run again.")
    return {_PARAMETERS: records[0], **records[1]}


def _encoding(dataset: xr.Dataset) -> dict:
    # A compressed variable has its own index in the file, larger than a small variable.
    large = (name for name, one in dataset.variables.items() if one.dtype.kind in "fiub" and one.nbytes > _LARGE)
    return {name: {"zlib": True, "complevel": 9, "shuffle": True} for name in large}
