"""The kernel of two sets of examples, along paths or on tokens."""

from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Layers
from statmech_attention.model.architecture import variances
from statmech_attention.model.paths import AttentionedInputs, as_attentioned
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.of_paths import inputs_like, kernel_of_paths
from statmech_attention.theory.kernels.of_tokens import kernel_of_tokens
from statmech_attention.theory.kernels.projected import ProjectedInputs, kernel_of_components


def kernel(
    inputs: AttentionedInputs | TokenInputs | ProjectedInputs | ArrayLike,
    others: AttentionedInputs | TokenInputs | ProjectedInputs | ArrayLike,
    order_parameter: ArrayLike | None = None,
    *,
    variance: ArrayLike | Sequence[ArrayLike] = 1.0,
    layers: Layers | None = None,
    single: bool = False,
) -> Float[Array | np.ndarray, "examples *others"]:
    r"""$\kappa(x, x') = \frac{\sigma_0^2}{\prod_l H_l} \sum_{\pi\pi'} U^{\pi\pi'} C_{\pi\pi'}(x, x')$, equation (10).

    In general the sum is $\sum c_\pi c_{\pi'} U^{\pi\pi'} C_{\pi\pi'}$ with the coefficients of the paths,
    $(\prod_l H_l)^{-1/2}$ for heads alone; with several outputs $K_{(c\mu),(c'\nu)}$ has
    $U^{(\pi c)(\pi' c')}$ in it. Without an order parameter it is the kernel of infinite width, for
    `token_inputs` by (K2) and (K3), without paths; blocks of examples can be given one by one. What a
    projection sees has (Z2), with what is left out of the diagonal if both arguments are the same.

    Args:
        inputs: `AttentionedInputs`, an array `(examples, paths, features)` with `layers`, or `TokenInputs`.
        others: the same for the second argument of the kernel.
        order_parameter: $U$, `(paths, paths)`, symmetric; with a row per path and output. None for infinite width.
        variance: $\sigma^2$, or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$; with an order
            parameter only the first matters.
        layers: only for plain arrays, $(H_1, .., H_L)$.
        single: on `token_inputs`, numbers of single precision within, twice as fast on an accelerator. It moved
            log evidences by at most 1e-5 nats down to $T = 0.001$.

    Returns:
        `(examples, others)`, or `(examples, outputs, others, outputs)`.

    Source: Tiberi et al. (2024), equations (10) and (31); (K3) is ours.
    """
    if isinstance(inputs, (TokenInputs, ProjectedInputs)):
        if order_parameter is not None:
            raise ValueError("order_parameter: tokens have no paths. Leave it out, or take attentioned_inputs.")
        plain, chain = _at_infinite_width(inputs, others, variance, single), inputs.chain
        return np.einsum("ep,cd->ecpd", plain, np.eye(chain.outputs)) if chain.readout.axes else plain
    left = as_attentioned("inputs", inputs, layers)
    return kernel_of_paths(left, inputs_like("others", others, left), order_parameter, variance)


def _at_infinite_width(inputs, others, variance, single) -> Float[Array | np.ndarray, "examples others"]:
    single = checks.flag("single", single)
    if isinstance(inputs, TokenInputs):
        return kernel_of_tokens(inputs, others, variance, single)
    if not isinstance(others, ProjectedInputs) or not others.projection.agrees(inputs.projection):
        raise ValueError("others: wanted inputs seen by the same projection.")
    known = variances(variance, len(inputs.chain.layers))
    inputs.projection.check_variances(known)
    return known[0] * known[-1] * np.asarray(kernel_of_components(inputs, others))
