"""The kernel that biases add at infinite width, without paths."""

from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from statmech_attention.model.architecture import variances
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.of_tokens import check_alike, infinite_width


def bias_kernel(
    inputs: TokenInputs, others: TokenInputs, *, variance: ArrayLike | Sequence[ArrayLike] = 1.0
) -> Float[np.ndarray, "examples others"]:
    r"""What biases of unit variance add to $K$; times $\sigma_b^2$ for those of another one.

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
    layers = len(inputs.chain.layers)
    known = variances(variance, layers)
    total = np.zeros((len(inputs.weights), len(others.weights)))

    def add(layer, gram, values):
        nonlocal total
        total = total + (values if layer < layers else 0.0) + (gram if layer else 0.0)

    infinite_width(inputs, others, known, add)
    return known[-1] * others.per_example(inputs.per_example(total).T).T
