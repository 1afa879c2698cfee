"""Problems and solutions in netCDF files, which are written whole or not at all, and read only as they were written.

A file ends in a line with the SHA-256 of all bytes before it, which is compared before a library parses any of them;
readers of netCDF do not see it. Files without that line are older, and only their names and numbers are compared.
"""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.installed import need
from statmech_attention.layers.chains import Chain, layers_from_json, layers_to_json
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.solution import Solution
from statmech_attention.token_records import (
    arrays_of_directions,
    arrays_of_tokens,
    directions_of_arrays,
    tokens_of_arrays,
)

_FORMAT = 1  # of the files that are written here; raise it when what older versions do not know is written
_AGAIN = "Save it again."
_NEWER = "Load it with the version that saved it, or a newer one."
_SEAL, _SEAL_LENGTH = re.compile(rb"\nSHA-256 ([0-9a-f]{64})\n\Z"), 74  # bytes
_LARGE = 4000  # bytes
_NUMBERS = ("excess", "energy", "gradient_norm", "steps", "outcome")
_TOKENS = "tokens_"  # of names of variables


def save(thing: Problem | Solution, path: str | os.PathLike[str]) -> Path:
    """Write a problem or a solution to a netCDF file ending in `.nc`, whole or not at all; return the path.

    The leading axes of a batch come first, `batch_1` and so on; `layers` is an attribute.

    Raises:
        ValueError: something else, as a list; another ending; a kind of layer from outside the package.
        OSError: it cannot be written, as on a full disk.
    """
    need("io", "saving")
    if not isinstance(thing, Problem | Solution):
        raise ValueError(f"save: wanted one Problem or Solution, got {type(thing).__name__}. Save each by itself.")
    dataset = _dataset(thing)
    return write_netcdf(dataset.assign_attrs(fingerprint=fingerprint(dataset.assign(dataset.attrs))), path)


def _dataset(thing: Problem | Solution):
    """All that is written of a problem or a solution, but for the fingerprint."""
    import xarray as xr

    problem = thing if isinstance(thing, Problem) else thing.problem
    if problem.energy is not None:
        raise ValueError("save: wanted a problem with noise of one variance, got an energy of its own. Keep it apart.")
    batch = tuple(f"batch_{axis + 1}" for axis in range(thing.excess.ndim)) if isinstance(thing, Solution) else ()
    variables = _of_problem(problem, batch)
    if isinstance(thing, Solution):
        variables |= {name: (batch, np.asarray(getattr(thing, name))) for name in _NUMBERS}
        variables["point"] = ((*batch, "coordinate"), np.asarray(thing.point))
        for stage, overlap in zip(problem.attentioned.chain.stages, thing.overlaps, strict=False):
            axes = (*batch, *stage.axes[: overlap.ndim - len(batch)])
            variables[stage.variable] = (axes, np.asarray(overlap))
        if thing.directions is not None:
            variables |= _on_own_axes(arrays_of_directions(thing.directions))
    attributes = {"layers": json.dumps(layers_to_json(problem.layers)), "start": getattr(thing, "start", "")}
    attributes["starts"] = getattr(thing, "starts", 0)
    return xr.Dataset(variables, attrs=attributes)


def _of_problem(problem: Problem, batch: tuple[str, ...]) -> dict[str, Any]:
    """Variables of a problem whose numbers have the axes `batch`."""
    inputs, labels, leading = problem.attentioned, np.asarray(problem.labels), tuple[str, ...]()
    variables: dict[str, Any] = {}
    if problem.projected:
        raise ValueError("save: wanted attentioned_inputs or token_inputs, got what a projection sees. Pickle it.")
    if isinstance(inputs, TokenInputs):
        variables |= _on_own_axes(arrays_of_tokens(inputs))
    else:
        leading = batch[: inputs.values.ndim - 3]
        variables["attentioned"] = ((*leading, "row", "seen_path", "feature"), np.asarray(inputs.values))
    variables["labels"] = ((*leading, "row", *("output",) * (labels.ndim - 1 - len(leading))), labels)
    for name in ("width", "variance"):
        if (numbers := getattr(problem, name)) is not None:
            stacked = np.stack([np.asarray(number, float) for number in numbers], axis=-1)
            variables[name] = ((*batch, f"{name}_layer"), stacked)
    for name in ("temperature", "count"):
        if (number := getattr(problem, name)) is not None:
            variables[name] = (batch, np.asarray(number, float))
    return variables


def _on_own_axes(arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Variables "tokens_.." none of which shares an axis."""
    return {
        f"{_TOKENS}{name}": (tuple(f"{name}_axis_{axis}" for axis in range(array.ndim)), array)
        for name, array in arrays.items()
    }


def load(path: str | os.PathLike[str]) -> Problem | Solution:
    """Read what `save` wrote, here or in a version from 1.0.0rc2 on, with the same numbers.

    All bytes are checked before they are parsed.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a damaged file, one of something else, or of a newer version.
    """
    need("io", "loading")
    dataset = read_netcdf(path)
    if dataset.attrs.pop("fingerprint", None) != fingerprint(dataset.assign(dataset.attrs)):
        raise ValueError(f"{path}: wanted what `save` wrote, got another file, or other numbers. {_AGAIN}")
    checks.need_double("load", np.zeros(()))
    try:
        known = _dataset(thing := _thing(dataset))
    except KeyError as error:
        raise ValueError(f"{path}: lacks what is needed here ({error.args[0]:.60}). {_NEWER}") from error
    if more := {*dataset.variables, *dataset.attrs} - {*known.variables, *known.attrs}:
        raise ValueError(f"{path}: has {', '.join(sorted(map(str, more)))}, unknown here. {_NEWER}")
    return thing


def _thing(dataset) -> Problem | Solution:
    """The problem or solution of which all this was written."""
    layers = layers_from_json(json.loads(dataset.attrs["layers"]))

    def number(array):
        return jnp.asarray(array) if array.ndim else float(array)

    numbers: dict[str, Any] = {
        name: number(dataset[name].values) if name in dataset else None for name in ("temperature", "count")
    }
    numbers |= {
        name: tuple(map(number, np.moveaxis(dataset[name].values, -1, 0))) if name in dataset else None
        for name in ("width", "variance")
    }
    names = [str(name) for name in dataset if str(name).startswith(_TOKENS)]
    arrays = {name.removeprefix(_TOKENS): dataset[name].values for name in names}
    inputs: Any
    if arrays:
        inputs = tokens_of_arrays(arrays, Chain.of(layers))
    else:
        inputs = AttentionedInputs(jnp.asarray(dataset["attentioned"].values), layers)
    parts = {"attentioned": inputs, "labels": jnp.asarray(dataset["labels"].values), "energy": None} | numbers
    problem = object.__new__(Problem).unchecked(**parts)
    return _solution(dataset, arrays, problem) if "outcome" in dataset else problem


def _solution(dataset, arrays: dict[str, np.ndarray], problem: Problem) -> Solution:
    """The solution in a file."""
    stages = problem.attentioned.chain.stages
    overlaps = () if arrays else tuple(jnp.asarray(dataset[stage.variable].values) for stage in stages)
    reached: dict[str, Any] = {name: jnp.asarray(dataset[name].values) for name in (*_NUMBERS, "point")}
    reached |= {"start": dataset.attrs["start"], "starts": int(dataset.attrs["starts"])}
    directions = directions_of_arrays(arrays, problem) if arrays else None
    return Solution(problem, overlaps=overlaps, directions=directions, **reached)


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which replaces `path` in one step unless something is raised."""
    path = Path(path).expanduser()
    mask = os.umask(0)  # there is no other way to read it
    os.umask(mask)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except OSError as error:
        why = error.strerror or error
        if temporary is None:
            why = f"no file can be made in {path.parent} ({why}). Choose another folder."
        raise OSError(error.errno, f"{path} could not be written: {why}") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_netcdf(dataset, path: str | os.PathLike) -> Path:
    """Write an xarray Dataset to a file ending in `.nc`; return its path."""
    path = Path(checks.instance("path", path, str, os.PathLike)).expanduser()
    if path.suffix != ".nc":
        raise ValueError(f"path: wanted a file name ending in .nc, got {path.name!r}.")
    # A compressed variable has its own index in the file, larger than a small variable.
    variables = dataset.variables.items()
    large = [name for name, array in variables if array.dtype.kind in "fiub" and array.nbytes > _LARGE]
    encoding = {name: {"zlib": True, "complevel": 9, "shuffle": True} for name in large}
    # In memory first: HDF5 ends the process if it cannot flush to a full disk.
    content = bytes(dataset.assign_attrs(format=_FORMAT).to_netcdf(engine="h5netcdf", encoding=encoding))
    with replacing(path) as temporary:
        temporary.write_bytes(content + f"\nSHA-256 {hashlib.sha256(content).hexdigest()}\n".encode())
    return path


def read_netcdf(path: str | os.PathLike, remedy: str = _AGAIN):
    """Read the Dataset of a file into memory."""
    import xarray as xr

    with undamaged(path, remedy) as path, xr.open_dataset(path, engine="h5netcdf") as opened:
        dataset = opened.load()
    dataset.attrs.pop("format", None)
    return dataset


@contextmanager
def undamaged(path: str | os.PathLike, remedy: str = _AGAIN) -> Iterator[Path]:
    """Yield the path of a netCDF file; what is raised of a damaged one is a ValueError that ends in a remedy."""
    path = Path(checks.instance("path", path, str, os.PathLike)).expanduser()
    if path.is_dir():
        raise ValueError(f"{path}: wanted a netCDF file, got a folder. Give the path of a file.")
    if not path.is_file():
        raise FileNotFoundError(f"{path}: wanted a netCDF file, got no such file.")
    try:
        if (written := _format(path)) <= _FORMAT:
            yield path
            return
    except (OSError, ValueError, KeyError, TypeError, RuntimeError) as error:  # h5py has several for a damaged file
        raise ValueError(f"{path}: wanted a netCDF file, got one that cannot be read ({error}). {remedy}") from error
    raise ValueError(f"{path}: wanted a file of format {_FORMAT} or lower, got {written}. {_NEWER}")


def _format(path: Path) -> int:
    """The format of a file, 0 before there was one; ValueError if its bytes are not those that were written."""
    import h5py

    content = memoryview(path.read_bytes())
    seal = _SEAL.search(content, max(0, len(content) - _SEAL_LENGTH))
    if seal and hashlib.sha256(content[: seal.start()]).hexdigest().encode() != seal[1]:
        raise ValueError("its bytes are not those that were written")
    with h5py.File(path, "r") as file:
        file.attrs.get("_nc3_strict")  # if h5netcdf failed at this, it would complain on stderr, too
        written = int(np.max(file.attrs.get("format", 0)))
    if written and not seal:
        raise ValueError("its last line, with their SHA-256, is not there")
    return written


def fingerprint(dataset, without: Collection[str] = ()) -> str:
    """Return 16 digits of the SHA-256 of a Dataset's names, axes, numbers and texts, but for some variables."""
    digest = hashlib.sha256()
    for name in sorted(set(map(str, dataset.variables)) - set(without)):
        variable = dataset.variables[name]
        values = np.ascontiguousarray(variable.values)
        # Texts come back as objects, whose bytes are addresses.
        text = values.dtype.kind in "OU"
        content = "\0".join(map(str, values.ravel())).encode() if text else values.tobytes()
        digest.update(f"{name} {variable.dims} {values.shape} {'O' if text else values.dtype.kind}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:16]
