"""Problems and solutions as Datasets and files."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention.installed import need

need("io", "saving and loading")

import xarray as xr

from statmech_attention import checks
from statmech_attention.files import read_netcdf, write_netcdf
from statmech_attention.layers.chains import chain, layers_from_json, layers_to_json
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.solution import Solution

_NUMBERS = ("action", "energy", "entropy", "gradient_norm", "steps", "outcome", "temperature")


def to_dataset(solution: Solution) -> xr.Dataset:
    """A solution as a Dataset; see `Solution.to_xarray`."""
    if not checks.concrete(*jax.tree.leaves(solution)):
        raise ValueError("solution: wanted known numbers, got traced ones. Call it outside of jax.jit and jax.vmap.")
    batch = tuple(f"batch_{axis}" for axis in range(1, solution.temperature.ndim + 1))
    own = batch[: solution.attentioned.values.ndim - 3]
    outputs = ("output",) * (solution.labels.ndim - 1 - len(own))
    variables = {name: (batch, np.asarray(getattr(solution, name))) for name in _NUMBERS}
    for stage, overlap in zip(solution.attentioned.chain.stages, solution.order_parameters, strict=True):
        axes = (*batch, *stage.axes[: overlap.ndim - len(batch)])
        variables[stage.variable] = (axes, np.asarray(overlap))
    variables["width"] = (
        (*batch, "width_layer"),
        np.stack([np.asarray(one, float) for one in solution.width], axis=-1),
    )
    variances = np.stack([np.asarray(one, float) for one in solution.variance], axis=-1)
    variables["variance"] = ((*batch, "variance_layer"), variances)
    variables["attentioned"] = ((*own, "example", "seen_path", "feature"), np.asarray(solution.attentioned.values))
    variables["labels"] = ((*own, "example", *outputs), np.asarray(solution.labels))
    if solution.count is not None:
        variables["examples"] = (batch, np.asarray(solution.count))
    attributes = {"layers": json.dumps(layers_to_json(solution.attentioned.layers))}
    return xr.Dataset(variables, attrs=attributes)


def load(path) -> Solution:
    """Read a solution; see `Solution.load`."""
    dataset = read_netcdf(path)
    missing = {*_NUMBERS, "order_parameter", "width", "variance", "attentioned", "labels"} - set(dataset)
    written = dataset.attrs.get("layers", dataset.attrs.get("heads"))  # the name until 0.1.0
    if missing or written is None:
        raise ValueError(f"{path}: wanted a solution, got a result without {', '.join(sorted(missing)) or 'layers'}.")
    checks.need_double("solution", np.zeros(()))

    def layers(name: str) -> tuple:
        return tuple(jnp.asarray(column) for column in np.moveaxis(dataset[name].values, -1, 0))

    numbers = {name: jnp.asarray(dataset[name].values) for name in _NUMBERS}
    spelled = layers_from_json(json.loads(written))
    overlaps = [stage.variable for stage in chain(spelled).stages]
    if absent := [name for name in overlaps if name not in dataset]:
        raise ValueError(f"{path}: wanted a solution, got a result without {', '.join(absent)}.")
    return Solution(
        order_parameters=tuple(jnp.asarray(dataset[name].values) for name in overlaps),
        attentioned=AttentionedInputs(jnp.asarray(dataset["attentioned"].values), spelled),
        labels=jnp.asarray(dataset["labels"].values),
        width=layers("width"),
        variance=layers("variance"),
        count=jnp.asarray(dataset["examples"].values) if "examples" in dataset else None,
        **numbers,
    )


def save_problem(problem: Problem, path) -> Path:
    """Write a problem; see `Problem.save`."""
    if not checks.concrete(*jax.tree.leaves(problem)):
        raise ValueError("problem: wanted known numbers, got traced ones. Call it outside of jax.jit and jax.vmap.")
    variables: dict[str, Any] = {
        "attentioned": (("row", "seen_path", "feature"), np.asarray(problem.attentioned.values)),
        "labels": (("row", *("output",) * (problem.labels.ndim - 1)), np.asarray(problem.labels)),
        "variance": ("variance_layer", np.asarray(problem.variance, float)),
        "examples": ((), problem.examples),
    }
    for name, axes in (("width", ("width_layer",)), ("temperature", ())):
        if (number := getattr(problem, name)) is not None:
            variables[name] = (axes, np.asarray(number, float))
    attributes = {"layers": json.dumps(layers_to_json(problem.layers))}
    return write_netcdf(xr.Dataset(variables, attrs=attributes), path)


def load_problem(path) -> Problem:
    """Read a problem; see `Problem.load`."""
    dataset = read_netcdf(path)
    missing = {"attentioned", "labels", "variance", "examples"} - set(dataset)
    if missing or "action" in dataset:
        raise ValueError(f"{path}: wanted a problem, got a result without {', '.join(sorted(missing)) or 'labels'}.")
    numbers: dict[str, Any] = {
        name: tuple(map(float, dataset[name].values)) for name in ("width", "variance") if name in dataset
    }
    if "temperature" in dataset:
        numbers["temperature"] = float(dataset["temperature"])
    layers = layers_from_json(json.loads(dataset.attrs["layers"]))
    inputs = AttentionedInputs(jnp.asarray(dataset["attentioned"].values), layers)
    problem = Problem(inputs, dataset["labels"].values, **numbers)
    examples = int(dataset["examples"])
    if examples != len(problem.labels):
        problem = problem.standing_for(examples)
    return problem
