"""Problems and solutions in netCDF files."""

import json
import os
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.files import read_netcdf, write_netcdf
from statmech_attention.installed import need
from statmech_attention.layers.chains import Chain, layers_from_json, layers_to_json
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.solution import Solution

_NUMBERS = ("action", "energy", "entropy", "gradient_norm", "steps", "outcome")


def save(thing: Problem | Solution, path: str | os.PathLike[str]) -> Path:
    """Write a problem or a solution to a netCDF file ending in `.nc`, whole or not at all; return the path.

    The leading axes of a batch come first, `batch_1` and so on; `layers` is an attribute.

    Raises:
        ValueError: another ending; a kind of layer from outside the package.
        OSError: it cannot be written, as on a full disk.
    """
    need("io", "saving")
    import xarray as xr

    problem = thing.problem if isinstance(thing, Solution) else thing
    batch = tuple(f"batch_{axis + 1}" for axis in range(thing.action.ndim)) if isinstance(thing, Solution) else ()
    variables = _of_problem(problem, batch)
    if isinstance(thing, Solution):
        variables |= {name: (batch, np.asarray(getattr(thing, name))) for name in _NUMBERS}
        for stage, overlap in zip(problem.attentioned.chain.stages, thing.order_parameters, strict=True):
            axes = (*batch, *stage.axes[: overlap.ndim - len(batch)])
            variables[stage.variable] = (axes, np.asarray(overlap))
    attributes = {"layers": json.dumps(layers_to_json(problem.layers)), "start": getattr(thing, "start", "")}
    return write_netcdf(xr.Dataset(variables, attrs=attributes), path)


def _of_problem(problem: Problem, batch: tuple[str, ...]) -> dict[str, Any]:
    """Variables of a problem whose numbers have the axes `batch`."""
    values, labels = np.asarray(problem.attentioned.values), np.asarray(problem.labels)
    leading = batch[: values.ndim - 3]
    variables: dict[str, Any] = {
        "attentioned": ((*leading, "row", "seen_path", "feature"), values),
        "labels": ((*leading, "row", *("output",) * (labels.ndim - 1 - len(leading))), labels),
    }
    for name in ("width", "variance"):
        if (numbers := getattr(problem, name)) is not None:
            stacked = np.stack([np.asarray(one, float) for one in numbers], axis=-1)
            variables[name] = ((*batch, f"{name}_layer"), stacked)
    for name in ("temperature", "count"):
        if (number := getattr(problem, name)) is not None:
            variables[name] = (batch, np.asarray(number, float))
    return variables


def load(path: str | os.PathLike[str]) -> Problem | Solution:
    """Read what `save` wrote, with the same numbers.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a damaged file, or one of something else.
    """
    need("io", "loading")
    dataset = read_netcdf(path)
    if missing := {"attentioned", "labels", "variance"} - set(dataset):
        raise ValueError(f"{path}: wanted a problem or a solution, got no {', '.join(sorted(missing))} in it.")
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
    inputs = AttentionedInputs(jnp.asarray(dataset["attentioned"].values), layers)
    parts = {"attentioned": inputs, "labels": jnp.asarray(dataset["labels"].values)} | numbers
    problem = object.__new__(Problem).unchecked(**parts)
    if "action" not in dataset:
        return problem
    overlaps = tuple(jnp.asarray(dataset[stage.variable].values) for stage in Chain.of(layers).stages)
    found = {name: jnp.asarray(dataset[name].values) for name in _NUMBERS}
    return Solution(problem, overlaps, **found, start=dataset.attrs.get("start", "prior"))
