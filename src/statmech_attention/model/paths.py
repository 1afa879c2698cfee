"""Attention paths: one branch a layer, a head as a rule, and the inputs seen through them.

Equation (7). A path is $\\pi = (h_1, .., h_L)$; arrays run over all paths with $h_1$ slowest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.layers.chains import Chain, Layers
from statmech_attention.layers.kind import Kind
from statmech_attention.model.attention import Attention
from statmech_attention.model.matrices import chain_and_matrices, check_read_out
from statmech_attention.model.padding import padded, token_weights
from statmech_attention.model.scales import TokenScales, scaled_attended, token_scales


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class AttentionedInputs:
    r"""The attentioned inputs $\xi^\pi(x)$ of (7) with the heads that make up the paths.

    Attributes:
        values: `(examples, paths, features)`, paths with $h_1$ slowest.
        layers: number of heads in every layer, $(H_1, .., H_L)$, or layers of other kinds among them, as in
            `(2, SkipHeads(2), Outputs(3))`; the product of their branches is the number of paths.
    """

    values: Float[Array, "*batch examples paths features"]
    layers: tuple[int | Kind, ...] = field(metadata={"static": True})

    @property
    def chain(self) -> Chain:
        """The layers that `layers` stands for, and the readout."""
        return Chain.of(self.layers)

    @property
    def form(self) -> "AttentionedInputs":
        """The same inputs for what is compiled: value dimensions of heads are left out, for which nothing is compiled again."""
        return AttentionedInputs(self.values, self.chain.form.spelled)

    def keep_heads(self, kept: Sequence[Sequence[int]]) -> "AttentionedInputs":
        """The same inputs seen by the sub-network that has only some of the heads.

        Args:
            kept: for every layer the heads that stay, as in `((0, 1), (0,))`; `()` for a layer without heads.

        Returns:
            Attentioned inputs of the smaller network, its heads in the order given.

        Raises:
            ValueError: a layer that lets nothing through, a head that is not there, or a head named twice.
        """
        whole = self.chain
        smaller, parts = whole.keep(kept)
        grid = np.arange(whole.paths).reshape(whole.branches)[np.ix_(*(part.branches for part in parts))]
        return AttentionedInputs(self.values[..., grid.ravel(), :], smaller.spelled)


def attentioned_inputs(
    inputs: ArrayLike,
    attention: Attention,
    *,
    layers: Layers | None = None,
    readout: str | int = "last",
    scales: Sequence[ArrayLike | None] | None = None,
    norm: str = "post",
    layout: str = "key_query",
    mask: ArrayLike | None = None,
) -> AttentionedInputs:
    r"""$\xi^\pi(x) = [\,x\,\Omega^{(1,h_1)} \Omega^{(2,h_2)} \cdots \Omega^{(L,h_L)}\,]_{t^*}$, equation (7).

    With norms whose statistics are frozen every $\Omega$ has a diagonal matrix of scales beside it:
    $\Omega^{(l,h)} \mathrm{diag}(r^l)$ with post-norm, (F1), $\mathrm{diag}(r^l)\, \Omega^{(l,h)}$ with pre-norm, (F2).

    Args:
        inputs: `(examples, tokens, features)`, the tokens $x_t$ as rows; or one array `(tokens, features)` an example, of
            unequal lengths.
        attention: anything `attention_matrices` takes.
        layers: the layers, as in `(2, SkipHeads(2), Linear(), Outputs(3))`, where they are not of heads alone. Attention
            matrices go in turn to those that have heads. A layer without attention, and a skip, lets $x$ pass as it is.
        readout: the token $t^*$ that is read out: "first", "last", an index, or "mean" over all tokens. Padding is none of
            them: "last" is an example's own last token.
        scales: $r^l_t(x) > 0$, one over what the norms of a network divide the tokens by, as from `normalisation_scales`:
            one array `(examples, tokens)` a layer, None for a layer without a norm. With pre-norm there may be one more, of
            a norm before the readout. A norm below the first layer, as of an embedding, scales the inputs. Gains that the
            norms have learned belong to the prior of the values above them, biases are left out.
        norm: "post" where a norm follows the layer, skip included, as in BERT; "pre" where it comes before the heads, beside
            the skip, as in GPT-2.
        layout: "query_key" for matrices as PyTorch and Hugging Face have them; see `attention_matrices`.
        mask: `(examples, tokens)`, true where there is a token; see `attention_matrices`.

    Returns:
        `AttentionedInputs` with values `(examples, paths, features)`. Of a smaller network, `keep_heads`, the scales are those
        of the whole one.

    Raises:
        ValueError: wrong shapes, NaN or infinity, an unknown readout or norm, scales that are not positive, a token that is
            read out though it attends to nothing, as padding without `mask` does.

    Source: Tiberi et al. (2024), equations (7) and (23). The cost is that of the readout's column
    alone, $O(\mathrm{tokens}^2)$ a path, since the product is taken from the right.
    """
    inputs, mask = padded(inputs, mask)
    chain, matrices = chain_and_matrices(inputs, attention, layers, layout, mask)
    weights = token_weights(readout, mask, *inputs.shape[:2])
    check_read_out(attention, matrices, weights)
    around = token_scales(scales, norm, chain, inputs)
    return AttentionedInputs(_seen(inputs, matrices, weights, around, chain.form), chain.spelled)


@quick_jit(static=("chain",))
def _seen(inputs, matrices, weights, around: TokenScales, chain):
    columns = weights.astype(inputs.dtype)[:, None]
    for layer, *own in reversed(list(zip(chain.layers, matrices, *around, strict=True))):
        columns = scaled_attended(layer, columns, *own).reshape(inputs.shape[0], -1, inputs.shape[1])
    return jnp.einsum("eds,esi->edi", columns, inputs)


def path_indices(layers: Layers) -> Int[np.ndarray, "paths layers"]:
    """The heads $(h_1, .., h_L)$ of every path in array order, counted from 0; -1 where a path passes through none.

    Args:
        layers: number of heads in every layer, or layers of other kinds among them.

    Returns:
        `(paths, layers)` whole numbers.

    Raises:
        ValueError: a layer without heads, or no layer.
    """
    return Chain.of(layers).path_heads


def as_attentioned(name: str, value, layers=None) -> AttentionedInputs:
    """`value` checked, in float64: `AttentionedInputs` as they are, plain arrays with their `layers`."""
    own = value.layers if isinstance(value, AttentionedInputs) else None
    values = checks.array(name, value if own is None else value.values, "examples paths features", double=True)
    if own is not None and layers is not None and Chain.of(layers) != value.chain:
        raise ValueError(f"layers: {name} already has layers {own}, got {layers!r}. Leave layers out.")
    chain = Chain.of(layers if own is None else own)
    checks.same(name, "the paths axis", values.shape[1], f"the paths of layers={chain.spelled}", chain.paths)
    return AttentionedInputs(values, chain.spelled)
