"""Tokens without paths, and solutions on them, as named arrays: what `records` writes and reads."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from statmech_attention.layers.chains import Chain
from statmech_attention.model.tokens import Group, TokenInputs
from statmech_attention.theory.levels.features import Point, excess_action
from statmech_attention.theory.levels.ranking import Level, Ranked
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.token_solution import TokenSolution, inputs_of, numbers_of

_NUMBERS = ("directions", "action", "gradient_norm", "steps", "change", "left_out", "settled")
_LEVELS = ("columns", "images", "values")


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
        last = first + length * int(np.sum(np.diff(arrays["starts"], append=len(arrays["weights"])) == length))
        groups.append(Group(slice(first, last), length, maps))
        first = last
    return TokenInputs(chain, tuple(groups), arrays["tokens"], arrays["weights"], arrays["order"], arrays["starts"])


def arrays_of_solution(solution: TokenSolution) -> dict[str, np.ndarray]:
    """Numbers, features and coordinates of a solution, by name; what is None has no array."""
    ranked, arrays = solution.ranked, {name: np.asarray(getattr(solution, name)) for name in _NUMBERS}
    arrays |= {"total": np.asarray(ranked.total), "kernel": ranked.kernel}
    parts: dict[str, Any] = {f"point_{name}": part for name, part in solution.point._asdict().items()}
    for name in _LEVELS:
        parts |= {f"{name}_{place}": level for place, level in enumerate(getattr(ranked, name))}
    for place, level in enumerate(ranked.levels):
        parts |= {f"level_{place}_{name}": part for name, part in level._asdict().items()}
    return arrays | {name: np.asarray(part) for name, part in parts.items() if part is not None}


def solution_of_arrays(arrays: dict[str, np.ndarray], problem: Problem) -> TokenSolution:
    """The solution of a problem with these arrays; its regression is made again."""
    layers = len(inputs_of(problem).chain.layers)
    levels = tuple(Level(*(arrays[f"level_{place}_{name}"] for name in Level._fields)) for place in range(layers))
    columns, images, values = (tuple(arrays[f"{name}_{place}"] for place in range(layers + 1)) for name in _LEVELS)
    ranked = Ranked(columns, images, values, float(arrays["total"]), arrays["kernel"], levels)
    given = [arrays.get(f"point_{name}") for name in Point._fields]
    coordinates: list[Any] = [None if part is None else jnp.asarray(part) for part in given]
    point = Point(*coordinates)
    numbers: dict[str, Any] = {name: arrays[name].item() for name in _NUMBERS}
    features = ranked.first(numbers["directions"], inputs_of(problem))
    regression = excess_action(point, numbers_of(problem), features)[1]
    return TokenSolution(problem, **numbers, regression=regression, ranked=ranked, features=features, point=point)
