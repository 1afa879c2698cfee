r"""Head pruning: scores of heads from the order parameter, and networks that really lack the heads removed.

Section 4.2 of Tiberi et al. (2024). Heads are numbered through the network, those of layer 1 first, see `head_indices`.
The other importances of a head, and what a removal costs, follow from the contributions of the paths alone: a gate $g$
on every head makes the output $f(x) = \sum_\pi g^{(1,h_1)} \cdots g^{(L,h_L)}\, v^\pi \cdot \xi^\pi(x)$.
"""

import math
from dataclasses import replace
from typing import TypeVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers.chains import chain
from statmech_attention.model.attention import ProductAttention, QueryKeyAttention
from statmech_attention.model.network import Weights, path_vectors
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.heads import head_indices, heads_left, kept_heads, path_heads
from statmech_attention.pruning.importance import head_weight_norms, rank_correlation, taylor_importance
from statmech_attention.pruning.removal import (
    Measured,
    greedy_order,
    head_drops,
    masked_outputs,
    pruning_curve,
    removal_order,
)
from statmech_attention.training.network import TrainedNetwork

__all__ = [
    "Measured",
    "greedy_order",
    "head_drops",
    "head_indices",
    "head_scores",
    "head_weight_norms",
    "heads_left",
    "masked_outputs",
    "path_contributions",
    "path_covariance",
    "prune",
    "pruning_curve",
    "rank_correlation",
    "removal_order",
    "taylor_importance",
]

DEFINITIONS = ("both", "either")

_Network = TypeVar("_Network")


def head_scores(order_parameter, heads, kind: str = "both") -> Float[Array, " heads"]:
    r"""$s_{l,h} \propto \sum_{\pi, \pi'} |U^{\pi\pi'}|$ over pairs of paths through a head, the largest one 1.

    The sum is over entries of the matrix: ordered pairs, so that a pair of different paths counts twice and the
    diagonal once. Where the paths' coefficients differ, beside a skip, an entry counts by its weight in the kernel,
    $|c_\pi c_{\pi'} U^{\pi\pi'}|$; a skip has no score, and a path along it counts for the heads of the other layers alone.

    Args:
        order_parameter: $U$ of the theory, or that of trained weights by (13), `(paths, paths)`, each output a path of
            its own.
        heads: number of heads in every layer, $(H_1, .., H_L)$, or layers of other kinds among them.
        kind: "both": pairs in which both paths go through the head; "either": pairs in which at least one does.

    Returns:
        `(all heads,)`, in the order of `head_indices`.

    Raises:
        ValueError: a matrix that does not fit the heads, NaN or infinity, zero everywhere, an unknown kind.

    Source: Tiberi et al. (2024), section 4.2, whose text reads as "both"; their code computes "either".
    """
    if kind not in DEFINITIONS:
        raise ValueError(f"kind: wanted one of {', '.join(DEFINITIONS)}, got {kind!r}.")
    layers = chain(heads)
    if not any(layers.heads):
        raise ValueError(f"heads: wanted a layer with heads to score, got none in {layers.spelled}.")
    through = jnp.asarray(np.repeat(path_heads(heads), layers.outputs, axis=0))
    order_parameter = checks.array("order_parameter", order_parameter, "paths paths")
    if order_parameter.shape != (len(through),) * 2:
        raise ValueError(
            f"order_parameter: wanted shape {(len(through),) * 2} for heads {tuple(heads)}, got {order_parameter.shape}."
        )
    gains = np.repeat(layers.path_gains, layers.outputs)
    magnitude = jnp.abs(order_parameter) * np.outer(gains, gains)
    if checks.concrete(magnitude) and not np.any(np.asarray(magnitude)):
        raise ValueError(
            "order_parameter: wanted an entry other than zero, got none. No head can be told from another."
        )
    scores = jnp.einsum("ph,pq,qh->h", through, magnitude, through)
    if kind == "either":
        scores = (jnp.sum(magnitude, axis=0) + jnp.sum(magnitude, axis=1)) @ through - scores
    return scores / jnp.max(scores)


def prune(network: _Network, removed, heads=None) -> _Network:
    r"""A really smaller network, without some heads, its factors $1/\sqrt{H_l}$ being those of the heads left.

    A layer with a skip may lose all its heads: the skip is left alone, the layer is then `SkipHeads(0)`, and attention has
    no entry for it any more.

    Args:
        network: what has the heads: a `TrainedNetwork`; `Weights` and the attention that goes with them, each pruned by
            itself, for `forward`; attention matrices, one array `(examples, heads, keys, queries)` a layer;
            `AttentionedInputs`.
        removed: numbers of heads, counted through the network as in `head_indices`.
        heads: the layers, where they are not of heads alone; `AttentionedInputs` know them. Those of the smaller network
            are `heads_left(heads, removed)`.

    Returns:
        The same kind of object. Nothing is trained anew: of a `TrainedNetwork` the learning curve stays as it was, and
        the order parameters are those of the weights left.

    Raises:
        ValueError: a head that is not there or named twice, a layer left without heads, something else than a network.
    """
    if isinstance(network, AttentionedInputs):
        return network.keep_heads(kept_heads(network.heads, removed))
    if isinstance(network, TrainedNetwork):
        return _prune_trained(network, kept_heads(network.heads, removed))
    if isinstance(network, Weights):
        layers = chain([layer.shape[-3] for layer in network.values] if heads is None else heads)
        _, parts = layers.keep(kept_heads(layers, removed))
        return network._replace(values=_taken(network.values, [part.matrices for part in parts], axis=-3))
    if isinstance(network, QueryKeyAttention):
        kept = _attention_kept([len(layer) for layer in network.queries], heads, removed)
        return replace(network, queries=_left(network.queries, kept), keys=_left(network.keys, kept))
    if isinstance(network, ProductAttention):
        kept = _attention_kept([len(layer) for layer in network.products], heads, removed)
        return replace(network, products=_left(network.products, kept))
    if isinstance(network, (tuple, list)) and all(getattr(layer, "ndim", 0) == 4 for layer in network):
        kept = _attention_kept([layer.shape[1] for layer in network], heads, removed)
        return type(network)(_left(network, kept, axis=1))
    raise ValueError(
        "network: wanted a TrainedNetwork, Weights, attention, attention matrices (examples, heads, keys, queries) or "
        f"AttentionedInputs, got {type(network).__name__}."
    )


def path_contributions(network, attentioned: AttentionedInputs) -> Float[Array, "examples paths *outputs"]:
    r"""What each path adds to the output: $v^\pi \cdot \xi^\pi(x)$, the terms of (5).

    Args:
        network: a `TrainedNetwork` or `Weights`.
        attentioned: the attentioned inputs of this network's attention and readout.

    Returns:
        `(examples, paths)`, or `(examples, paths, outputs)`; their sums over paths are the outputs.

    Raises:
        ValueError: heads or features that do not fit each other, something else than a network.
    """
    if isinstance(network, TrainedNetwork):
        heads, vectors = network.heads, jnp.asarray(network.vectors, attentioned.values.dtype)
    elif isinstance(network, Weights):
        wanted = tuple(layer.value_matrices for layer in attentioned.chain.layers)
        heads = tuple(layer.shape[0] for layer in network.values)
        if heads == wanted and network.projection.shape[1] == attentioned.values.shape[-1]:
            return jnp.einsum("epi,p...i->ep...", attentioned.values, path_vectors(network, attentioned))
        vectors = np.empty((math.prod(heads), network.projection.shape[1]))
    else:
        raise ValueError(f"network: wanted a TrainedNetwork or Weights, got {type(network).__name__}.")
    if attentioned.heads != heads or attentioned.values.shape[1:] != vectors.shape:
        raise ValueError(
            f"attentioned: wanted heads {heads} and (paths, features) {vectors.shape}, got heads {attentioned.heads} and "
            f"{attentioned.values.shape[1:]}. Compute it with this network's attention."
        )
    return jnp.einsum("epi,pi->ep", attentioned.values, vectors)


def path_covariance(attentioned: AttentionedInputs) -> Float[Array, "paths paths"]:
    r"""$B_{\pi\pi'} = \frac{1}{P N_0} \sum_\mu (\xi^\pi_\mu - \bar\xi^\pi) \cdot (\xi^{\pi'}_\mu - \bar\xi^{\pi'})$.

    The size of the centred path-path kernels: the trace of $C_{\pi\pi'}$ over examples, without what all examples have in
    common. A pair of paths weighs $U^{\pi\pi'} B_{\pi\pi'}$ in the kernel (10), so that `head_scores` of this product
    asks what the head does to the kernel, not only to its coefficients.

    Args:
        attentioned: `AttentionedInputs` of at least two examples.

    Returns:
        `(paths, paths)`.

    Raises:
        ValueError: one example alone.
    """
    examples, _, features = attentioned.values.shape
    if examples < 2:
        raise ValueError(f"attentioned: wanted at least two examples, got {examples}.")
    centred = attentioned.values - jnp.mean(attentioned.values, axis=0, keepdims=True)
    return jnp.einsum("epi,eqi->pq", centred, centred) / (examples * features)


def _prune_trained(network: TrainedNetwork, kept: tuple[tuple[int, ...], ...]) -> TrainedNetwork:
    whole = chain(network.heads)
    smaller, parts = whole.keep(kept)
    # Partial paths of layers l..L that are left, for every l.
    partial = []
    for layer in range(len(parts)):
        branches, left = whole.branches[layer:], [part.branches for part in parts[layer:]]
        partial.append(np.arange(math.prod(branches)).reshape(branches)[np.ix_(*left)].ravel())
    # The vectors hold the paths' coefficients, 1/sqrt(H_l) of every head; the order parameters (13) do not.
    rescaling = math.sqrt(whole.divisor / smaller.divisor) * smaller.path_gains / whole.path_gains[partial[0]]
    overlaps = (network.order_parameters[layer][np.ix_(left, left)] for layer, left in enumerate(partial))
    return replace(
        network,
        queries=_taken(network.queries, kept),
        keys=_taken(network.keys, kept),
        vectors=rescaling[:, None].astype(network.vectors.dtype) * network.vectors[partial[0]],
        order_parameters=(*overlaps, network.order_parameters[-1]),
        value_norms=_taken(network.value_norms, [part.matrices for part in parts]),
        heads=smaller.spelled,
    )


def _attention_kept(counts, heads, removed) -> list[tuple[int, ...]]:
    """What a removal leaves of attention that has `counts` heads in the layers that have any."""
    layers = chain(counts if heads is None else heads)
    wanted = [count for count in layers.heads if count]
    if counts != wanted:
        raise ValueError(f"network: wanted attention of {wanted} heads for heads={layers.spelled}, got {counts}.")
    kept = kept_heads(layers, removed)
    return [left for left, count in zip(kept, layers.heads, strict=True) if count]


def _left(layers, kept, axis: int = 0) -> tuple:
    """What is kept of every layer, without the layers of which nothing is."""
    pairs = [(layer, left) for layer, left in zip(layers, kept, strict=True) if left]
    return _taken([layer for layer, _ in pairs], [left for _, left in pairs], axis)


def _taken(layers, kept, axis: int = 0) -> tuple:
    def take(layer, left):
        numbers = np.asarray(left, int)
        return layer.take(numbers, axis=axis)

    return tuple(take(layer, left) for layer, left in zip(layers, kept, strict=True))
