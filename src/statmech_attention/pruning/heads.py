"""The heads of a network, numbered through its layers: which paths use them, and which are left after a removal."""

import math
from collections.abc import Sequence

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float, Int

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers, chain
from statmech_attention.layers.kind import Kind, Part


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
    """Heads of every layer that a removal leaves, counted within the layer; a layer must let something through."""
    layers, indices = chain(layers), head_indices(layers)
    numbers = different_heads("removed", removed, layers)
    kept = tuple(
        tuple(int(head) for number, (place, head) in enumerate(indices) if place == layer and number not in numbers)
        for layer in range(len(layers.layers))
    )
    for number, (layer, left) in enumerate(zip(layers.layers, kept, strict=True), start=1):
        if len(left) < layer.fewest:
            raise ValueError(
                f"removed: wanted at least one head left in every layer, got none in layer {number}. "
                f"Without it nothing passes through the network."
            )
    return kept


def heads_left(layers: Layers, removed: ArrayLike) -> tuple[int | Kind, ...]:
    """The `layers` of the network that is left after the removal of heads, counted through the network.

    Raises:
        ValueError: as `prune`.
    """
    return chain(layers).keep(kept_heads(layers, removed))[0].spelled


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


def whole_and_without_each(layers) -> Bool[np.ndarray, "networks heads"]:
    """Masks of heads: the whole network, then the network without each head."""
    count = sum(chain(layers).heads)
    return np.concatenate([np.ones((1, count), bool), ~np.eye(count, dtype=bool)])


def path_gates(layers, kept) -> Float[np.ndarray, "networks paths"]:
    r"""Factors of the paths' coefficients in networks with only some of the heads; 0 for removed paths.

    $\prod_l \sqrt{H_l / H'_l}$ with the $H'_l$ heads that are left of a layer; along a skip the factor is 1.
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
