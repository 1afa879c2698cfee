"""Shares of a kernel: those of a head, of a layer, of all skips."""

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Layers, chain
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.heads import head_indices
from statmech_attention.theory.kernels import check_semi_definite


def path_weights(order_parameter: ArrayLike, *, layers: Layers) -> Float[np.ndarray, "paths paths"]:
    r"""Weights $c_\pi c_{\pi'} U^{\pi\pi'}$ of pairs of paths in the kernel, $c_\pi$ of (X2)."""
    layers = chain(layers)
    matrix = checks.known("order_parameter", order_parameter, "paths paths")
    if matrix.shape != (layers.paths,) * 2:
        raise ValueError(f"order_parameter: wanted shape {(layers.paths,) * 2}, got {matrix.shape}.")
    check_semi_definite("order_parameter", matrix)
    coefficients = layers.path_gains / np.sqrt(layers.divisor)
    return np.outer(coefficients, coefficients) * matrix


def layer_shares(order_parameter: ArrayLike, *, layers: Layers) -> Float[np.ndarray, " layers"]:
    r"""Share $\hat s_l$ of each layer, our (R9)."""
    size, beside = np.abs(path_weights(order_parameter, layers=layers)), chain(layers).path_heads.T < 0
    return np.array([1 - size[np.ix_(along, along)].sum() / size.sum() for along in beside])


def head_shares(order_parameter: ArrayLike, *, layers: Layers) -> Float[np.ndarray, " heads"]:
    r"""Share $\hat s_{l,h}$ of each head, our (R9): its score "either" before normalisation."""
    size, branches = np.abs(path_weights(order_parameter, layers=layers)), chain(layers).path_heads
    left = [branches[:, layer] != head for layer, head in head_indices(layers)]
    return np.array([1 - size[np.ix_(kept, kept)].sum() / size.sum() for kept in left])


def path_covariance(attentioned: AttentionedInputs) -> Float[Array, "paths paths"]:
    r"""$B_{\pi\pi'} = \frac{1}{P N_0} \sum_\mu (\xi^\pi_\mu - \bar\xi^\pi) \cdot (\xi^{\pi'}_\mu - \bar\xi^{\pi'})$."""
    examples, _, features = attentioned.values.shape
    if examples < 2:
        raise ValueError(f"attentioned: wanted at least two examples, got {examples}.")
    centred = attentioned.values - jnp.mean(attentioned.values, axis=0, keepdims=True)
    return jnp.einsum("epi,eqi->pq", centred, centred) / (examples * features)


def kernel_shares(weights: ArrayLike, covariance: ArrayLike, *, layers: Layers) -> Float[np.ndarray, "3"]:
    """Divide the output's variance among skips, heads and the rest."""
    layers, products = chain(layers), np.asarray(weights) * np.asarray(covariance)
    whole = products / products.sum()
    skips, through = (layers.path_heads < 0).all(axis=1), (layers.path_heads >= 0).all(axis=1)
    alone, inside = whole[np.ix_(skips, skips)].sum(), whole[np.ix_(through, through)].sum()
    return np.array([alone, inside, 1 - alone - inside])
