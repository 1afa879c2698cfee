"""What is solved: rows padded and rotated, pairs of kernels stored or not, the Hessian formed or not."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.theory.descent.energies import FeatureEnergy, PairEnergy, pair_products
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.kernels.of_paths import kernel_inputs, kernel_scale
from statmech_attention.theory.kernels.rotations import compressed
from statmech_attention.theory.levels.paths import full_rank
from statmech_attention.theory.problem import Problem

METHODS = ("auto", "dense", "products")
_PRODUCTS_PER_STEP = 20  # 12 to 19 were counted on one-shot images seen along 64 paths
_LARGEST_HESSIAN = 2**27  # entries of the matrices that the dense Hessian is made from
_LARGEST_PAIRS = 2**22  # entries of the pairs' kernels


def prepared(problem: Problem, method: str) -> tuple[Action, bool]:
    """The action to minimise, and whether its Hessian is formed."""
    rows = problem = problem.padded()
    inputs = kernel_inputs(rows.attentioned)
    if not (is_dense(method, inputs) and pairs_pay(inputs)):  # else they are so few that features do not matter
        fewer = replace(problem.attentioned, values=compressed(problem.attentioned.values))
        rows = problem.unchecked(attentioned=fewer).reduce()
        inputs = kernel_inputs(rows.attentioned)
    dense = is_dense(method, inputs)
    energy = pair_energy(rows, problem) if dense and pairs_pay(inputs) else feature_energy(rows, problem)
    return Action.of(energy, problem.architecture, full_rank(problem.architecture)), dense


def feature_energy(rows: Problem, problem: Problem) -> FeatureEnergy:
    """The energy of a problem from features: its own, or those of `rows`, rotations with the same kernel."""
    scale = jnp.asarray(kernel_scale(problem.attentioned, problem.variance), float)
    inputs = jnp.swapaxes(kernel_inputs(rows.attentioned), 1, 2)
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


def _numbers(rows: Problem) -> dict[str, Float[Array, "..."]]:
    """Fields that all energies have."""
    count = rows.examples * rows.attentioned.chain.outputs
    numbers = {"temperature": jnp.asarray(rows.temperature, float), "count": jnp.asarray(count, float)}
    return {"labels": rows.labels.reshape(-1)} | numbers


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
    """True if forming the Hessian costs less than the products that would replace it."""
    if method != "auto":
        return method == "dense"
    rows, paths, features = inputs.shape
    size, pairs = paths * features, paths * (paths + 1) // 2
    # The energy's share, its way to the coordinates, and the eigenvectors.
    hessian = paths**4 * (features**2 + pairs) + size**2 * rows + 8 * pairs**3
    product = 2 * rows**2 * (size + rows)
    return hessian < _PRODUCTS_PER_STEP * product and size**2 + paths**4 < _LARGEST_HESSIAN
