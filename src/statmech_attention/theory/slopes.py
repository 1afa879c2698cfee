"""Derivatives of the log evidence at a minimum, where the coordinates need none."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.layers.chains import Chain
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.tokens import one_value_matrix_per_head
from statmech_attention.theory.kernels.of_paths import path_heads
from statmech_attention.theory.kernels.projected import ProjectedInputs
from statmech_attention.theory.levels.components import overlap_of_components
from statmech_attention.theory.levels.ranking import Features
from statmech_attention.theory.prepared import action_of_features, action_of_rows, of_outputs
from statmech_attention.theory.problem import Problem


def slopes_along_paths(problem: Problem, point) -> dict[str, Any]:
    """Slopes in numbers and gates with the point held; see `Solution.slopes`."""
    heads = sum(problem.attentioned.chain.heads)
    return _named(*_along_paths(_numbers(problem), jnp.ones(heads), problem, point))


def slopes_on_tokens(problem: Problem, point, features: Features) -> dict[str, Any]:
    """The same with the features held, too."""
    chain = problem.attentioned.chain
    gates = jnp.ones(features.maps.values.shape[:2])
    known = problem.labels, point, features, problem.energy
    numbers, of_seeds = _on_tokens(_numbers(problem), gates, *known, chain)
    if not all(map(one_value_matrix_per_head, chain.layers)):
        return _named(numbers, None)
    layers = zip(chain.heads, np.asarray(of_seeds)[::-1], strict=True)
    return _named(numbers, np.concatenate([of_layer[:heads] for heads, of_layer in layers]))


def pull_on_components(solution) -> ProjectedInputs:
    r"""Derivatives of $\ln p(Y)$ in what a projection sees, or in reduced rows, with $U$ between components held."""
    inputs, action, point = solution.problem.attentioned, solution.landscape, solution.point
    overlap = overlap_of_components(inputs, solution.directions.ranked, action, point)
    return _on_components(inputs, action.energy, overlap)


@quick_jit()
def _on_components(inputs: ProjectedInputs, energy, overlap):
    def nats(inputs):
        missing = None if energy.missing is None else (energy.missing[0], inputs.own)
        rest = jnp.diag(jnp.broadcast_to(inputs.rest, len(inputs)))
        seen = of_outputs(inputs.values, len(overlap[1]))
        return -0.5 * replace(energy, inputs=seen, rest=rest, missing=missing).value(overlap)

    return jax.grad(nats)(inputs)


def _numbers(problem: Problem) -> dict[str, Any]:
    numbers = {"temperature": problem.temperature, "variance": problem.variance, "width": problem.width}
    return jax.tree.map(lambda number: jnp.asarray(number, float), numbers)


def _named(numbers: dict[str, Any], gates) -> dict[str, Any]:
    """The slopes as arrays, without those of gates where heads share values."""
    slopes = {name: np.asarray(jnp.stack(part) if isinstance(part, tuple) else part) for name, part in numbers.items()}
    return slopes if gates is None else slopes | {"gates": np.asarray(gates)}


@quick_jit()
def _along_paths(numbers, gates: Float[Array, " heads"], problem: Problem, point):
    through = path_heads(problem.attentioned.chain)

    def nats(numbers, gates):
        inputs, roots = problem.attentioned, jnp.prod(jnp.where(through > 0, jnp.sqrt(gates), 1.0), axis=1)
        gated = replace(inputs, values=inputs.values * roots[None, :, None])
        return -action_of_rows(problem.unchecked(attentioned=gated, **numbers)).half(point)

    return jax.grad(nats, (0, 1))(numbers, gates)


@quick_jit(static=("chain",))
def _on_tokens(numbers, gates: Float[Array, "layers seeds"], labels, point, features: Features, energy, chain: Chain):
    def nats(numbers, gates):
        architecture = Architecture(chain, numbers["width"], numbers["variance"])
        values = features.maps.values * jnp.sqrt(gates)[:, :, None, None]
        gated = features._replace(maps=features.maps._replace(values=values))
        return -action_of_features(labels, numbers["temperature"], architecture, gated, energy).half(point)

    return jax.grad(nats, (0, 1))(numbers, gates)
