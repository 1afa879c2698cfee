"""Means (9) and variances (30) of the output for many order parameters at once."""

import jax
import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import map_factorisations
from statmech_attention.theory.descent.energies import PairEnergy
from statmech_attention.theory.kernels.of_paths import check_semi_definite, kernel_inputs, kernel_scale
from statmech_attention.theory.kernels.regression import Prediction
from statmech_attention.theory.outputs import CrossKernels, output
from statmech_attention.theory.prepared import all_pairs
from statmech_attention.theory.problem import Problem, need_problem


@jax.jit
def outputs(overlaps: Float[Array, "draws paths paths"], energy: PairEnergy, test: CrossKernels) -> Prediction:
    """The same for many order parameters."""
    return map_factorisations(lambda overlap: output(overlap, energy, test), overlaps)


def predictors(problem: Problem, draws: xr.Dataset) -> Float[Array, "chains draws paths features"]:
    r"""For every draw of order parameters the $v$ of the mean output (9), $\sum_\pi v^\pi \cdot \xi^\pi(x)$.

    No kernel of test inputs is needed, so thousands of them cost hardly more than none. With
    several outputs, each is a path of its own, and $\xi(x)$ a row per output.

    Args:
        problem: the `Problem` that was sampled.
        draws: the result of `posterior` or `tempered_posterior`.

    Returns:
        `(chains, draws, paths, features)`.
    """
    checks.instance("draws", draws, xr.Dataset, instead="Give what sampling.posterior returns.")
    physics = {name: draws.attrs[name] for name in ("width", "temperature", "variance")}
    sampled = need_problem(problem).replace(**physics)
    inputs = sampled.attentioned
    overlaps = checks.array("draws", draws["order_parameter"].values, "chains draws paths other_paths", double=True)
    checks.same("draws", "their paths", overlaps.shape[2], "the problem", inputs.chain.partial_paths[0])
    check_semi_definite("draws", overlaps)
    flat = overlaps.reshape(-1, *overlaps.shape[2:])
    vectors = _predictors(flat, all_pairs(sampled), kernel_inputs(inputs))
    return (kernel_scale(inputs, sampled.variance) * vectors).reshape(*overlaps.shape[:2], *vectors.shape[1:])


@jax.jit
def _predictors(overlaps, energy: PairEnergy, inputs: Float[Array, "rows paths features"]):
    def predictor(overlap):
        return overlap @ jnp.einsum("e,epi->pi", energy.regression(overlap).solve(energy.labels), inputs)

    return map_factorisations(predictor, overlaps)
