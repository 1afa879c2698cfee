"""The statistics of normalisation layers, read off a network so that they can be frozen."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.layers.kind import root
from statmech_attention.model.attention import Attention, chain_and_matrices
from statmech_attention.model.inputs import padded
from statmech_attention.model.network import Weights, check_fit
from statmech_attention.model.scales import scaled_forward


def normalisation_scales(
    weights: Weights,
    inputs: ArrayLike,
    attention: Attention,
    *,
    layers: Layers | None = None,
    norm: str = "post",
    epsilon: float = 0.0,
    layout: str = "key_query",
    mask: ArrayLike | None = None,
    gates: Sequence[ArrayLike] | None = None,
) -> tuple[Float[Array, "examples tokens"], ...]:
    r"""$\lambda^l_t(x) = \big(\frac1N \sum_i (z^l_{it})^2 + \epsilon\big)^{-1/2}$, one over the divisors of its norms.

    $z^l$ enters the norm of layer $l$ in the network with the norms below applied: the layer's
    output with post-norm; its input with pre-norm, and at last the input of the readout. With these
    scales `forward` is the network with root mean square norms. Layer norms also subtract the mean
    over $i$, a projection $\Pi$ that the weights can contain: $\Pi V^{(0)}$, $\Pi V^{(l,h)} \Pi$, $\Pi a$.

    Args:
        weights: `Weights`, of a trained network or drawn.
        inputs, attention, layout, mask, layers, gates: as in `attentioned_inputs`.
        norm: "post" or "pre".
        epsilon: $\epsilon \ge 0$ of the network's norms; transformers have 1e-12 to 1e-5.

    Returns:
        One array `(examples, tokens)` per layer, 1 on padding; with pre-norm one more for the norm
        before the readout.

    Raises:
        ValueError: as `forward`; a token of zeros with epsilon 0.

    Source: Ba, Kiros, Hinton, arXiv:1607.06450 (2016); Zhang, Sennrich, NeurIPS (2019).
    """
    inputs, mask = padded(inputs, mask)
    chain, matrices = chain_and_matrices(inputs, attention, layers, layout, mask, gates)
    check_fit(weights, inputs.shape[2], chain)
    checks.choice("norm", norm, ("post", "pre"))
    hidden = inputs @ weights.projection.T / root(inputs.shape[2])
    scales: list[Array] = []
    for layer, values, matrix in zip(chain.layers, weights.values, matrices, strict=True):
        if norm == "pre":
            scales.append(_scale(hidden, epsilon, mask, len(scales) + 1))
            hidden = scaled_forward(layer, values, hidden, matrix, scales[-1], None)
        else:
            hidden = scaled_forward(layer, values, hidden, matrix, None, None)
            scales.append(_scale(hidden, epsilon, mask, len(scales) + 1))
            hidden = scales[-1][..., None] * hidden
    return (*scales, _scale(hidden, epsilon, mask, len(scales) + 1)) if norm == "pre" else tuple(scales)


def _scale(hidden, epsilon, mask, norm: int) -> Float[Array, "examples tokens"]:
    squares = jnp.mean(hidden**2, axis=-1) + epsilon
    squares = squares if mask is None else jnp.where(mask, squares, 1)
    if checks.concrete(squares) and not np.all(np.asarray(squares) > 0):
        raise ValueError(
            f"epsilon: norm number {norm} meets a token of zeros, which has no scale. Pass mask= where it is padding, "
            "else the epsilon of the network's norms, as in 1e-5."
        )
    return 1 / jnp.sqrt(squares)
