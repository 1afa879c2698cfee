"""Heads numbered through the layers: the paths that use them, and the network without some."""

from dataclasses import replace

import jax
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Int

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers
from statmech_attention.layers.kind import Narrow, Part
from statmech_attention.model.attention import SoftmaxAttention
from statmech_attention.model.network import Weights, check_fit, plain_layers
from statmech_attention.theory.problem import Problem
from statmech_attention.theory.solution import Solution


def head_indices(*, layers: Layers) -> Int[np.ndarray, "heads 2"]:
    """Layer and number of every head of the network, layer 1 first, counted from 0: the order of head scores.

    Args:
        layers: $(H_1, .., H_L)$, or layers of other kinds; a skip or a linear block is not a head.

    Returns:
        `(all heads, 2)` whole numbers, the layer before the head's number within it.
    """
    pairs = [(layer, head) for layer, count in enumerate(Chain.of(layers).heads) for head in range(count)]
    return np.array(pairs, int).reshape(-1, 2)


def heads_by_layer(kept, layers: Layers) -> tuple[tuple[int, ...], ...]:
    """Heads of every layer, given so, or by numbers counted through the network."""
    if len(checks.several("kept", kept, "heads")) and np.ndim(kept[0]) == 1:
        return tuple(tuple(map(int, heads)) for heads in kept)
    layers = Chain.of(layers)
    numbers = checks.indices("kept", kept, sum(layers.heads), what="heads, counted through all layers,")
    chosen = head_indices(layers=layers)[np.sort(numbers)]
    return tuple(tuple(chosen[chosen[:, 0] == place, 1].tolist()) for place in range(len(layers.layers)))


def kept_heads(removed, *, layers: Layers) -> tuple[tuple[int, ...], ...]:
    """Heads of every layer that stay if others, numbered through the network, are removed."""
    count = sum(Chain.of(layers).heads)
    numbers = checks.indices("removed", removed, count, what="heads, counted through all layers,")
    return heads_by_layer(np.setdiff1d(np.arange(count), numbers), layers)


def removal_order(scores: ArrayLike, *, layers: Layers, groups: int = 1) -> Int[np.ndarray, " removals"]:
    """Order of removal by increasing score, the first of equal scores first, but no layer's last head.

    Args:
        scores: `(all heads,)`.
        layers: number of heads in every layer.
        groups: heads side by side that go together, by the sum of their scores, as where they share keys and
            values.

    Returns:
        Numbers of heads: all but one, or one group, of every layer, and all of a layer with a skip.
    """
    layers = Chain.of(layers)
    scores = np.asarray(checks.array("scores", scores, "heads"))
    checks.same("scores", "scores", len(scores), "the network's heads", sum(layers.heads))
    groups = checks.whole("groups", groups)
    if any(count % groups for count in layers.heads):
        raise ValueError(f"groups: wanted a divisor of the heads of every layer, {layers.heads}, got {groups}.")
    layer, left, order = head_indices(layers=layers)[::groups, 0], list(layers.heads), list[int]()
    for number in np.argsort(scores.reshape(-1, groups).sum(axis=1), kind="stable"):
        if left[layer[number]] - groups >= layers.layers[layer[number]].fewest:
            left[layer[number]] -= groups
            order.extend(range(number * groups, (number + 1) * groups))
    return np.array(order, int)


def keep_heads(network, kept, *, layers: Layers | None = None):
    r"""Return the smaller network that has only some heads, with the factors $1/\sqrt{H_l}$ of these.

    Nothing is trained or solved. Weights and their attention are pruned separately.

    Args:
        network: `AttentionedInputs`; a `Problem`, or a `Solution`, of which the smaller `Problem` is
            returned; `Weights`; attention from this package; or matrices, one array
            `(examples, heads, keys, queries)` per layer with heads.
        kept: the heads of every layer, as in `((0, 1), (0,))`, with `()` for a layer without heads;
            or their numbers counted through the network as in `head_indices`.
        layers: only for weights and attention, and if not all layers are of heads alone.

    Raises:
        ValueError: a head that is not there or named twice, a layer that lets nothing through.
    """
    if isinstance(network, Solution):
        network = network.problem
    layers = Chain.of(_layers_of(network) if layers is None else layers)
    kept = heads_by_layer(kept, layers)
    if isinstance(network, Problem):
        return network.replace(attentioned=network.attentioned.keep_heads(kept))
    if hasattr(network, "keep_heads"):  # AttentionedInputs, or another network with this method
        return network.keep_heads(kept)
    _, parts = layers.keep(kept)
    if isinstance(network, Weights):
        check_fit(network, network.projection.shape[1], layers)
        return network._replace(values=tuple(map(_values_left, network.values, parts)))
    left = [heads for heads, count in zip(kept, layers.heads, strict=True) if count]
    if isinstance(network, SoftmaxAttention):
        keys = None if network.keys is None else _taken(network.keys, left)
        bias = None if network.bias is None else _taken(network.bias, left)
        return replace(network, queries=_taken(network.queries, left), keys=keys, bias=bias)
    checks.same("network", "the matrices", len(checks.several("network", network)), "the layers with heads", len(left))
    return type(network)(_taken(network, left, axis=1))


def _layers_of(network) -> Layers:
    """The layers of a network; those with heads alone of weights and attention."""
    if hasattr(network, "layers"):
        return network.layers
    if isinstance(network, Weights):
        return plain_layers(network.values)
    if isinstance(network, SoftmaxAttention):
        return [len(layer) for layer in network.queries]
    return [layer.shape[1] for layer in network]


def _values_left(values, part: Part):
    """Weights of a layer after a removal."""
    left = jax.tree.map(lambda weights: weights.take(np.asarray(part.matrices, int), axis=-3), values)
    # A skip alone has no matrices, and none that are narrow.
    return left.outputs @ left.values if isinstance(left, Narrow) and part.layer.inner is None else left


def _taken(layers, kept, axis: int = 0) -> tuple:
    """Kept heads of every layer, without the layers that keep none."""
    pairs = zip(layers, kept, strict=True)
    return tuple(layer.take(np.asarray(heads, int), axis=axis) for layer, heads in pairs if heads)
