"""What is solved: rows padded and rotated, pairs of kernels stored or not, the Hessian formed or not."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.descent.energies import FeatureEnergy, PairEnergy, in_parts, pair_products
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.kernels.of_paths import kernel_inputs, kernel_scale
from statmech_attention.theory.kernels.rotations import compressed
from statmech_attention.theory.levels.features import FeatureLevels
from statmech_attention.theory.levels.paths import full_rank
from statmech_attention.theory.levels.ranking import Features
from statmech_attention.theory.problem import Problem

METHODS = ("auto", "dense", "products", "gradients")
# Gradients or products that replace a step of Newton's: 12 to 19 products were counted on images along 64 paths.
_GRADIENTS_PER_STEP = 20
_LARGEST_HESSIAN = 2**27  # entries of the matrices that the dense Hessian is made from
_LARGEST_PAIRS = 2**22  # entries of the pairs' kernels


def prepared(problem: Problem, method: str) -> tuple[Action, str]:
    """The action to minimise along paths, and how."""
    rows = problem = problem.padded()
    inputs = kernel_inputs(rows.attentioned)
    if not (is_dense(method, inputs) and pairs_pay(inputs)):  # else they are so few that features do not matter
        fewer = replace(problem.attentioned, values=compressed(problem.attentioned.values))
        rows = problem.unchecked(attentioned=fewer).reduce()
        inputs = kernel_inputs(rows.attentioned)
    dense = is_dense(method, inputs)
    energy = pair_energy(rows, problem) if dense and pairs_pay(inputs) else feature_energy(rows, problem)
    action = Action.of(energy, problem.architecture, full_rank(problem.architecture))
    return action, "dense" if dense else "gradients" if method == "auto" else method


def action_of_rows(problem: Problem) -> Action:
    """The action of a problem's own rows along paths, differentiable in all its numbers."""
    return Action.of(feature_energy(problem, problem), problem.architecture, full_rank(problem.architecture))


def action_of_features(labels, temperature, architecture: Architecture, features: Features, likelihood) -> Action:
    """The action in these features of tokens."""
    levels = FeatureLevels.of(features.maps, architecture)
    energy = FeatureEnergy(
        labels=labels.reshape(-1),
        temperature=jnp.asarray(temperature, float),
        count=jnp.asarray(labels.size + levels.outputs * (features.missing or (0.0,))[0], float),
        likelihood=likelihood,
        inputs=of_outputs(features.seen, levels.outputs),
        scale=jnp.asarray(architecture.variances[0], float),
        rest=jnp.asarray(features.rest),
        missing=features.missing,
    )
    return Action.of(energy, architecture, levels)


@quick_jit(static=("outputs",), level=0)
def of_outputs(seen: Float[Array | np.ndarray, "examples columns features"], outputs: int):
    """Rows (example, output) of features (feature, output), in parts."""
    examples, columns, features = seen.shape
    spread = jnp.einsum("eia,cd->eciad", seen, jnp.eye(outputs))
    return in_parts(spread.reshape(examples * outputs, columns, features * outputs))


def feature_energy(rows: Problem, problem: Problem) -> FeatureEnergy:
    """The energy of a problem from features: its own, or those of `rows`, rotations with the same kernel."""
    scale = jnp.asarray(kernel_scale(problem.attentioned, problem.variance), float)
    inputs = in_parts(jnp.swapaxes(kernel_inputs(rows.attentioned), 1, 2))
    return FeatureEnergy(**_numbers(rows), inputs=inputs, scale=scale)


def pair_energy(rows: Problem, problem: Problem) -> PairEnergy:
    """The energy of a problem from kernels of all pairs of paths: its own, or those of `rows`."""
    scale = kernel_scale(problem.attentioned, problem.variance)
    return PairEnergy(**_numbers(rows), products=scale * _triangles(kernel_inputs(rows.attentioned)))


def all_pairs(problem: Problem) -> PairEnergy:
    """The energy from the problem's own rows, for samplers: built without a compilation, one pair after another."""
    inputs = problem.attentioned
    scaled = np.sqrt(kernel_scale(inputs, problem.variance)) * np.asarray(kernel_inputs(inputs))
    lower = np.tril_indices(len(scaled))
    products = np.stack([product[lower] for product in pair_products(scaled, scaled)])
    return PairEnergy(**_numbers(problem), products=jnp.asarray(products))


def _numbers(rows: Problem) -> dict[str, Any]:
    """Fields that all energies have."""
    count = rows.examples * rows.attentioned.chain.outputs
    numbers = {"temperature": jnp.asarray(rows.temperature, float), "count": jnp.asarray(count, float)}
    return {"labels": rows.labels.reshape(-1), "likelihood": rows.energy} | numbers


@quick_jit()
def _triangles(inputs: Float[Array, "rows paths features"]) -> Float[Array, "pairs entries"]:
    """Lower triangles of the kernels of all pairs of paths, both orders of a pair together."""
    first, second = np.triu_indices(inputs.shape[1])
    kernels = jnp.einsum("mki,nki->kmn", inputs[:, first], inputs[:, second])
    kernels = jnp.where((first < second)[:, None, None], kernels + kernels.transpose(0, 2, 1), kernels)
    rows, columns = np.tril_indices(inputs.shape[0])
    return kernels[:, rows, columns]


def pairs_pay(inputs: Float[Array, "rows paths features"]) -> bool:
    """True if stored kernels of all pairs of paths make a dense Hessian cheaper."""
    rows, paths, features = inputs.shape
    pairs = paths * (paths + 1) // 2
    return pairs * rows**2 <= min(_LARGEST_PAIRS, (paths * features) ** 2 // 2)


def is_dense(method: str, inputs: Float[Array, "rows paths features"]) -> bool:
    """True if a step with the Hessian costs less than the gradients, or products, that would replace it."""
    if method != "auto":
        return method == "dense"
    rows, paths, features = inputs.shape
    size, pairs = paths * features, paths * (paths + 1) // 2
    # The energy's share, its way to the coordinates, and the eigenvectors.
    hessian = paths**4 * (features**2 + pairs) + size**2 * rows + 8 * pairs**3
    gradient = 2 * rows**2 * (size + rows)
    return hessian < _GRADIENTS_PER_STEP * gradient and size**2 + paths**4 < _LARGEST_HESSIAN
