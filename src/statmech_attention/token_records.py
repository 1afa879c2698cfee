"""Tokens, what a projection sees of them, and directions of solutions, as arrays: what `records` writes and reads."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from statmech_attention.layers.chains import Chain
from statmech_attention.model.tokens import Group, TokenInputs
from statmech_attention.theory.kernels.projected import ProjectedInputs, Projection
from statmech_attention.theory.levels.features import Factors, FeatureLevels
from statmech_attention.theory.levels.ranking import Level, Ranked
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.solution import Directions

SEEN = "seen"  # by a projection
_LEVELS = ("columns", "images", "values")
_NUMBERS = ("count", "change", "settled", "lower")


def arrays_of_tokens(inputs: TokenInputs) -> dict[str, np.ndarray]:
    """Arrays of the inputs, by name; the maps of each group and layer by numbers."""
    arrays = {name: np.asarray(getattr(inputs, name)) for name in ("tokens", "weights", "order", "starts")}
    arrays["lengths"] = np.array([group.length for group in inputs.groups])
    for place, group in enumerate(inputs.groups):
        arrays |= {f"maps_{place}_{layer}": maps for layer, maps in enumerate(group.maps)}
    return arrays


def tokens_of_arrays(arrays: dict[str, np.ndarray], chain: Chain) -> TokenInputs:
    """The inputs with these arrays."""
    groups, first = list[Group](), 0
    for place, length in enumerate(arrays["lengths"].tolist()):
        maps = tuple(arrays[f"maps_{place}_{layer}"] for layer in range(len(chain.layers)))
        groups.append(Group(slice(first, first + length * len(maps[0])), length, maps))
        first += length * len(maps[0])
    return TokenInputs(chain, tuple(groups), arrays["tokens"], arrays["weights"], arrays["order"])


def arrays_of_projected(inputs: ProjectedInputs) -> dict[str, np.ndarray]:
    """Arrays of what a projection sees, and of the projection, by name."""
    network = inputs.projection
    arrays = {f"blocks_{place}": block for place, block in enumerate(network.blocks)}
    parts = {SEEN: inputs.values, "own": inputs.own, "lost": network.lost, "known_variance": network.variance}
    parts |= {"components": network.components}
    return arrays | {name: np.asarray(part) for name, part in parts.items()}


def projected_of_arrays(arrays: dict[str, np.ndarray], chain: Chain) -> ProjectedInputs:
    """Inputs of a projected network from these arrays."""
    blocks = tuple(arrays[f"blocks_{place}"] for place in range(len(chain.layers)))
    variance, lost = (tuple(arrays[name].tolist()) for name in ("known_variance", "lost"))
    network = Projection(chain, variance, blocks, lost, int(arrays["components"]), arrays[SEEN].shape[1])
    return ProjectedInputs(network, jnp.asarray(arrays[SEEN]), jnp.asarray(arrays["own"]))


def arrays_of_directions(directions: Directions) -> dict[str, np.ndarray]:
    """Features and numbers of a solution's directions, by name."""
    ranked = directions.ranked
    parts: dict[str, Any] = {name: getattr(directions, name) for name in _NUMBERS}
    parts |= {"total": ranked.total, "kernel": ranked.kernel, "asked": ranked.asked}
    for name in _LEVELS:
        parts |= {f"{name}_{place}": level for place, level in enumerate(getattr(ranked, name))}
    for place, level in enumerate(ranked.levels):
        parts |= {f"level_{place}_{name}": part for name, part in level._asdict().items()}
    return {name: np.asarray(part) for name, part in parts.items()}


def directions_of_arrays(arrays: dict[str, np.ndarray], problem: Problem) -> Directions:
    """The directions with these arrays; features are cut from them again."""
    inputs = problem.attentioned
    layers = len(inputs.chain.layers)
    levels = tuple(Level(*(arrays[f"level_{place}_{name}"] for name in Level._fields)) for place in range(layers))
    columns, images, values = (tuple(arrays[f"{name}_{place}"] for place in range(layers + 1)) for name in _LEVELS)
    asked = int(arrays.get("asked", max(map(len, values))))
    missing = None
    if problem.projected and not np.ndim(inputs.own):
        missing = float(problem.examples - len(problem.labels)), float(inputs.own)
    ranked = Ranked(columns, images, values, float(arrays["total"]), arrays["kernel"], levels, asked, missing)
    count = int(arrays["count"])
    numbers = float(arrays["change"]), bool(arrays["settled"]), float(arrays.get("lower", 0.0))
    return Directions(ranked, ranked.first(count, inputs), count, *numbers)


def point_of_first_format(arrays: dict[str, np.ndarray], problem: Problem, directions: Directions) -> np.ndarray:
    """The point of a file from before 1.0.0rc2, which had triangles with the logarithms of their diagonals."""

    def triangle(name) -> Any:
        square = arrays.get(f"point_{name}")
        if square is None:
            return None
        diagonal = np.exp(np.diagonal(square, axis1=-2, axis2=-1))
        return np.tril(square, -1) + diagonal[..., None] * np.eye(square.shape[-1])

    levels = FeatureLevels.of(directions.features.maps, problem.architecture)
    shift: Any = arrays.get("point_shift")
    return levels.point_of(Factors(triangle("outputs"), triangle("factor"), shift, triangle("inner")))
