"""Recorded results: small netCDF files with a record of their making.

A file holds an xarray Dataset and, in its attributes, the parameters of the run and its
provenance. A record holds no hash of code: it is right if computing part of it again gives the
same numbers, which `make verify` does.

Pages name the records of the book by the way to them, as "../../results/dmft/phases-seed1.nc". Where nothing is at the
end of this way, the record is looked for in `folder()`.
"""

import importlib.metadata
import json
import os
import platform
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from statmech_attention.installed import need, version

need("io", "saving and loading")

import h5netcdf
import jax
import numpy as np
import xarray as xr

from statmech_attention import checks
from statmech_attention.records import fingerprint, read_netcdf, undamaged, write_netcdf

_PARAMETERS, _PROVENANCE = "parameters", "provenance"
SETTING = "STATMECH_ATTENTION_RESULTS"
_REMEDY = "Remove this file and run again."
_LIBRARIES = ("jax", "jaxlib", "numpyro", "optax", "numpy", "scipy")
_NOT_KEPT = {"output", "progress"}  # parameters of a run that change no number
_BEGAN = time.monotonic()  # a run notebook imports this module before it computes
_NOT_NUMBERS = ("seconds",)  # measured by a clock: the same numbers computed again are the same result


def save(
    dataset: xr.Dataset,
    path: str | os.PathLike,
    *,
    parameters: Mapping[str, Any],
    reads: Mapping[str, str | os.PathLike] | None = None,
    inputs: Mapping[str, str] | None = None,
    seed: int | None = None,
    revision: int = 1,
    maker: str | None = None,
    wall_seconds: float | None = None,
) -> Path:
    """Write a result with its provenance, whole or not at all, and return its path, which ends in `.nc`.

    `parameters` may be the `globals()` of a run notebook, of which its parameters are kept; `reads`
    has the records that it was made from; `revision` is raised when numbers are meant to change.
    """
    if "__annotations__" in parameters:  # the cell of the parameters has their types
        known = set(parameters["__annotations__"]) - _NOT_KEPT
        parameters = {name: value for name, value in parameters.items() if name in known}
        wall_seconds = time.monotonic() - _BEGAN if wall_seconds is None else wall_seconds
    if reads:
        inputs = {name: digest(file) for name, file in reads.items()}
        parameters = {name: value for name, value in parameters.items() if name not in reads}
    facts = {
        **provenance(),
        "inputs": {} if inputs is None else json.loads(as_json(inputs, "inputs")),
        "revision": checks.whole("revision", revision, 0),
        "maker": maker,
        "seed": None if seed is None else checks.whole("seed", seed, 0),
        "wall_seconds": None if wall_seconds is None else float(wall_seconds),
        "written": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "digest": fingerprint(dataset, _NOT_NUMBERS),
    }
    recorded = dataset.assign_attrs({_PARAMETERS: as_json(parameters), _PROVENANCE: json.dumps(facts, sort_keys=True)})
    return write_netcdf(recorded, path)


def load(path: str | os.PathLike) -> xr.Dataset:
    """Read the Dataset of a result into memory, without the record; FileNotFoundError, ValueError if damaged."""
    dataset = read_netcdf(path := _found(path), _REMEDY)
    made = _record(Path(path), dataset.attrs)
    if made.get("digest") not in (None, fingerprint(dataset, _NOT_NUMBERS)):
        raise ValueError(f"{path}: a damaged record, other numbers than were written. {_REMEDY}")
    dataset.attrs = {name: value for name, value in dataset.attrs.items() if name not in (_PARAMETERS, _PROVENANCE)}
    return dataset


def record(path: str | os.PathLike) -> dict[str, Any]:
    """Return the arguments of `save`, and by name `written` (UTC), versions and device; numbers are not read."""
    # xarray takes twenty times as long, since it looks at every variable.
    with undamaged(_found(path), _REMEDY) as path, h5netcdf.File(path, "r") as opened:
        attributes = dict(opened.attrs)
    return _record(path, attributes)


def folder() -> Path:
    """The folder of the book's records: what STATMECH_ATTENTION_RESULTS names, or else that of a checkout."""
    if named := os.environ.get(SETTING):
        return Path(named).expanduser()
    for place in (Path.cwd(), *Path.cwd().parents, Path(__file__).resolve().parents[3]):
        if (place / "_toc.yml").is_file() and (place / "results").is_dir():
            return place / "results"
    raise FileNotFoundError(
        "found no records of the book: they are in the folder results of a checkout of the project. "
        f"Run this in a checkout, or set the environment variable {SETTING} to that folder."
    )


def _found(path: str | os.PathLike) -> Path:
    """The path, or that of the book's record that a page means by it."""
    path = Path(path).expanduser()
    inside = re.fullmatch(r"(?:\.\./)+results/(.+)", path.as_posix())
    return folder() / inside[1] if inside and not path.exists() else path


def as_json(parameters: Mapping[str, Any], name: str = "parameters") -> str:
    """Return parameters as JSON, arrays as lists."""

    def plain(value):
        if isinstance(value, np.ndarray | np.generic):
            return value.tolist()
        raise ValueError(f"{name}: wanted numbers, texts, truth values and lists of them, got {type(value).__name__}.")

    try:
        return json.dumps(dict(parameters), sort_keys=True, default=plain, allow_nan=False)
    except ValueError as error:
        if "JSON compliant" not in str(error):
            raise
        raise ValueError(f"{name}: wanted finite numbers, got NaN or infinity among {parameters!r:.200}.") from None


def _record(path: Path, attributes: Mapping[Any, Any]) -> dict[str, Any]:
    """Return parameters and provenance from a file's attributes."""
    if not {_PARAMETERS, _PROVENANCE} <= set(attributes):
        raise ValueError(f"{path}: wanted a recorded result, got a netCDF file without parameters and provenance.")
    try:
        records = [json.loads(attributes[name]) for name in (_PARAMETERS, _PROVENANCE)]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: a damaged record ({error}). {_REMEDY}") from error
    if not all(isinstance(record, dict) for record in records) or not {"inputs", "revision"} <= set(records[1]):
        raise ValueError(f"{path}: a damaged record, without inputs or revision. {_REMEDY}")
    return {_PARAMETERS: records[0], **records[1]}


def provenance() -> dict[str, str]:
    """Return texts by name: `package` (version), `python`, one per numerical library, `platform` and `device`."""
    devices = jax.devices()
    # A CPU's platform and kind are both "cpu"; a GPU has a name of its own.
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


def digest(path: str | os.PathLike) -> str:
    """Return 16 digits of the SHA-256 of a result's numbers and texts, without measured seconds."""
    return fingerprint(load(path), _NOT_NUMBERS)
