"""Recorded results: small netCDF files that say how they were made.

A file holds an xarray Dataset and, in its attributes, the parameters of the run, digests of its
inputs and the provenance. It holds no hash of code: a record is right if computing it again gives
the same numbers.
"""

import hashlib
import importlib.metadata
import io
import json
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5netcdf
import jax
import numpy as np
import xarray as xr
from xarray.backends import H5NetCDFStore

from statmech_attention import checks
from statmech_attention.installed import version
from statmech_attention.results.atomic import replacing

_PARAMETERS, _PROVENANCE = "parameters", "provenance"
# What a clock measured: the same numbers computed again are the same result.
_NOT_NUMBERS = ("seconds",)
_LARGE = 4000  # bytes
_LIBRARIES = ("jax", "jaxlib", "numpyro", "optax", "numpy", "scipy")


@checks.objects
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
    """Write a result with its provenance; the file is there whole or not at all.

    Args:
        dataset: the numbers, with named dimensions; attributes `units` and `long_name` are kept.
        path: ends in `.nc`; folders are made.
        parameters: of the run; numbers, strings, booleans, and lists of them.
        inputs: by name the `digest` of every record that it was computed from.
        seed: of the random numbers, if any.
        revision: of the experiment, raised by hand for a deliberate change of its numbers.
        maker: the experiment's name.
        wall_seconds: duration of the run.

    Returns:
        The path.

    Raises:
        ValueError: no Dataset, another ending or a folder, parameters that JSON cannot hold,
            reserved attributes.
        OSError: it cannot be written, as on a full disk; the previous file is still there.
    """
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
    content = _serialised(recorded)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return path


def load(path: str | os.PathLike) -> xr.Dataset:
    """Read a result into memory, without its record.

    Args:
        path: a file that `save` wrote.

    Returns:
        The Dataset; see `record` for its parameters and provenance.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a file that is not a recorded result, or a damaged one.
    """
    dataset = _read(path)
    dataset.attrs = {name: value for name, value in dataset.attrs.items() if name not in (_PARAMETERS, _PROVENANCE)}
    return dataset


def record(path: str | os.PathLike) -> dict[str, Any]:
    """Read how a result was made, without its numbers.

    Args:
        path: a file that `save` wrote.

    Returns:
        The arguments of `save`, and by name `written` (UTC), versions and device.

    Raises:
        FileNotFoundError, ValueError: as `load`, but damaged numbers go unnoticed.
    """
    path = _there(path)
    try:
        # xarray takes twenty times as long, since it looks at every variable.
        with h5netcdf.File(path, "r") as opened:
            attributes = dict(opened.attrs)
    except (OSError, ValueError, KeyError) as error:
        raise _unreadable(path, error) from error
    return _record(path, attributes)


def digest(path: str | os.PathLike) -> str:
    """SHA-256 of a result's variables and coordinates, without its record and measured seconds.

    Args:
        path: a file that `save` wrote.

    Returns:
        16 hexadecimal digits, the same on every machine.

    Raises:
        FileNotFoundError, ValueError: as `load`.
    """
    dataset = load(path)
    found = hashlib.sha256()
    for name in sorted(set(map(str, dataset.variables)) - set(_NOT_NUMBERS)):
        variable = dataset.variables[name]
        values = np.ascontiguousarray(variable.values)
        # Texts come back as objects, whose bytes are addresses.
        content = "\0".join(map(str, values.ravel())).encode() if values.dtype.kind in "OU" else values.tobytes()
        found.update(f"{name} {variable.dims} {values.shape} {values.dtype.kind}\0".encode())
        found.update(content)
    return found.hexdigest()[:16]


def provenance() -> dict[str, str]:
    """Versions of package, Python and libraries, platform and devices; no paths or host names."""
    devices = jax.devices()
    # A CPU calls itself "cpu" twice; a GPU has a name of its own.
    kinds = sorted({f"{device.platform} {device.device_kind}" for device in devices})
    return {
        "package": version(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
        "platform": f"{platform.system()} {platform.machine()}",
        "device": ", ".join("cpu" if kind == "cpu cpu" else kind for kind in kinds) + f" x {len(devices)}",
    }


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _serialised(dataset: xr.Dataset) -> bytes:
    """The content of a file, made in memory: HDF5 ends the process if it cannot flush to a full disk."""
    content = io.BytesIO()
    with h5netcdf.File(content, "w") as file:
        dataset.dump_to_store(H5NetCDFStore(file), encoding=_encoding(dataset))
    return content.getvalue()


def _there(path) -> Path:
    path = checks.path("path", path)
    checks.refuse_folder(path)
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: no recorded result there. Write it with results.save, or in the book with `make`."
        )
    return path


def _read(path) -> xr.Dataset:
    path = _there(path)
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            dataset = opened.load()
    except (OSError, ValueError, KeyError) as error:
        raise _unreadable(path, error) from error
    _record(path, dataset.attrs)
    return dataset


def _unreadable(path: Path, error: Exception) -> ValueError:
    return ValueError(
        f"{path}: wanted a netCDF file, got one that cannot be read ({error}). Remove this file and run again."
    )


def _record(path: Path, attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Parameters and provenance out of a file's attributes."""
    if not {_PARAMETERS, _PROVENANCE} <= set(attributes):
        raise ValueError(f"{path}: wanted a recorded result, got a netCDF file without parameters and provenance.")
    try:
        records = [json.loads(attributes[name]) for name in (_PARAMETERS, _PROVENANCE)]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: a damaged record ({error}). Remove this file and run again.") from error
    if not all(isinstance(record, dict) for record in records) or not {"inputs", "revision"} <= set(records[1]):
        raise ValueError(f"{path}: a damaged record, without inputs or revision. Remove this file and run again.")
    return {_PARAMETERS: records[0], **records[1]}


def as_json(parameters: Mapping[str, Any], name: str = "parameters") -> str:
    def plain(value):
        if isinstance(value, np.ndarray | np.generic):
            return value.tolist()
        raise ValueError(f"{name}: wanted numbers, texts, truth values and lists of them, got {type(value).__name__}.")

    return json.dumps(checks.mapping(name, parameters), sort_keys=True, default=plain)


def _encoding(dataset: xr.Dataset) -> dict:
    # What is compressed has an index of its own in the file, larger than a small variable.
    large = (name for name, one in dataset.variables.items() if one.dtype.kind in "fiub" and one.nbytes > _LARGE)
    return {name: {"zlib": True, "complevel": 9, "shuffle": True} for name in large}
