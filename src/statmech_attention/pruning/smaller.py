"""Networks that really lack the heads removed."""

import math
from dataclasses import replace
from typing import TypeVar

import jax
import numpy as np
from jax.typing import ArrayLike

from statmech_attention.layers.chains import Layers, chain
from statmech_attention.layers.kind import Narrow, Part
from statmech_attention.model.attention import ProductAttention, QueryKeyAttention
from statmech_attention.model.network import Weights, spelled_by
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.pruning.heads import kept_heads, order_parameters_on, partial_paths_left
from statmech_attention.training.network import TrainedNetwork

_Network = TypeVar("_Network")


def prune(network: _Network, removed: ArrayLike, *, layers: Layers | None = None) -> _Network:
    r"""A really smaller network, without some heads, its factors $1/\sqrt{H_l}$ being those of the heads left.

    A layer with a skip may lose all its heads: the skip is left alone, the layer is then `SkipHeads(0)`, and attention has
    no entry for it any more.

    Args:
        network: what has the heads: a `TrainedNetwork`; `Weights` and the attention that goes with them, each pruned by
            itself, for `forward`; attention matrices, one array `(examples, heads, keys, queries)` a layer;
            `AttentionedInputs`.
        removed: numbers of heads, counted through the network as in `head_indices`.
        layers: the layers, where they are not of heads alone; `AttentionedInputs` know them. Those of the smaller network
            are `heads_left(layers, removed)`.

    Returns:
        The same kind of object. Nothing is trained anew: of a `TrainedNetwork` the learning curve stays as it was, and
        the order parameters are those of the weights left.

    Raises:
        ValueError: a head that is not there or named twice, a layer left without heads, something else than a network.
    """
    if isinstance(network, AttentionedInputs):
        return network.keep_heads(kept_heads(network.layers, removed))  # type: ignore[return-value]
    if isinstance(network, TrainedNetwork):
        return _prune_trained(network, kept_heads(network.layers, removed))  # type: ignore[return-value]
    if isinstance(network, Weights):
        layers = chain(spelled_by(network.values) if layers is None else layers)
        _, parts = layers.keep(kept_heads(layers, removed))
        return network._replace(values=tuple(map(_values_left, network.values, parts)))
    if isinstance(network, QueryKeyAttention):
        kept = _attention_kept([len(layer) for layer in network.queries], layers, removed)
        return replace(network, queries=_left(network.queries, kept), keys=_left(network.keys, kept))
    if isinstance(network, ProductAttention):
        kept = _attention_kept([len(layer) for layer in network.products], layers, removed)
        return replace(network, products=_left(network.products, kept))
    if isinstance(network, (tuple, list)) and all(getattr(layer, "ndim", 0) == 4 for layer in network):
        kept = _attention_kept([layer.shape[1] for layer in network], layers, removed)
        return type(network)(_left(network, kept, axis=1))
    raise ValueError(
        "network: wanted a TrainedNetwork, Weights, attention, attention matrices (examples, heads, keys, queries) or "
        f"AttentionedInputs, got {type(network).__name__}."
    )


def _prune_trained(network: TrainedNetwork, kept: tuple[tuple[int, ...], ...]) -> TrainedNetwork:
    whole = chain(network.layers)
    smaller, parts = whole.keep(kept)
    partial = partial_paths_left(whole.branches, [part.branches for part in parts])
    # The vectors hold the paths' coefficients, 1/sqrt(H_l) of every head; the order parameters (13) do not.
    rescaling = math.sqrt(whole.divisor / smaller.divisor) * smaller.path_gains / whole.path_gains[partial[0]]
    offsets = None if network.offsets is None else rescaling.astype(network.offsets.dtype) * network.offsets[partial[0]]
    return replace(
        network,
        offsets=offsets,
        queries=_taken(network.queries, kept),
        keys=_taken(network.keys, kept),
        vectors=rescaling[:, None].astype(network.vectors.dtype) * network.vectors[partial[0]],
        order_parameters=order_parameters_on(network.order_parameters, whole, parts),
        value_norms=_taken(network.value_norms, [part.matrices for part in parts]),
        layers=smaller.spelled,
    )


def _attention_kept(counts, layers, removed) -> list[tuple[int, ...]]:
    """Heads left by a removal in attention with `counts` heads in the layers that have any."""
    layers = chain(counts if layers is None else layers)
    wanted = [count for count in layers.heads if count]
    if counts != wanted:
        raise ValueError(f"network: wanted attention of {wanted} heads for layers={layers.spelled}, got {counts}.")
    kept = kept_heads(layers, removed)
    return [left for left, count in zip(kept, layers.heads, strict=True) if count]


def _values_left(values, part: Part):
    """Weights of a layer after a removal."""
    left = jax.tree.map(lambda one: one.take(np.asarray(part.matrices, int), axis=-3), values)
    # A skip alone has no matrices, and none that are narrow.
    return left.outputs @ left.values if isinstance(left, Narrow) and part.layer.inner is None else left


def _left(layers, kept, axis: int = 0) -> tuple:
    """Kept parts of every layer, without the layers that keep none."""
    pairs = [(layer, left) for layer, left in zip(layers, kept, strict=True) if left]
    return _taken([layer for layer, _ in pairs], [left for _, left in pairs], axis)


def _taken(layers, kept, axis: int = 0) -> tuple:
    def take(layer, left):
        numbers = np.asarray(left, int)
        return layer.take(numbers, axis=axis)

    return tuple(take(layer, left) for layer, left in zip(layers, kept, strict=True))
