"""The network itself: weights, layer-by-layer forward pass, effective weights, (1) to (6)."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers
from statmech_attention.layers.kind import Narrow, mixed, root, seeds_from
from statmech_attention.layers.kinds import Heads
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.attention import Attention, chain_and_matrices
from statmech_attention.model.inputs import padded, token_weights
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.model.scales import scaled_forward, token_scales


class Weights(NamedTuple):
    """Learned weights of (8), without queries and keys.

    Attributes:
        projection: $V^{(0)}$, `(N_1, features)`.
        values: $V^{(l,h)}$, one array `(matrices, N_{l+1}, N_l)` per layer; of heads with a value
            dimension $d$ the pair `Narrow(values, outputs)` of $V^{(l,h)}$, `(H_l, d, N_l)`, and
            $O^{(l,h)}$, `(H_l, N_{l+1}, d)`.
        readout: $a$, `(N_{L+1},)`, or `(N_{L+1}, outputs)`.
    """

    projection: Float[Array, "*batch width_in features"]
    values: tuple[Float[Array, "*batch _heads _width_out _width_in"] | Narrow, ...]
    readout: Float[Array, "..."]


def sample_weights(
    *,
    key: checks.Key,
    width: ArrayLike | Sequence[ArrayLike],
    variance: ArrayLike | Sequence[ArrayLike] = 1.0,
    layers: Layers,
    features: int,
) -> Weights:
    r"""Draw weights from the prior, entries $\mathcal N(0, \sigma_l^2)$; for `Narrow` $\mathcal N(0, \sigma_l)$.

    Args:
        key: a JAX random key.
        width: $N$, or one whole number per layer, $(N_1, .., N_{L+1})$.
        variance: $\sigma^2$, or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        layers: $(H_1, .., H_L)$, or layers of other kinds among them.
        features: $N_0$.
    """
    architecture, features = Architecture.of(layers, width, variance), checks.whole("features", features)
    widths, chain = [checks.whole("width", number) for number in architecture.widths], architecture.chain
    keys = jax.random.split(checks.key("key", key), len(chain.layers) + 2)
    scales = np.sqrt(np.asarray(architecture.variances))

    def drawn(key, shape, scale):
        if not isinstance(shape, Narrow):
            # Flat: to compile a draw takes longer with every axis, and the numbers are the same.
            return (scale * jax.random.normal(key, (math.prod(shape),))).reshape(shape)
        return Narrow(*(drawn(*pair, np.sqrt(scale)) for pair in zip(jax.random.split(key), shape, strict=True)))

    values = tuple(
        drawn(keys[place + 1], layer.weight_shapes(widths[place], widths[place + 1]), scales[place + 1])
        for place, layer in enumerate(chain.layers)
    )
    projection = drawn(keys[0], (widths[0], features), scales[0])
    return Weights(projection, values, drawn(keys[-1], (widths[-1], *chain.readout.axes), scales[-1]))


@jax.jit
def scaled(weights: Weights, variances) -> Weights:
    """Every array times its standard deviation."""
    arrays, shape = jax.tree.flatten(weights)
    pairs = zip(variances, arrays, strict=True)
    return jax.tree.unflatten(shape, [variance**0.5 * array for variance, array in pairs])


def forward(
    weights: Weights,
    inputs: ArrayLike,
    attention: Attention,
    *,
    layers: Layers | None = None,
    readout: str | int = "last",
    scales: Sequence[ArrayLike | None] | None = None,
    norm: str = "post",
    mask: ArrayLike | None = None,
    gates: Sequence[ArrayLike] | None = None,
) -> Float[Array, "examples *outputs"]:
    r"""The network's output $f(x)$, layer by layer: equations (1), (2), (4).

    $x^0 = V^{(0)} x / \sqrt{N_0}$,
    $x^l = \frac{1}{\sqrt{N_l H_l}} \sum_h V^{(l,h)} x^{l-1} \Omega^{(l,h)}$,
    $f = a \cdot x^L_{t^*} / \sqrt{N_{L+1}}$.

    Args:
        weights: `Weights`.
        inputs, attention, layers, readout, scales, norm, mask, gates: as in `attentioned_inputs`.

    Returns:
        `(examples,)`, or `(examples, outputs)`.
    """
    inputs, mask = padded(inputs, mask)
    chain, matrices = chain_and_matrices(inputs, attention, layers, mask=mask, gates=gates)
    check_fit(weights, inputs.shape[2], chain)
    norms = token_scales(scales, norm, chain, inputs)
    hidden = inputs @ weights.projection.T / root(inputs.shape[2])
    for layer, values, matrix, (before, after) in zip(chain.layers, weights.values, matrices, norms, strict=True):
        hidden = scaled_forward(layer, values, hidden, matrix, before, after)
    tokens = token_weights(readout, mask, *inputs.shape[:2])
    read = jnp.einsum("et,etm->em", tokens.astype(hidden.dtype), hidden)
    return read @ weights.readout / root(weights.readout.shape[0])


def effective_weights(weights: Weights, *, layers: Layers | None = None) -> Float[Array, "paths width"]:
    r"""$w^\pi = (N_{L+1} \cdots N_2)^{-1/2}\, a^\top V^{(L,h_L)} \cdots V^{(1,h_1)}$, equation (6), `(paths, N_1)`.

    Each output is another path. `layers` only if not all are of heads alone.
    """
    return stage_weights(weights, _chain_of(weights, layers))[0]


def forward_paths(weights: Weights, attentioned: AttentionedInputs) -> Float[Array, "examples *outputs"]:
    r"""The output of `forward` in path form,
    $f = (N_1 N_0 \prod_l H_l)^{-1/2} \sum_\pi w^\pi \cdot V^{(0)} \xi^\pi(x)$, (5).
    """
    vectors = path_vectors(weights, attentioned)
    return jnp.einsum("epi,p...i->e...", attentioned.values, vectors)


def path_vectors(weights: Weights, attentioned: AttentionedInputs) -> Float[Array, "paths *outputs_features"]:
    """Vectors of the attentioned inputs in (5), `(paths, features)` or `(paths, outputs, features)`."""
    checks.instance("attentioned", attentioned, AttentionedInputs)
    chain, features = attentioned.chain, attentioned.values.shape[-1]
    check_fit(weights, features, chain)
    rows = stage_weights(weights, chain)[0] @ weights.projection
    rows = rows / root(weights.projection.shape[0] * features * chain.divisor)
    rows = rows.reshape(chain.paths, chain.outputs, features)
    gains = jnp.asarray(chain.path_gains, rows.dtype)[:, None, None]
    return (gains * rows).reshape(chain.paths, *chain.readout.axes, features)


def weights_order_parameters(weights: Weights, *, layers: Layers | None = None) -> tuple[Float[Array, "..."], ...]:
    r"""$U^{(l)}_{\pi\pi'} = w^\pi \cdot w^{\pi'} / N_l$ of one weight configuration, the bracket of (13).

    Args:
        weights: `Weights`.
        layers: only if not all are of heads alone.

    Returns:
        $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$ as in `Solution.order_parameters`, among them the
        $G^{(l)}_h = g^h \cdot g^h / d$ of heads with a value dimension.
    """
    chain = _chain_of(weights, layers)
    overlaps = [partial @ partial.mT / partial.shape[-1] for partial in stage_weights(weights, chain)]
    return (*overlaps[:-1], overlaps[-1].reshape(2 * chain.readout.axes))


def stage_weights(weights: Weights, chain: Chain, root=root) -> list:
    """Effective weights of the partial paths from layer 1, 2, .. up, each before its inner stage's."""
    rows = weights.readout.reshape(weights.readout.shape[0], -1).T
    stages = [rows]
    for layer, values in zip(reversed(chain.layers), reversed(weights.values), strict=True):
        seeds, *inner = seeds_from(rows, values, root)
        if layer.keeps:
            seeds = jnp.concatenate([rows[None], seeds])
        rows = mixed(layer.mixing(1.0), seeds).reshape(-1, values.shape[2])
        stages = [rows, *inner, *stages]
    return stages


def plain_layers(values) -> tuple:
    """The layers that values belong to where they are of heads alone."""
    return tuple(
        Heads(layer.shape[-3], values=layer.values.shape[-2]) if isinstance(layer, Narrow) else layer.shape[-3]
        for layer in values
    )


def _chain_of(weights: Weights, layers) -> Chain:
    """The chain of `layers`, or one of heads alone."""
    checks.instance("weights", weights, Weights)
    chain = Chain.of(plain_layers(weights.values) if layers is None else layers)
    check_fit(weights, weights.projection.shape[1], chain)
    return chain


def check_fit(weights: Weights, features: int, chain: Chain) -> None:
    """Raise ValueError unless the weights are of these layers and features."""
    axes = chain.readout.axes
    checks.instance("weights", weights, Weights)
    widths = [weights.projection.shape[0], *(values.shape[1] for values in weights.values)]
    pairs = zip(chain.layers, pairwise(widths), strict=False)
    values = tuple(layer.weight_shapes(*pair) for layer, pair in pairs)
    wanted = (widths[0], features), values, (widths[-1], *axes)
    got = tuple(jax.tree.map(lambda block: tuple(block.shape), weights))
    if got != wanted:
        raise ValueError(f"weights: wanted shapes {wanted} for layers={chain.shorthand}, got {got}.")
