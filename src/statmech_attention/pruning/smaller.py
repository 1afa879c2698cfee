"""Networks that really lack the heads removed."""

from dataclasses import replace
from typing import Any, TypeVar

import jax
import numpy as np
from jax.typing import ArrayLike

from statmech_attention.layers.chains import Layers, chain
from statmech_attention.layers.kind import Narrow, Part
from statmech_attention.model.attention import ProductAttention, QueryKeyAttention
from statmech_attention.model.network import Weights, spelled_by
from statmech_attention.pruning.heads import kept_heads

_Network = TypeVar("_Network")


def prune(network: _Network, removed: ArrayLike, *, layers: Layers | None = None) -> _Network:
    r"""Return a smaller network without some heads, with the factors $1/\sqrt{H_l}$ of the heads left.

    A layer with a skip may lose all its heads: it becomes `SkipHeads(0)`, without an entry in the attention.

    Args:
        network: `AttentionedInputs`; `Weights`; attention from this package, or matrices, one array
            `(examples, heads, keys, queries)` per layer; or an object of your own with `layers` and
            `keep_heads(kept)`. Weights and their attention are pruned separately.
        removed: numbers of heads, counted through the network as in `head_indices`.
        layers: only if not all are of heads alone; see `heads_left` for those of the smaller network.

    Returns:
        The same kind of object. Nothing is trained again.

    Raises:
        ValueError: a head that is not there or named twice, a layer left without heads, no network.
    """
    if hasattr(network, "keep_heads"):
        whole: Any = network
        return whole.keep_heads(kept_heads(whole.layers, removed))
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
        "network: wanted AttentionedInputs, Weights, attention, attention matrices (examples, heads, keys, queries) or "
        f"an object with keep_heads, got {type(network).__name__}."
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
