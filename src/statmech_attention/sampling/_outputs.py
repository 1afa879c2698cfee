"""Means (9) and variances (30) of the output for many order parameters at once."""

from itertools import combinations_with_replacement
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import map_factorisations
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.sampling._density import LARGEST_PRODUCTS, Posterior, gram, posterior_density
from statmech_attention.theory.kernels import check_semi_definite, kernel_inputs, kernel_scale
from statmech_attention.theory.predictor import Prediction
from statmech_attention.theory.problem import Problem, need_problem


class CrossKernels(NamedTuple):
    """Kernels between training and test inputs: `products` of all pairs of paths, or scaled `inputs`.

    `own` are the kernels of each test example with itself.
    """

    products: Float[Array, "pairs examples others"] | None
    inputs: tuple[Float[Array, "examples paths features"], Float[Array, "others paths features"]] | None
    own: Float[Array, "pairs others"]


def cross_kernels(inputs: AttentionedInputs, test: AttentionedInputs, variances) -> CrossKernels:
    """The kernels between training and test inputs by pairs of paths, where they fit."""
    root = np.sqrt(kernel_scale(inputs, variances))
    left, right = (root * np.asarray(kernel_inputs(one)) for one in (inputs, test))
    pairs = list(combinations_with_replacement(range(left.shape[1]), 2))
    own = jnp.asarray(np.stack([(1 + (p != q)) * np.sum(right[:, p] * right[:, q], axis=1) for p, q in pairs]))
    if len(pairs) * left.shape[0] * right.shape[0] > LARGEST_PRODUCTS:
        return CrossKernels(None, (jnp.asarray(left), jnp.asarray(right)), own)
    return CrossKernels(jnp.asarray(np.stack([_crossed(left, right, p, q) for p, q in pairs])), None, own)


def output(overlap: Float[Array, "paths paths"], data: Posterior, test: CrossKernels) -> Prediction:
    """Mean (9) and variance (30) of the output given $U$."""
    packed = overlap[np.triu_indices(overlap.shape[0])]
    if test.products is None:
        assert test.inputs is not None  # one of the two is there
        left, right = test.inputs
        weighted = jnp.einsum("eai,ab->ebi", left, overlap).reshape(left.shape[0], -1)
        across = weighted @ right.reshape(right.shape[0], -1).T
    else:
        across = jnp.einsum("p,pet->et", packed, test.products)
    chol = jnp.linalg.cholesky(gram(overlap, data))
    half = solve_triangular(chol, across, lower=True)
    mean = half.T @ solve_triangular(chol, data.labels, lower=True)
    return Prediction(mean, packed @ test.own - jnp.sum(half**2, axis=0))


@jax.jit
def outputs(overlaps: Float[Array, "draws paths paths"], data: Posterior, test: CrossKernels) -> Prediction:
    """The same for many order parameters."""
    return map_factorisations(lambda overlap: output(overlap, data, test), overlaps)


def by_output(values, inputs: AttentionedInputs):
    """Split the last axis, over pairs (example, output), if there are several outputs."""
    axes = inputs.chain.readout.axes
    return values.reshape(*values.shape[:-1], values.shape[-1] // inputs.chain.outputs, *axes)


@checks.objects
def predictors(draws: xr.Dataset, problem: Problem) -> Float[Array, "chains draws paths features"]:
    r"""For every draw of order parameters the $v$ of the mean output (9), $\sum_\pi v^\pi \cdot \xi^\pi(x)$.

    No kernel of test inputs is needed, so thousands of them cost hardly more than none. With
    several outputs, each is a path of its own, and $\xi(x)$ a row per output.

    Args:
        draws: the result of `posterior` or `tempered_posterior`.
        problem: the `Problem` that was sampled.

    Returns:
        `(chains, draws, paths, features)`.
    """
    if missing := {"order_parameter"} - set(draws) | {"variance", "temperature", "width"} - set(draws.attrs):
        raise ValueError(f"draws: wanted draws of a sampler, got a Dataset without {', '.join(sorted(missing))}.")
    sampled = need_problem(problem).replace(
        **{name: draws.attrs[name] for name in ("width", "temperature", "variance")}
    )
    inputs, data = sampled.attentioned, posterior_density(sampled)
    overlaps = checks.array("draws", draws["order_parameter"].values, "chains draws paths other_paths", double=True)
    checks.same("draws", "their paths", overlaps.shape[2], "the problem", inputs.chain.partial_paths[0])
    check_semi_definite("draws", overlaps)
    found = _predictors(overlaps.reshape(-1, *overlaps.shape[2:]), data, kernel_inputs(inputs))
    return (kernel_scale(inputs, sampled.variance) * found).reshape(*overlaps.shape[:2], *found.shape[1:])


@jax.jit
def _predictors(overlaps, data: Posterior, inputs: Float[Array, "rows paths features"]):
    def one(overlap):
        solved = cho_solve((jnp.linalg.cholesky(gram(overlap, data)), True), data.labels)
        return overlap @ jnp.einsum("e,epi->pi", solved, inputs)

    return map_factorisations(one, overlaps)


def _crossed(left, right, p: int, q: int):
    product = left[:, p] @ right[:, q].T
    return product if p == q else product + left[:, q] @ right[:, p].T
