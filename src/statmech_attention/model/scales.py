r"""Scales of tokens, the frozen statistics of normalisation layers: their effect on a layer of any kind.

A layer of a chain is a linear map of tokens, $x^l = \Lambda_l(x^{l-1})$, as (2). With a scale
$\lambda^l_t(x) > 0$ a token and layer

    post-norm  x^l = Lambda_l(x^{l-1}) diag(lambda^l)                                        (F1)
    pre-norm   x^l = Lambda_l with x^{l-1} diag(lambda^l) for what passes a value matrix,    (F2)
               and x^{l-1} for the skip

so the branches' matrices are $\Omega^{(h)} \mathrm{diag}(\lambda)$ and $\mathrm{diag}(\lambda)$ for the skip,
or $\mathrm{diag}(\lambda) \Omega^{(h)}$ and the identity. Both follow from `forward` and `attended` of a
kind; no kind knows of scales.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers import Chain, Layer


def token_scales(scales, norm: str, chain: Chain, inputs: Float[Array, "examples tokens features"]) -> list[tuple]:
    """Check `scales` of `attentioned_inputs`; return for every layer those before its value matrices and after it."""
    checks.choice("norm", norm, ("post", "pre"))
    count = len(chain.layers)
    if scales is None:
        return [(None, None)] * count
    wanted = (count, count + 1) if norm == "pre" else (count,)
    if len(checks.several("scales", scales)) not in wanted:
        raise ValueError(
            f"scales: wanted {' or '.join(map(str, wanted))} arrays (examples, tokens) for {count} layers and "
            f"norm={norm!r}, got {len(scales)}. Pre-norm may have one more, for the norm before the readout."
        )
    factors = [_checked(f"scales of layer {number}", scale, inputs) for number, scale in enumerate(scales, start=1)]
    if norm == "post":
        return [(None, factor) for factor in factors]
    last = factors[count] if len(factors) > count else None
    return [(factor, last if number == count else None) for number, factor in enumerate(factors[:count], start=1)]


def scaled_forward(layer: Layer, values, hidden, matrix, before, after) -> Float[Array, "examples tokens width_out"]:
    """`Layer.forward` with scales."""
    if before is None:
        output = layer.forward(values, hidden, matrix)
    else:
        output = layer.forward(values, before[..., None] * hidden, matrix)
        if layer.keeps:  # the layer is linear, and without values it is its skip
            none = jax.tree.map(jnp.zeros_like, values)
            output = output + layer.forward(none, (1 - before)[..., None] * hidden, matrix)
    return output if after is None else after[..., None] * output


def scaled_attended(layer: Layer, columns, matrix, before, after) -> Float[Array, "examples branches partial tokens"]:
    """`Layer.attended` with scales; a pre-norm leaves branches without a value matrix alone."""
    branches = layer.attended(columns if after is None else after[:, None] * columns, matrix)
    if before is None:
        return branches
    mixing, kept = np.asarray(layer.mixing(1.0)) != 0, int(layer.keeps)
    beside, through = mixing[:, :kept].any(axis=1), mixing[:, kept:].any(axis=1)
    if (beside & through).any():
        raise ValueError(f"norm: {layer} mixes its skip with value matrices, of which 'pre' scales the input alone.")
    return jnp.where(beside[None, :, None, None], branches, before[:, None, None] * branches)


def _checked(name: str, scale, inputs) -> Float[Array, "examples tokens"] | None:
    if scale is None:
        return None
    scale = checks.array(name, scale, "examples tokens")
    if scale.shape != inputs.shape[:2] or checks.concrete(scale) and not np.all(np.asarray(scale) > 0):
        raise ValueError(
            f"{name}: wanted positive numbers of shape {inputs.shape[:2]}, got shape {scale.shape} and a smallest one "
            f"of {scale.min()}. Without a norm it is None."
        )
    return scale.astype(inputs.dtype)
