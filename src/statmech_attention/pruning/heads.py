"""Heads numbered through the layers: the paths that use them, and the network without some."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers, chain
from statmech_attention.layers.kind import Kind, Narrow, Part
from statmech_attention.model.attention import ProductAttention, QueryKeyAttention
from statmech_attention.model.network import Weights, check_fit, spelled_by
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.solution import Solution


def head_indices(layers: Layers) -> Int[np.ndarray, "heads 2"]:
    """Layer and number of every head of the network, layer 1 first, counted from 0: the order of head scores.

    Args:
        layers: $(H_1, .., H_L)$, or layers of other kinds; a skip or a linear block is not a head.

    Returns:
        `(all heads, 2)` whole numbers, the layer before the head's number within it.

    Raises:
        ValueError: a layer without heads, or no layer.
    """
    found = [(layer, head) for layer, count in enumerate(chain(layers).heads) for head in range(count)]
    return np.array(found, int).reshape(-1, 2)


def different_heads(name: str, value, layers) -> list[int]:
    """`value` as numbers of different heads, counted through the network."""
    layers = chain(layers)
    return checks.indices(name, value, sum(layers.heads), what="heads, counted through all layers,").tolist()


def kept_heads(layers, removed) -> tuple[tuple[int, ...], ...]:
    """Heads of every layer that a removal leaves; every layer must let something through."""
    layers, indices = chain(layers), head_indices(layers)
    numbers = different_heads("removed", removed, layers)
    kept = tuple(
        tuple(int(head) for number, (place, head) in enumerate(indices) if place == layer and number not in numbers)
        for layer in range(len(layers.layers))
    )
    for number, (layer, left) in enumerate(zip(layers.layers, kept, strict=True), start=1):
        if len(left) < layer.fewest:
            raise ValueError(f"removed: wanted at least one head left in every layer, got none in layer {number}.")
    return kept


def heads_left(layers: Layers, removed: ArrayLike) -> tuple[int | Kind, ...]:
    """The `layers` of the network that is left without the heads `removed`, counted through the network.

    Raises:
        ValueError: as `prune`.
    """
    return chain(layers).keep(kept_heads(layers, removed))[0].spelled


def removal_order(scores: ArrayLike, *, layers: Layers) -> Int[np.ndarray, " removals"]:
    """Order of removal by increasing score, the first of equal scores first, but no layer's last head.

    Args:
        scores: `(all heads,)`.
        layers: number of heads in every layer.

    Returns:
        Numbers of heads: all but one of every layer, and all of a layer with a skip.
    """
    layers = chain(layers)
    scores = np.asarray(checks.array("scores", scores, "heads"))
    checks.same("scores", "scores", len(scores), "the network's heads", sum(layers.heads))
    layer, left, order = head_indices(layers)[:, 0], list(layers.heads), []
    for number in np.argsort(scores, kind="stable"):
        if left[layer[number]] > layers.layers[layer[number]].fewest:
            left[layer[number]] -= 1
            order.append(number)
    return np.array(order, int)


def partial_paths_left(branches, left) -> list[Int[np.ndarray, " paths"]]:
    """Numbers of the partial paths of layers l..L that are left, for every l."""
    return [
        np.arange(math.prod(branches[layer:])).reshape(branches[layer:])[np.ix_(*left[layer:])].ravel()
        for layer in range(len(branches))
    ]


def order_parameters_on(order_parameters, whole: Chain, parts: Sequence[Part]) -> tuple:
    """The blocks of all order parameters on the partial paths that are left, and of the heads that are left."""
    # The last axis is that of the outputs, all of which stay.
    left = [list(part.branches) for part in parts] + [list(range(whole.outputs))]
    partial, found = partial_paths_left((*whole.branches, whole.outputs), left), []
    for overlap, (place, _, inner) in zip(order_parameters[:-1], whole.stages[:-1], strict=True):
        if not inner:
            found.append(overlap[np.ix_(partial[place], partial[place])])
        elif parts[place].layer.inner is not None:
            above = partial[place + 1]
            found.append(overlap[np.ix_(np.array(parts[place].matrices, int), above, above)])
    return (*found, order_parameters[-1])


def path_gates(layers, kept) -> Float[np.ndarray, "networks paths"]:
    r"""Factors of the paths' coefficients in networks with only some of the heads; 0 for removed paths.

    $\prod_l \sqrt{H_l / H'_l}$ with the $H'_l$ heads that are left of a layer; along a skip the
    factor is 1.
    """
    layers, start = chain(layers), 0
    factors = np.ones((1, 1))
    for layer, branches in zip(layers.layers, layers.path_branches.T, strict=True):
        rows, place = np.unique(kept[:, start : start + layer.heads], axis=0, return_inverse=True)
        gates = np.zeros((len(rows), layer.branches))
        for gate, row in zip(gates, rows, strict=True):
            left = np.flatnonzero(row).tolist()
            if len(left) >= layer.fewest:
                part = layer.keep(left)
                before = np.asarray(layer.gains)[list(part.branches)]
                gate[list(part.branches)] = (
                    np.asarray(part.layer.gains) / before * np.sqrt(layer.divisor / part.layer.divisor)
                )
        factors = factors * gates[place.reshape(-1)][:, branches]
        start += layer.heads
    return factors


_Network = TypeVar("_Network")


def prune(network: _Network, removed: ArrayLike, *, layers: Layers | None = None) -> _Network:
    r"""Return a smaller network without some heads, with the factors $1/\sqrt{H_l}$ of the heads left.

    A layer with a skip may lose all its heads: it becomes `SkipHeads(0)`, without an entry in the
    attention.

    Args:
        network: `AttentionedInputs`, or a `Problem` or `Solution` with them; `Weights`; attention
            from this package, or matrices, one array
            `(examples, heads, keys, queries)` per layer; or an object of your own with `layers` and
            `keep_heads(kept)`. Weights and their attention are pruned separately.
        removed: numbers of heads, counted through the network as in `head_indices`.
        layers: only if not all are of heads alone; see `heads_left` for those of the smaller
            network.

    Returns:
        The same kind of object, of a `Solution` the smaller `Problem`. Nothing is trained or solved
        again.

    Raises:
        ValueError: a head that is not there or named twice, a layer left without heads, no network.
    """
    checks.record("network", network)
    whole: Any = network
    if hasattr(network, "keep_heads"):
        return whole.keep_heads(kept_heads(whole.layers, removed))
    if isinstance(network, (Problem, Solution)):
        problem: Any = network.problem if isinstance(network, Solution) else need_problem(network)
        return problem.replace(attentioned=prune(problem.attentioned, removed))
    if isinstance(network, Weights):
        layers = chain(spelled_by(network.values) if layers is None else layers)
        check_fit(network, network.projection.shape[1], layers)
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
        "network: wanted AttentionedInputs, a Problem, Weights, attention, "
        "attention matrices (examples, heads, keys, queries) or "
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
    pairs = zip(layers, kept, strict=True)
    return tuple(layer.take(np.asarray(left, int), axis=axis) for layer, left in pairs if left)
