"""Consistency checks of a new kind of layer."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.layers.kind import Layer
from statmech_attention.model.network import forward, forward_paths, sample_weights
from statmech_attention.model.paths import attentioned_inputs

_EXAMPLES, _TOKENS, _FEATURES, _WIDTH = 3, 4, 5, 6
_TOLERANCE: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-10}
# Beyond this many heads the sets that pruning may leave are too many to try all.
_FEW_HEADS = 4


def check_layer(layer: Layer, *, seed: int = 0) -> None:
    """Raise ValueError if a layer of a new kind contradicts itself.

    Checked are its fields and numbers; `forward`, alone and between layers of two heads, against
    the sum over paths (X2) from `mixing`, `gains`, `divisor` and `attended`; and the branches and
    value matrices that `keep` names for every set of heads, or for single heads and all but one if
    there are many. A mistake that `forward` and the sum share goes unnoticed: compare with a loop
    of your own.

    Args:
        layer: of the new kind; try several, with and without its optional parts.
        seed: of inputs, attention matrices and weights.

    Raises:
        ValueError: a layer without a hash, inconsistent numbers, different outputs, wrong pruning,
            single precision.

    Source: ours.
    """
    checks.need_double("attentioned", np.zeros(()))
    if not isinstance(layer, Layer):
        raise ValueError(f"layer: wanted a `Layer`, got {layer!r}. A number of heads is `Heads(number)`.")
    try:
        hash(layer)
    except TypeError:
        raise ValueError(f"{layer}: wanted a frozen dataclass of numbers and tuples, got one without a hash.") from None
    _check_numbers(layer)
    rng = np.random.default_rng(seed)
    _check_forms(layer, rng)
    for left in _sets(layer):
        _check_pruned(layer, left, rng)


def _check_numbers(layer: Layer) -> None:
    mixing, doubled = (np.asarray(layer.mixing(deviation)) for deviation in (1.0, 2.0))
    if mixing.ndim != 2 or mixing.shape[1] != layer.seeds:
        raise ValueError(f"{layer}, mixing: wanted (branches, {layer.seeds} seeds), got the shape {mixing.shape}.")
    factors = np.array([1.0] * layer.keeps + [2.0] * layer.value_matrices)
    if not np.allclose(doubled, mixing * factors, **_TOLERANCE):
        raise ValueError(
            f"{layer}, mixing: wanted the standard deviation as a factor in the columns of the value "
            "matrices, and not in "
            f"that of a kept seed, got {mixing.tolist()} for 1 and {doubled.tolist()} for 2."
        )
    count = len(mixing)
    for name in ("branch_heads", "gains"):
        if (got := len(getattr(layer, name))) != count:
            raise ValueError(f"{layer}, {name}: wanted one for each of {count} branches, got {got}.")
    if not all(0 < gain < np.inf for gain in layer.gains):
        raise ValueError(
            f"{layer}, gains: wanted positive numbers, got {tuple(layer.gains)}. A sign belongs into `mixing`."
        )
    checks.whole(f"{layer}, divisor", layer.divisor)
    form = layer.form
    if layer.inner is not None and (form.inner != 1 or not np.array_equal(form.mixing(1.0), mixing)):
        raise ValueError(f"{layer}, form: wanted the same layer with an inner width of 1, got {form}.")
    if set(layer.branch_heads) - {-1} != set(range(layer.heads)):
        raise ValueError(f"{layer}, branch_heads: wanted heads counted from 0, or -1, got {tuple(layer.branch_heads)}.")
    if not checks.is_whole(layer.fewest, 0) or layer.fewest > layer.heads:
        raise ValueError(f"{layer}, fewest: wanted a whole number from 0 to {layer.heads}, got {layer.fewest!r}.")


def _attention(layer: Layer, rng):
    """Random matrices, no softmax; None where the layer takes none."""
    return jnp.asarray(rng.normal(size=(_EXAMPLES, layer.heads, _TOKENS, _TOKENS))) if layer.heads else None


def _check_forms(layer: Layer, rng) -> None:
    """The network layer by layer and path by path."""
    inputs = jnp.asarray(rng.normal(size=(_EXAMPLES, _TOKENS, _FEATURES)))
    for heads in ((layer,), (2, layer, 2)):
        beside = [jnp.asarray(rng.normal(size=(_EXAMPLES, 2, _TOKENS, _TOKENS))) for _ in heads[1:]]
        matrices = [*beside[:1], *([_attention(layer, rng)] if layer.heads else []), *beside[1:]]
        key = jax.random.key(int(rng.integers(2**31)))
        weights = sample_weights(key, layers=heads, width=_WIDTH, features=_FEATURES)
        by_layers = forward(weights, inputs, matrices, layers=heads)
        by_paths = forward_paths(weights, attentioned_inputs(inputs, matrices, layers=heads))
        if not np.allclose(by_layers, by_paths, **_TOLERANCE):
            raise ValueError(
                f"{layer}: `forward` and the sum over paths differ by up to "
                f"{float(jnp.abs(by_layers - by_paths).max()):.1e} "
                f"in the chain {heads}. One of `forward`, `attended`, `mixing`, `gains` and `divisor` is wrong."
            )


def _sets(layer: Layer):
    """Heads that pruning may leave."""
    every, count = range(layer.heads), layer.heads
    sizes = range(count) if count <= _FEW_HEADS else (0, 1, count - 1)
    for size in sizes:
        if size >= layer.fewest:
            yield from itertools.combinations(every, size)


def _check_pruned(layer: Layer, left: tuple[int, ...], rng) -> None:
    small, branches, matrices = layer.keep(left)
    said = (
        f"{layer} with the heads {left} left is {small}, and `keep` says branches {branches} and matrices {matrices}: "
    )
    write = " Write `with_heads`, or `keep` where branches or value matrices go otherwise than by default."
    _check_numbers(small)
    if len(branches) != small.branches or len(matrices) != small.value_matrices:
        raise ValueError(
            f"{said}wanted {small.branches} branches and {small.value_matrices} value matrices, those of the "
            f"small one.{write}"
        )
    place = {head: number for number, head in enumerate(left)}
    if tuple(place.get(layer.branch_heads[branch], -1) for branch in branches) != tuple(small.branch_heads):
        raise ValueError(f"{said}wanted branches through the heads {tuple(small.branch_heads)}.{write}")
    seeds = [*range(layer.keeps), *(layer.keeps + matrix for matrix in matrices)]
    whole = np.asarray(layer.mixing(1.0))[np.ix_(branches, seeds)]
    if small.keeps != layer.keeps or not np.allclose(small.mixing(1.0), whole, **_TOLERANCE):
        raise ValueError(f"{said}its `mixing` is not that of these branches and seeds of the large one.{write}")
    columns, matrix = jnp.asarray(rng.normal(size=(_EXAMPLES, 2, _TOKENS))), _attention(layer, rng)
    some = matrix[:, jnp.asarray(left)] if left else None
    found = layer.attended(columns, matrix)[:, jnp.asarray(branches, int)]
    if not np.allclose(small.attended(columns, some), found, **_TOLERANCE):
        raise ValueError(f"{said}its `attended` differs from that of these branches of the large one.{write}")
    _check_forms(small, rng)
