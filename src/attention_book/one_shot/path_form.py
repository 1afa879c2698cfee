r"""The network in path form on compact tokens: cheap outputs and gradients of all its parameters.

Effective weights $v^\pi$ are common to all examples, so products of width by width matrices are
computed once per step and not per token.

Scaling while training ("trained scaling"): entries start uniform in $\pm 1/\sqrt{\text{fan in}}$,
and of the square roots of (1), (2), (4) only $1/\sqrt{H_l}$ is kept: $x^0 = V^{(0)} x$, $f = a
\cdot x^L$, $x^l = H_l^{-1/2} \sum_h V^{(l,h)} x^{l-1} \Omega^{(l,h)}$, of narrow heads with
$O^{(l,h)} V^{(l,h)}$, and beside a skip this plus $x^{l-1}$.
"""

import math
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from attention_book.one_shot.compact import affine, matrices, over_channels
from attention_book.one_shot.network import CURVE, TrainedNetwork
from attention_book.one_shot.sequences import CompactTokens
from statmech_attention.checks import Key
from statmech_attention.layers.chains import Chain, Layers
from statmech_attention.layers.kind import Layer, Narrow
from statmech_attention.model.network import Weights, plain_layers, stage_weights, weights_order_parameters


class Parameters(NamedTuple):
    """All trained parameters, in the trained scaling."""

    queries: tuple[Float[Array, "_heads dimension features"], ...]  # $Q^{(l,h)}$, one array per layer
    keys: tuple[Float[Array, "_heads dimension features"], ...]  # $K^{(l,h)}$
    projection: Float[Array, "width features"]  # $V^{(0)}$
    # $V^{(l,h)}$, one array per layer; of narrow heads $V^{(l,h)}$ and $O^{(l,h)}$.
    values: tuple[Float[Array, "_heads width width"] | Narrow, ...]
    readout: Float[Array, " width"]  # $a$
    projection_bias: Float[Array, " width"] | None = None  # added to $V^{(0)} x$
    readout_bias: Float[Array, ""] | None = None  # added to the output

    def weights(self) -> Weights:
        r"""Convert to the scaling of (1), (2), (4).

        `forward` then gives the outputs of this network without its biases.
        """
        width, features = (math.sqrt(size) for size in self.projection.shape)
        values = jax.tree.map(lambda layer: math.sqrt(layer.shape[-1]) * layer, self.values)
        return Weights(features * self.projection, values, width * self.readout)


def initial(key: Key, layers, width: int, dimension: int, features: int, biases: bool = False) -> Parameters:
    """Draw parameters, uniform up to the inverse root of the number of inputs, in float32."""
    kinds = Chain.of(layers).layers
    depth = len(kinds)
    keys = [*jax.random.split(key, 3 * depth + 2), *jax.random.split(jax.random.fold_in(key, 1))]

    def uniform(number: int, *shape: int, inputs: int | None = None):
        bound = 1 / math.sqrt(shape[-1] if inputs is None else inputs)
        flat = jax.random.uniform(keys[number], (math.prod(shape),), jnp.float32, -bound, bound)
        return flat.reshape(shape)  # several axes would compile for ten times as long

    def values(number: int, shape):
        if not isinstance(shape, Narrow):
            return uniform(number, *shape)
        keys.append(jax.random.fold_in(keys[number], 1))
        return Narrow(uniform(number, *shape.values), uniform(-1, *shape.outputs))

    return Parameters(
        tuple(uniform(layer, kind.heads, dimension, features) for layer, kind in enumerate(kinds)),
        tuple(uniform(depth + layer, kind.heads, dimension, features) for layer, kind in enumerate(kinds)),
        uniform(3 * depth, width, features),
        tuple(values(2 * depth + layer, kind.weight_shapes(width, width)) for layer, kind in enumerate(kinds)),
        uniform(3 * depth + 1, width),
        uniform(3 * depth + 2, width, inputs=features) if biases else None,
        uniform(3 * depth + 3, inputs=width) if biases else None,
    )


def effective_vectors(parameters: Parameters, *, layers: Layers | None = None) -> Float[Array, "paths features"]:
    r"""Effective weights $v^\pi$ of $f = \sum_\pi v^\pi \cdot \xi^\pi(x)$."""
    return _rows(parameters, layers) @ parameters.projection


def offsets(parameters: Parameters, *, layers: Layers | None = None) -> Float[Array, " paths"]:
    """Contributions of the projection's bias along every path; zeros without biases."""
    rows = _rows(parameters, layers)
    return jnp.zeros(len(rows)) if parameters.projection_bias is None else rows @ parameters.projection_bias


def _rows(parameters: Parameters, layers) -> Float[Array, "paths width"]:
    """Factors of the projected tokens along every path."""
    layers = Chain.of(plain_layers(parameters.values) if layers is None else layers)
    weights = Weights(parameters.projection, parameters.values, parameters.readout)
    rows, *_ = stage_weights(weights, layers, root=lambda _: 1.0)  # the initial entries have these factors already
    gains = jnp.asarray(layers.path_gains, rows.dtype)[:, None]
    return gains * rows / math.sqrt(layers.divisor)


def trained_network(
    parameters: Parameters, *, layers: Layers | None = None, curve: ArrayLike | None = None, best_step: int = 0
) -> TrainedNetwork:
    """Convert trained parameters to a `TrainedNetwork`."""
    weights = parameters.weights()
    layers = Chain.of(plain_layers(weights.values) if layers is None else layers)
    overlaps = tuple(np.asarray(overlap, np.float64) for overlap in weights_order_parameters(weights, layers=layers))
    norms = tuple(_norms(layer) for layer in weights.values)
    return TrainedNetwork(
        tuple(np.asarray(layer) for layer in parameters.queries),
        tuple(np.asarray(layer) for layer in parameters.keys),
        np.asarray(effective_vectors(parameters, layers=layers)),
        overlaps,
        norms,
        len(parameters.readout),
        _checked_curve(curve),
        best_step,
        layers.shorthand,
        None if parameters.projection_bias is None else np.asarray(offsets(parameters, layers=layers)),
        0.0 if parameters.readout_bias is None else float(parameters.readout_bias),
    )


def _norms(values) -> Float[np.ndarray, " matrices"]:
    r"""Frobenius norms of a layer's matrices; of a narrow head $(|V|^2 + \frac Nd |O|^2)^{1/2}$."""
    arrays = values if isinstance(values, Narrow) else (values,)
    ratios = (values.shape[-1] / array.shape[-1] for array in arrays)
    squares = (np.sum(np.asarray(array, np.float64) ** 2, axis=(1, 2)) for array in arrays)
    return np.sqrt(sum(ratio * square for ratio, square in zip(ratios, squares, strict=True)))


def _checked_curve(curve) -> Float[np.ndarray, "validations columns"]:
    """Check the learning curve; without one return a curve of no rows."""
    if curve is None or isinstance(curve, np.ndarray) and not curve.size:
        return np.zeros((0, len(CURVE)))
    return np.asarray(curve, float)


def outputs(
    parameters: Parameters,
    compact: CompactTokens,
    patches: Float[Array, "examples tokens pixels"],
    first: Float[Array, " examples"],
    layers: Chain,
) -> Float[Array, " examples"]:
    """Outputs read out as the mean over tokens; only `parameters` are cheap to differentiate."""
    flat = patches.reshape(-1, patches.shape[-1])
    phases = jnp.stack([jnp.ones_like(first), first], axis=1)
    label = first[:, None] * compact.signs[None, :]
    mean = jnp.full((len(first), 1, label.shape[1]), 1 / label.shape[1], flat.dtype)
    columns = None
    for layer, queries, keys in reversed(list(zip(layers.layers, parameters.queries, parameters.keys, strict=True))):
        attended = None
        if layer.heads:
            attention = matrices(queries, keys, compact, flat, phases, label)
            if columns is None:
                attended = jnp.mean(attention, axis=1)[:, None]
            else:
                attended = jnp.einsum("edt,eths->edhs", columns, attention)
        columns = _branches(layer, mean if columns is None else columns, attended).reshape(
            len(first), -1, mean.shape[2]
        )
    # The columns' paths have the branch of layer L slowest.
    depth = len(layers.layers)
    vectors = effective_vectors(parameters, layers=layers)
    vectors = vectors.reshape(*layers.branches, -1).transpose(*reversed(range(depth)), depth).reshape(vectors.shape)
    table = jnp.stack([compact.constants @ vectors.T, compact.signs[:, None] * (vectors @ compact.difference)[None]])
    seen = affine(flat, phases, over_channels(vectors).T, table.reshape(2, -1)).reshape(*label.shape, -1)
    outputs = jnp.einsum("eps,esp->e", columns, seen)
    if parameters.projection_bias is not None and parameters.readout_bias is not None:
        outputs += jnp.sum(offsets(parameters, layers=layers)) + parameters.readout_bias
    return outputs


def _branches(
    layer: Layer,
    along: Float[Array, "examples paths tokens"],
    attended: Float[Array, "examples paths heads tokens"] | None,
) -> Float[Array, "examples paths branches tokens"]:
    """Columns of every branch: the incoming ones on a skip, else those of its head."""
    heads = cast(Array, attended)  # None only without heads
    if layer.branch_heads == tuple(range(layer.heads)):
        return heads
    columns = [along[:, :, None] if head < 0 else heads[:, :, head : head + 1] for head in layer.branch_heads]
    return jnp.concatenate(columns, axis=2)
