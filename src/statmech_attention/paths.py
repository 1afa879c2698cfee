"""Attention paths: one head a layer, and the inputs seen through them.

Equation (7). A path is $\\pi = (h_1, .., h_L)$; arrays run over all paths with $h_1$ slowest.
"""

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from statmech_attention import _checks
from statmech_attention.attention import attention_matrices


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AttentionedInputs:
    r"""The attentioned inputs $\xi^\pi(x)$ of (7) with the heads that make up the paths.

    Attributes:
        values: `(examples, paths, features)`, paths with $h_1$ slowest.
        heads: number of heads in every layer, $(H_1, .., H_L)$; their product is the number of paths.
    """

    values: Float[Array, "*batch examples paths features"]
    heads: tuple[int, ...] = field(metadata={"static": True})

    def keep_heads(self, kept) -> "AttentionedInputs":
        """The same inputs seen by the sub-network that has only some of the heads.

        Args:
            kept: for every layer the heads that stay, as in `((0, 1), (0,))`.

        Returns:
            Attentioned inputs of the smaller network, its heads in the order given.

        Raises:
            ValueError: a layer without a head, a head that is not there, or a head named twice.
        """
        if not all(hasattr(chosen, "__len__") for chosen in kept):
            raise ValueError(f"kept: wanted a list of heads for every layer, as in ((0, 1), (0,)), got {kept!r}.")
        if len(kept) != len(self.heads):
            raise ValueError(f"kept: wanted the heads of {len(self.heads)} layers, got {len(kept)}.")
        for layer, (chosen, count) in enumerate(zip(kept, self.heads, strict=True), start=1):
            if not len(chosen) or len(set(chosen)) != len(chosen) or not all(0 <= head < count for head in chosen):
                raise ValueError(
                    f"kept, layer {layer}: wanted different heads out of 0..{count - 1}, at least one, got {tuple(chosen)}."
                )
        grid = np.arange(math.prod(self.heads)).reshape(self.heads)[np.ix_(*kept)]
        return AttentionedInputs(self.values[..., grid.ravel(), :], grid.shape)


def attentioned_inputs(inputs, attention, readout="last") -> AttentionedInputs:
    r"""$\xi^\pi(x) = [\,x\,\Omega^{(1,h_1)} \Omega^{(2,h_2)} \cdots \Omega^{(L,h_L)}\,]_{t^*}$, equation (7).

    Args:
        inputs: `(examples, tokens, features)`, the tokens $x_t$ as rows.
        attention: anything `attention_matrices` takes.
        readout: the token $t^*$ that is read out: "first", "last", an index, or "mean" over all tokens.

    Returns:
        `AttentionedInputs` with values `(examples, paths, features)`.

    Raises:
        ValueError: wrong shapes, NaN or infinity, an unknown readout.

    Source: Tiberi et al. (2024), equations (7) and (23). The cost is that of the readout's column
    alone, $O(\mathrm{tokens}^2)$ a path, since the product is taken from the right.
    """
    inputs = _checks.array("inputs", inputs, "examples tokens features")
    matrices = attention_matrices(inputs, attention)
    weights = readout_weights(readout, inputs.shape[1]).astype(inputs.dtype)
    columns = jnp.broadcast_to(weights, (inputs.shape[0], 1, inputs.shape[1]))
    for matrix in reversed(matrices):
        columns = jnp.einsum("ehst,edt->ehds", matrix, columns)
        columns = columns.reshape(inputs.shape[0], -1, inputs.shape[1])
    return AttentionedInputs(jnp.einsum("eds,esi->edi", columns, inputs), tuple(matrix.shape[1] for matrix in matrices))


def readout_weights(readout, tokens: int) -> Float[Array, " tokens"]:
    r"""How much each token counts at the readout $t^*$ of (4): one of them, or all alike.

    Args:
        readout: "first", "last", a token's index, or "mean".
        tokens: number of tokens.

    Returns:
        `(tokens,)` weights that sum to one.

    Raises:
        ValueError: an unknown readout or an index outside the sequence.
    """
    if readout == "mean":
        return jnp.full(tokens, 1 / tokens)
    index = {"first": 0, "last": tokens - 1}[readout] if readout in ("first", "last") else readout
    if isinstance(index, (bool, str)) or not isinstance(index, (int, np.integer)) or not 0 <= index < tokens:
        raise ValueError(f"readout: wanted 'first', 'last', 'mean' or an index in 0..{tokens - 1}, got {readout!r}.")
    return jnp.zeros(tokens).at[index].set(1.0)


def path_indices(heads) -> Int[np.ndarray, "paths layers"]:
    """The heads $(h_1, .., h_L)$ of every path in array order, counted from 0.

    Args:
        heads: number of heads in every layer.

    Returns:
        `(paths, layers)` whole numbers.

    Raises:
        ValueError: a layer without heads, or no layer.
    """
    heads = _checks.heads(heads)
    return np.stack(np.unravel_index(np.arange(math.prod(heads)), heads), axis=-1)


def as_attentioned(name: str, value, heads=None) -> AttentionedInputs:
    """`value` checked, in float64: `AttentionedInputs` as they are, plain arrays with their `heads`."""
    if isinstance(value, AttentionedInputs):
        if heads is not None and _checks.heads(heads) != value.heads:
            raise ValueError(f"heads: {name} already has heads {value.heads}, got {heads!r}. Leave heads out.")
        heads, value = value.heads, value.values
    heads = _checks.heads(heads)
    value = _checks.array(name, value, "examples paths features", double=True)
    _checks.same(name, "the paths axis", value.shape[1], f"the paths of heads={heads}", math.prod(heads))
    return AttentionedInputs(value, heads)
