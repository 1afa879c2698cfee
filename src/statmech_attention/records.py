"""Problems and solutions in netCDF files, which are written whole or not at all."""

import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.installed import need
from statmech_attention.layers.chains import Chain, layers_from_json, layers_to_json
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.descent.trust_region import Outcome
from statmech_attention.theory.levels.paths import full_rank, least_entropy, point_of
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.solution import Solution
from statmech_attention.token_records import (
    arrays_of_directions,
    arrays_of_tokens,
    directions_of_arrays,
    point_of_first_format,
    tokens_of_arrays,
)

_LARGE = 4000  # bytes
_NUMBERS = ("excess", "energy", "gradient_norm", "steps", "outcome")
_TOKENS = "tokens_"  # of names of variables; "without_paths_" before 1.0.0rc2


def save(thing: Problem | Solution, path: str | os.PathLike[str]) -> Path:
    """Write a problem or a solution to a netCDF file ending in `.nc`, whole or not at all; return the path.

    The leading axes of a batch come first, `batch_1` and so on; `layers` is an attribute.

    Raises:
        ValueError: something else, as a list; another ending; a kind of layer from outside the package.
        OSError: it cannot be written, as on a full disk.
    """
    need("io", "saving")
    import xarray as xr

    if not isinstance(thing, Problem | Solution):
        raise ValueError(f"save: wanted one Problem or Solution, got {type(thing).__name__}. Save each by itself.")
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
    dataset = xr.Dataset(variables, attrs=attributes)
    return write_netcdf(dataset.assign_attrs(fingerprint=fingerprint(dataset.assign(dataset.attrs))), path)


def _of_problem(problem: Problem, batch: tuple[str, ...]) -> dict[str, Any]:
    """Variables of a problem whose numbers have the axes `batch`."""
    inputs: Any = problem.attentioned
    labels, leading = np.asarray(problem.labels), tuple[str, ...]()
    variables: dict[str, Any] = {}
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
    """Read what `save` wrote, with the same numbers.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a damaged file, or one of something else.
    """
    need("io", "loading")
    dataset = read_netcdf(path)
    if dataset.attrs.pop("fingerprint", None) != fingerprint(dataset.assign(dataset.attrs)):
        raise ValueError(f"{path}: wanted what `save` wrote, got another file, or other numbers. Save it again.")
    checks.need_double("load", np.zeros(()))
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
    prefix = _TOKENS if f"{_TOKENS}tokens" in dataset else "without_paths_"
    arrays = {str(name).removeprefix(prefix): dataset[name].values for name in dataset if str(name).startswith(prefix)}
    inputs: Any
    if arrays:
        inputs = tokens_of_arrays(arrays, Chain.of(layers))
    else:
        inputs = AttentionedInputs(jnp.asarray(dataset["attentioned"].values), layers)
    parts = {"attentioned": inputs, "labels": jnp.asarray(dataset["labels"].values), "energy": None} | numbers
    problem = object.__new__(Problem).unchecked(**parts)
    if "outcome" in dataset:
        return _solution(dataset, arrays, problem)
    return _on_tokens_of_first_format(arrays, problem) if "action" in arrays else problem


def _solution(dataset, arrays: dict[str, np.ndarray], problem: Problem) -> Solution:
    """The solution in a file."""
    stages = problem.attentioned.chain.stages
    overlaps = () if arrays else tuple(jnp.asarray(dataset[stage.variable].values) for stage in stages)
    reached: dict[str, Any] = {name: jnp.asarray(dataset[name].values) for name in _NUMBERS if name in dataset}
    reached |= {"start": dataset.attrs["start"], "starts": int(dataset.attrs["starts"])}
    if "excess" not in reached:
        return _along_paths_of_first_format(jnp.asarray(dataset["action"].values), problem, overlaps, reached)
    directions = directions_of_arrays(arrays, problem) if arrays else None
    return Solution(problem, jnp.asarray(dataset["point"].values), overlaps, directions=directions, **reached)


def _along_paths_of_first_format(action, problem: Problem, overlaps, reached: dict[str, Any]) -> Solution:
    """A solution in a file from before 1.0.0rc2: the points are those of the order parameters."""
    excess = action - least_entropy(problem.architecture)
    solution = Solution(problem, jnp.zeros((*excess.shape, 0)), overlaps, excess, **reached)
    each = [solution[place] if place else solution for place in np.ndindex(excess.shape)]
    points = [point_of(one.overlaps, full_rank(one.problem.architecture)) for one in each]
    return replace(solution, point=jnp.stack(points).reshape(*excess.shape, -1))


def _on_tokens_of_first_format(arrays: dict[str, np.ndarray], problem: Problem) -> Solution:
    """A solution on tokens in a file from before 1.0.0rc2."""
    directions = directions_of_arrays(arrays | {"count": arrays["directions"]}, problem)
    outcome = Outcome.CONVERGED if arrays["gradient_norm"] <= 1e-6 else Outcome.STALLED
    reached: dict[str, Any] = {name: jnp.asarray(arrays[name]) for name in ("gradient_norm", "steps")}
    reached |= {"outcome": jnp.asarray(int(outcome)), "excess": jnp.asarray(arrays["action"]), "energy": jnp.zeros(())}
    point = jnp.asarray(point_of_first_format(arrays, problem, directions))
    solution = Solution(problem, point, (), directions=directions, **reached)
    return replace(solution, energy=solution.landscape.nats(point) / problem.examples)


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary file beside `path`, which replaces `path` in one step unless something is raised."""
    path = Path(path).expanduser()
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".part", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    mask = os.umask(0)  # there is no other way to read it
    os.umask(mask)
    try:
        yield temporary
        temporary.chmod(0o666 & ~mask)
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, f"{path} could not be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def write_netcdf(dataset, path: str | os.PathLike) -> Path:
    """Write an xarray Dataset to a file ending in `.nc`; return its path."""
    path = Path(path).expanduser()
    if path.suffix != ".nc":
        raise ValueError(f"path: wanted a file name ending in .nc, got {path.name!r}.")
    # A compressed variable has its own index in the file, larger than a small variable.
    variables = dataset.variables.items()
    large = [name for name, array in variables if array.dtype.kind in "fiub" and array.nbytes > _LARGE]
    encoding = {name: {"zlib": True, "complevel": 9, "shuffle": True} for name in large}
    # In memory first: HDF5 ends the process if it cannot flush to a full disk.
    content = dataset.to_netcdf(engine="h5netcdf", encoding=encoding)
    with replacing(path) as temporary:
        temporary.write_bytes(content)
    return path


def read_netcdf(path: str | os.PathLike):
    """Read the Dataset of a file into memory."""
    import xarray as xr

    path = Path(path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"{path}: wanted a netCDF file, got no such file.")
    try:
        with xr.open_dataset(path, engine="h5netcdf") as opened:
            return opened.load()
    except (OSError, ValueError, KeyError, RuntimeError) as error:  # h5py has several for a damaged file
        raise ValueError(f"{path}: wanted a netCDF file, got one that cannot be read ({error}).") from error


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
