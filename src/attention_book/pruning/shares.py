r"""Shares of a kernel: what goes with a head, with a layer, along all skips.

A pair of paths brings $c_\pi c_{\pi'} U^{\pi\pi'}$ to the kernel, times the size of its path-path kernel. Beside a skip there are pairs
that no head of a layer takes part in, and normalised head scores are silent about them; shares are not.
"""

import numpy as np
from jaxtyping import Float

from attention_book.arguments import Layers, Numbers
from statmech_attention import checks
from statmech_attention.layers.chains import chain
from statmech_attention.pruning.heads import head_indices
from statmech_attention.theory.kernels import check_semi_definite


def path_weights(order_parameter: Numbers, *, heads: Layers) -> Float[np.ndarray, "paths paths"]:
    r"""What pairs of paths weigh in the kernel: $c_\pi c_{\pi'} U^{\pi\pi'}$ with the coefficients $c_\pi$ of (X2).

    Args:
        order_parameter: $U$, `(paths, paths)`.
        heads: number of heads in every layer, or layers of other kinds among them.

    Returns:
        `(paths, paths)`.

    Raises:
        ValueError: a matrix that does not fit the heads or is not positive semi-definite.
    """
    layers = chain(heads)
    matrix = checks.known("order_parameter", order_parameter, "paths paths")
    if matrix.shape != (layers.paths,) * 2:
        raise ValueError(f"order_parameter: wanted shape {(layers.paths,) * 2}, got {matrix.shape}.")
    check_semi_definite("order_parameter", matrix)
    coefficients = layers.path_gains / np.sqrt(layers.divisor)
    return np.outer(coefficients, coefficients) * matrix


def layer_shares(order_parameter: Numbers, *, heads: Layers) -> Float[np.ndarray, " layers"]:
    r"""$\hat s_l = 1 - s_l^0 / \sum_{\pi\pi'} |c_\pi c_{\pi'} U^{\pi\pi'}|$, with the sum $s_l^0$ over pairs that both pass layer $l$ by.

    Args:
        order_parameter: as for `path_weights`.
        heads: as for `path_weights`.

    Returns:
        One a layer: 1 where every path goes through a head of it.

    Raises:
        ValueError: as for `path_weights`.

    Source: ours, equation (R9).
    """
    size, beside = np.abs(path_weights(order_parameter, heads=heads)), chain(heads).path_heads.T < 0
    return np.array([1 - size[np.ix_(along, along)].sum() / size.sum() for along in beside])


def head_shares(order_parameter: Numbers, *, heads: Layers) -> Float[np.ndarray, " heads"]:
    r"""$\hat s_{l,h}$: the share of the pairs of paths that go when a head goes, its score "either" before that is normalised.

    Args:
        order_parameter: as for `path_weights`.
        heads: as for `path_weights`.

    Returns:
        One a head, in the order of `head_indices`.

    Raises:
        ValueError: as for `path_weights`.

    Source: ours, equation (R9).
    """
    size, branches = np.abs(path_weights(order_parameter, heads=heads)), chain(heads).path_heads
    left = [branches[:, layer] != head for layer, head in head_indices(heads)]
    return np.array([1 - size[np.ix_(kept, kept)].sum() / size.sum() for kept in left])


def kernel_shares(weights: Numbers, covariance: Numbers, *, heads: Layers) -> Float[np.ndarray, "3"]:
    r"""How the variance of the output divides up: the path along all skips, pairs through heads in every layer, all other pairs.

    Args:
        weights: of pairs of paths, as of `path_weights`, `(paths, paths)`; all ones where `covariance` is of what the paths add
            to a network's output.
        covariance: $B_{\pi\pi'}$, as of `path_covariance`, `(paths, paths)`.
        heads: as for `path_weights`.

    Returns:
        Three shares, which sum to 1; the last one can be negative.

    Raises:
        ValueError: matrices that do not fit each other or the heads, or are not positive semi-definite.
    """
    layers = chain(heads)
    parts, wanted = (
        [checks.known(name, one, "paths paths") for name, one in (("weights", weights), ("covariance", covariance))],
        (layers.paths,) * 2,
    )
    if any(one.shape != wanted for one in parts):
        raise ValueError(f"weights, covariance: wanted shape {wanted}, got {parts[0].shape} and {parts[1].shape}.")
    for name, one in zip(("weights", "covariance"), parts, strict=True):
        check_semi_definite(name, one)
    whole = parts[0] * parts[1] / np.sum(parts[0] * parts[1])
    skips, through = (layers.path_heads < 0).all(axis=1), (layers.path_heads >= 0).all(axis=1)
    alone, inside = whole[np.ix_(skips, skips)].sum(), whole[np.ix_(through, through)].sum()
    return np.array([alone, inside, 1 - alone - inside])
