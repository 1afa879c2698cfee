"""Mean (9) and variance (30) of the output as functions of the order parameter, or of a point on tokens."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.descent.energies import PairEnergy, packed, pair_products
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.kernels.of_paths import inputs_like, kernel_inputs, kernel_scale
from statmech_attention.theory.kernels.regression import Prediction
from statmech_attention.theory.levels.new_tokens import output as new_output
from statmech_attention.theory.problem import new_inputs


class CrossKernels(NamedTuple):
    """Kernels between training and test inputs by pairs of paths, and of each test example with itself."""

    products: Float[Array, "pairs examples others"]
    diagonal: Float[Array, "pairs others"]

    def __call__(self, point, action: Action) -> Prediction:
        """Mean and variance of the output at a point."""
        return output(action.overlap(point), action.energy, self)


def cross_kernels(inputs: AttentionedInputs, test: AttentionedInputs, variances) -> CrossKernels:
    """The kernels between training and test inputs by pairs of paths."""
    root = np.sqrt(kernel_scale(inputs, variances))
    left, right = (root * np.asarray(kernel_inputs(examples)) for examples in (inputs, test))
    both = 2 - np.eye(left.shape[1])  # orders of a pair
    diagonal = np.einsum("epi,eqi->pqe", right, right, optimize=True) * both[:, :, None]
    products = np.stack(list(pair_products(left, right)))
    return CrossKernels(jnp.asarray(products), jnp.asarray(diagonal[np.triu_indices(len(diagonal))]))


def output(overlap: Float[Array, "paths paths"], energy: PairEnergy, test: CrossKernels) -> Prediction:
    """Mean (9) and variance (30) of the output given $U$."""
    across = jnp.einsum("p,pet->et", packed(overlap), test.products)
    return energy.regression(overlap).predict(across, packed(overlap) @ test.diagonal)


def by_output(values, inputs: AttentionedInputs):
    """Split the last axis, over pairs (example, output), if there are several outputs."""
    axes = inputs.chain.readout.axes
    return values.reshape(*values.shape[:-1], values.shape[-1] // inputs.chain.outputs, *axes)


def outputs_at(solution: Any, test) -> Any:
    """Mean (9) and variance (30) of the output on test inputs, a function of a point and the action; a pytree.

    None without test inputs. On tokens each is a function of its own, and what takes it is compiled anew.
    """
    problem, directions = solution.problem, solution.directions
    if test is None:
        return None
    inputs, variances = problem.attentioned, problem.variance
    if directions is None:
        return cross_kernels(inputs, inputs_like("test", test, inputs), variances)
    test = new_inputs(problem, test)

    def at(point, action) -> Prediction:
        return new_output(test, inputs, directions.ranked, directions.features, action, point, variances)

    return Partial(at)
