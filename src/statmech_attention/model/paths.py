"""Attention paths, with one branch in each layer, and the inputs seen through them.

Equation (7). A path is $\\pi = (h_1, .., h_L)$; arrays run over all paths with $h_1$ slowest.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from statmech_attention.model.given import Given, given_parts
from statmech_attention.model.inputs import ReadAttention
from statmech_attention.model.scales import scaled_attended

MOST_PATHS = 10_000  # whose order parameter has 10^8 entries


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class AttentionedInputs:
    r"""The attentioned inputs $\xi^\pi(x)$ of (7) and the layers that make up the paths.

    Attributes:
        values: `(examples, paths, features)`, paths with $h_1$ slowest.
        chain: the layers and the readout.
    """

    values: Float[Array, "*batches examples paths features"]
    chain: Any = field(metadata={"static": True})  # a Chain, made of whatever `layers` may be

    def __post_init__(self):
        object.__setattr__(self, "chain", Chain.of(self.chain))

    def __len__(self) -> int:
        """Number of examples."""
        return self.values.shape[-3]

    @property
    def layers(self) -> tuple[int | Kind, ...]:
        """$(H_1, .., H_L)$, or layers of other kinds among them, as in `(2, SkipHeads(2), Outputs(3))`."""
        return self.chain.shorthand

    def keep_heads(self, kept: Sequence[Sequence[int]]) -> "AttentionedInputs":
        """Return the inputs of the sub-network that has only some of the heads.

        Args:
            kept: for every layer the heads that stay, as in `((0, 1), (0,))`; `()` for a layer
                without heads.

        Returns:
            Attentioned inputs of the smaller network, its heads in the order given.

        Raises:
            ValueError: a layer that lets nothing through, a head that is not there, or a head named
                twice.
        """
        whole = self.chain
        smaller, parts = whole.keep(kept)
        grid = np.arange(whole.paths).reshape(whole.branches)[np.ix_(*(part.branches for part in parts))]
        return AttentionedInputs(self.values[..., grid.ravel(), :], smaller)


def attentioned_inputs(
    inputs: ArrayLike | ReadAttention | Iterable[ReadAttention],
    attention: Attention | None = None,
    *,
    layers: Layers | None = None,
    readout: str | int = "last",
    scales: Sequence[ArrayLike | None] | None = None,
    norm: str = "post",
    layout: str = "key_query",
    mask: ArrayLike | None = None,
    gates: Sequence[ArrayLike] | None = None,
) -> AttentionedInputs:
    r"""$\xi^\pi(x) = [\,x\,\Omega^{(1,h_1)} \Omega^{(2,h_2)} \cdots \Omega^{(L,h_L)}\,]_{t^*}$, equation (7).

    With frozen norms $\Omega^{(l,h)} \mathrm{diag}(\lambda^l)$ replaces $\Omega^{(l,h)}$, (F1), or
    $\mathrm{diag}(\lambda^l)\, \Omega^{(l,h)}$ with pre-norm, (F2).

    Args:
        inputs: `(examples, tokens, features)`, or one array `(tokens, features)` per example of
            unequal lengths; or what `attention_from_torch` and `attention_from_transformers`
            return, which brings attention and mask, of one batch or of several in a list.
        attention, layout, mask: as in `attention_matrices`.
        layers: only if not all are of heads alone, as in `(2, SkipHeads(2), Linear(), Outputs(3))`.
            Attention matrices belong in turn to the layers with heads.
        readout: the token $t^*$: "first", "last", an index, or "mean" over all tokens, padding not
            counted.
        scales: $\lambda^l_t(x) > 0$, one over the divisors of the norms, as from `normalisation_scales`:
            one array `(examples, tokens)` per layer, None for a layer without a norm; with pre-norm
            there may be one more, for a norm before the readout.
        norm: "post" if a norm follows the layer, skip included, as in BERT; "pre" if it comes
            before the heads, beside the skip, as in GPT-2.
        gates: $g^m_t(x)$, one array `(examples, tokens, units)` for every `Gated` layer, in turn.

    Returns:
        `AttentionedInputs` with values `(examples, paths, features)`.

    Raises:
        ValueError: wrong shapes, NaN or infinity, an unknown readout or norm, scales that are not
            positive, matrices whose columns do not sum to one, as padding without `mask`; more than
            10,000 paths, for which there is `token_inputs`.

    Source: Tiberi et al. (2024), equations (7) and (23). The product is taken from the right, for
    the readout's column alone: $O(\mathrm{tokens}^2)$ per path.
    """
    options: dict[str, Any] = {"layers": layers, "readout": readout, "scales": scales, "norm": norm}
    parts = [_seen(part) for part in given_parts(inputs, attention, gates, layout=layout, mask=mask, **options)]
    if len(parts) == 1:
        return parts[0]
    return AttentionedInputs(jnp.asarray(np.concatenate([part.values for part in parts])), parts[0].chain)


def _seen(given: Given) -> AttentionedInputs:
    chain = given.chain
    if chain.paths > MOST_PATHS:
        raise ValueError(
            f"layers: wanted at most {MOST_PATHS} paths, got {chain.paths} through {len(chain.layers)} layers. Take "
            "token_inputs with the same arguments, which does not count them."
        )
    values = _path_product(given.inputs, given.matrices, given.weights, given.norms, chain.skeleton)
    return AttentionedInputs(values, chain)


@quick_jit(static=("chain",))
def _path_product(inputs, matrices, weights, norms, chain):
    columns = weights.astype(inputs.dtype)[:, None]
    for layer, matrix, (before, after) in reversed(list(zip(chain.layers, matrices, norms, strict=True))):
        columns = scaled_attended(layer, columns, matrix, before, after)
        columns = columns.reshape(inputs.shape[0], -1, inputs.shape[1])
    return jnp.einsum("eds,esi->edi", columns, inputs)


def path_indices(*, layers: Layers) -> Int[np.ndarray, "paths layers"]:
    """The heads $(h_1, .., h_L)$ of every path in array order, counted from 0; -1 for a path through none."""
    return Chain.of(layers).path_heads


def as_attentioned(name: str, value, layers=None) -> AttentionedInputs:
    """Check `value` and convert it to float64: `AttentionedInputs`, or an array with its `layers`."""
    known = isinstance(value, AttentionedInputs)
    values = checks.array(name, value.values if known else value, "examples paths features", double=True)
    if known and layers is not None and Chain.of(layers) != value.chain:
        raise ValueError(f"layers: {name} already has layers {value.layers}, got {layers!r}. Leave layers out.")
    chain = value.chain if known else Chain.of(layers)
    checks.same(name, "the paths axis", values.shape[1], f"the paths of layers={chain.shorthand}", chain.paths)
    return AttentionedInputs(values, chain)
