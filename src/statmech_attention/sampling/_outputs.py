"""Means (9) and variances (30) of the output for many order parameters at once."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from statmech_attention.kernels import kernel_scale
from statmech_attention.paths import AttentionedInputs
from statmech_attention.sampling._density import LARGEST_PRODUCTS, Posterior, gram

_AT_ONCE = 8


def outputs(inputs: AttentionedInputs, test: AttentionedInputs, overlaps, data: Posterior, variances):
    """Two arrays `(chains, draws, test examples)` from order parameters `(chains, draws, paths, paths)`.

    Args:
        inputs: training inputs.
        test: test inputs.
        overlaps: the order parameters.
        data: the density that they were drawn from.
        variances: prior variances of the layers.
    """
    root = np.sqrt(kernel_scale(inputs, variances))
    left, right = root * inputs.values, root * test.values
    examples, paths, _ = left.shape
    pairs = np.triu_indices(paths)
    own = jnp.stack([_both(jnp.sum(right[:, p] * right[:, q], axis=1), p, q) for p, q in zip(*pairs, strict=True)])
    across = (left, right)
    if len(pairs[0]) * examples * right.shape[0] <= LARGEST_PRODUCTS:
        across = jnp.stack([_crossed(left, right, p, q) for p, q in zip(*pairs, strict=True)])
    flat = jnp.asarray(overlaps).reshape(-1, paths, paths)
    means, spreads = _mapped(flat, data, across, own)
    shape = (*overlaps.shape[:2], right.shape[0])
    return np.asarray(means).reshape(shape), np.asarray(spreads).reshape(shape)


@jax.jit
def _mapped(overlaps, data: Posterior, across, own):
    pairs = np.triu_indices(overlaps.shape[-1])

    def one(overlap):
        if isinstance(across, tuple):
            left, right = across
            weighted = jnp.einsum("eai,ab->ebi", left, overlap).reshape(left.shape[0], -1)
            crossed = weighted @ right.reshape(right.shape[0], -1).T
        else:
            crossed = (overlap[pairs] @ across.reshape(across.shape[0], -1)).reshape(across.shape[1:])
        chol = jax.lax.linalg.cholesky(gram(overlap, data), symmetrize_input=False)
        half = solve_triangular(chol, crossed, lower=True)
        mean = half.T @ solve_triangular(chol, data.labels, lower=True)
        return mean, overlap[pairs] @ own - jnp.sum(half**2, axis=0)

    return jax.lax.map(one, overlaps, batch_size=_AT_ONCE)


def _crossed(left, right, p: int, q: int):
    product = left[:, p] @ right[:, q].T
    return product if p == q else product + left[:, q] @ right[:, p].T


def _both(values, p: int, q: int):
    return values if p == q else 2 * values
