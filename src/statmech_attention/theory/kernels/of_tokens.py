r"""The kernel of infinite width without paths, by the recursion (K3), and the kernel of biases."""

from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from statmech_attention.layers.chains import Chain
from statmech_attention.model.architecture import variances
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.in_blocks import biases_in_blocks, kernel_in_blocks


def kernel_of_tokens(
    inputs: TokenInputs, others, variance, single: bool = False
) -> Float[np.ndarray, "examples others"]:
    r"""$K$ of infinite width for any number of paths, (K2) and (K3); of one of several outputs.

    From the readout $G_{L+1} = \sigma_a^2 \omega \omega^\top$ down, in general
    $G_l = \sigma_l^2 \sum_s B_s G_{l+1} B_s^\top$; for heads,

        G_l = sigma_l^2 / H_l sum_h Omega_h G_{l+1} Omega_h^T  (+ G_{l+1} beside a skip),
        G_l = sigma_l^2 / M sum_m g_m g_m^T o G_{l+1} + G_{l+1}     (gated units beside a skip),
        K   = sigma_0^2 / N_0 sum_ts x_t . x_s G_1[t, s].
    """
    check_alike(inputs, others, "others")
    known = variances(variance, len(inputs.chain.layers))
    return known[-1] * kernel_in_blocks(inputs, others, known, single=single)


def check_alike(inputs: TokenInputs, others: TokenInputs, name: str) -> None:
    """Raise ValueError unless both are inputs of the same network."""
    if not (isinstance(inputs, TokenInputs) and isinstance(others, TokenInputs)):
        raise ValueError(f"{name}: wanted token_inputs, got {type(others).__name__} beside {type(inputs).__name__}.")
    check_network(others, inputs.chain, inputs.tokens.shape[1], name)


def check_network(inputs: TokenInputs, chain: Chain, features: int, name: str) -> None:
    """Raise ValueError unless these are inputs of a network of these layers and so many features."""
    if inputs.chain != chain or inputs.tokens.shape[1] != features:
        raise ValueError(
            f"{name}: wanted layers {chain.shorthand} and {features} features as in training, got "
            f"{inputs.layers} and {inputs.tokens.shape[1]}."
        )


def bias_kernel(
    inputs: TokenInputs, others: TokenInputs, *, variance: ArrayLike | Sequence[ArrayLike] = 1.0
) -> Float[np.ndarray, "examples others"]:
    r"""Kernel of biases of unit variance, which they add to $K$; times $\sigma_b^2$ for those of another one.

    A bias is the same at all tokens. With $C_l$ the part of (K3) that passes the values of layer $l$,

        K_b = sum_l sum_ts (C_l + G_{l+1})[mu t, nu s],

    the first for vectors of independent entries added to what enters the values of a layer, before the scale of
    a pre-norm, and the second for vectors added to what leaves the layer and its post-norm. Tokens may have a
    constant feature besides, for a bias of the projection.

    Args:
        inputs, others: from `token_inputs`, of the same chain.
        variance: as in `kernel`.

    Source: ours; with frozen attention and gates a bias is one more feature.
    """
    check_alike(inputs, others, "others")
    known = variances(variance, len(inputs.chain.layers))
    return known[-1] * biases_in_blocks(inputs, others, known)
