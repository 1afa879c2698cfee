r"""The network in path form on compact tokens: cheap outputs and gradients of all its parameters.

The output is $f(x) = \sum_\pi v^\pi \cdot \xi^\pi(x)$ with effective weights $v^\pi$ that are the same for all
examples, so products of width by width matrices are done once a step and not once a token. A path takes one branch of
every layer, a head or the skip beside them; without a head it passes the layer by.

Scaling while training ("trained scaling"): entries start uniform in $\pm 1/\sqrt{\text{fan in}}$, and of the square
roots of (1), (2), (4) only $1/\sqrt{H_l}$ is kept: $x^0 = V^{(0)} x$, $f = a \cdot x^L$,
$x^l = H_l^{-1/2} \sum_h V^{(l,h)} x^{l-1} \Omega^{(l,h)}$, of narrow heads with $O^{(l,h)} V^{(l,h)}$, and beside a skip this plus $x^{l-1}$. `Parameters.weights`
converts to the scaling of (1), (2), (4), which all the rest of the package uses.
"""

import math
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from statmech_attention.training.network import CURVE, TrainedNetwork

from attention_book.arguments import Layers, Numbers
from attention_book.tasks._sequences import CompactTokens
from attention_book.training.compact import affine, matrices, over_channels
from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.layers.chains import Chain, chain
from statmech_attention.layers.kind import Layer, Narrow
from statmech_attention.model.network import Weights, spelled_by, stage_weights, weights_order_parameters


class Parameters(NamedTuple):
    """All trained parameters, in the trained scaling.

    Attributes:
        queries: $Q^{(l,h)}$, one array `(H_l, dimension, features)` a layer.
        keys: $K^{(l,h)}$, the same shapes.
        projection: $V^{(0)}$.
        values: $V^{(l,h)}$, one array `(matrices, width, width)` a layer; for heads there are $H_l$ of them. Those of narrow
            heads are `Narrow`, of $V^{(l,h)}$ and $O^{(l,h)}$.
        readout: $a$.
        projection_bias: added to $V^{(0)} x$; None in a network without biases.
        readout_bias: added to the output; None in a network without biases.
    """

    queries: tuple[Float[Array, "_heads dimension features"], ...]
    keys: tuple[Float[Array, "_heads dimension features"], ...]
    projection: Float[Array, "width features"]
    values: tuple[Float[Array, "_heads width width"] | Narrow, ...]
    readout: Float[Array, " width"]
    projection_bias: Float[Array, " width"] | None = None
    readout_bias: Float[Array, ""] | None = None

    def weights(self) -> Weights:
        r"""The same network in the scaling of (1), (2), (4): $\sqrt{N_0} V^{(0)}$, $\sqrt N V^{(l,h)}$, $\sqrt N a$; $\sqrt d O^{(l,h)}$.

        Returns:
            `Weights` for `forward`, which then gives the outputs of this network, with its `heads` where it is not of
            heads alone, and but for its biases.
        """
        width, features = (math.sqrt(size) for size in self.projection.shape)
        values = jax.tree.map(lambda layer: math.sqrt(layer.shape[-1]) * layer, self.values)
        return Weights(features * self.projection, values, width * self.readout)


def initial(key: Key, heads, width: int, dimension: int, features: int, biases: bool = False) -> Parameters:
    """Parameters before training, uniform in plus or minus the inverse root of the number of inputs, in float32.

    Args:
        key: a JAX random key.
        heads: number of heads in every layer, or layers of other kinds among them.
        width: $N$.
        dimension: $G$, of queries and keys.
        features: $N_0$.
        biases: of the input projection and of the readout; the other parameters are the same with and without.

    Returns:
        `Parameters`.
    """
    kinds = chain(heads).layers
    layers = len(kinds)
    keys = [*jax.random.split(key, 3 * layers + 2), *jax.random.split(jax.random.fold_in(key, 1))]

    def uniform(number: int, *shape: int, inputs: int | None = None):
        bound = 1 / math.sqrt(shape[-1] if inputs is None else inputs)
        return jax.random.uniform(keys[number], shape, jnp.float32, -bound, bound)

    def values(number: int, shape):
        if not isinstance(shape, Narrow):
            return uniform(number, *shape)
        keys.append(jax.random.fold_in(keys[number], 1))
        return Narrow(uniform(number, *shape.values), uniform(-1, *shape.outputs))

    return Parameters(
        tuple(uniform(layer, kind.heads, dimension, features) for layer, kind in enumerate(kinds)),
        tuple(uniform(layers + layer, kind.heads, dimension, features) for layer, kind in enumerate(kinds)),
        uniform(3 * layers, width, features),
        tuple(values(2 * layers + layer, kind.weight_shapes(width, width)) for layer, kind in enumerate(kinds)),
        uniform(3 * layers + 1, width),
        uniform(3 * layers + 2, width, inputs=features) if biases else None,
        uniform(3 * layers + 3, inputs=width) if biases else None,
    )


def effective_vectors(parameters: Parameters, *, heads: Layers | None = None) -> Float[Array, "paths features"]:
    r"""$v^\pi$ of $f = \sum_\pi v^\pi \cdot \xi^\pi(x)$; in (5), $(N N_0 \prod_l H_l)^{-1/2} {V^{(0)}}^\top w^\pi$.

    Args:
        parameters: `Parameters`.
        heads: the layers, where they are not of heads alone.

    Returns:
        `(paths, features)`, paths with $h_1$ slowest.
    """
    return _rows(parameters, heads) @ parameters.projection


def offsets(parameters: Parameters, *, heads: Layers | None = None) -> Float[Array, " paths"]:
    r"""What the projection's bias adds along every path: a token's share of it passes attention as it is, whose weights sum to 1.

    Args:
        parameters: `Parameters`.
        heads: the layers, where they are not of heads alone.

    Returns:
        `(paths,)`; zeros in a network without biases.
    """
    rows = _rows(parameters, heads)
    return jnp.zeros(len(rows)) if parameters.projection_bias is None else rows @ parameters.projection_bias


def _rows(parameters: Parameters, heads) -> Float[Array, "paths width"]:
    """What the projected tokens are multiplied with along every path."""
    layers = chain(spelled_by(parameters.values) if heads is None else heads)
    weights = Weights(parameters.projection, parameters.values, parameters.readout)
    rows, *_ = stage_weights(weights, layers, root=lambda _: 1.0)  # what training draws is divided already
    gains = jnp.asarray(layers.path_gains, rows.dtype)[:, None]
    return gains * rows / math.sqrt(layers.divisor)


@checks.objects
def trained_network(
    parameters: Parameters, *, heads: Layers | None = None, curve: Numbers | None = None, best_step: int = 0
) -> TrainedNetwork:
    """What is kept of trained parameters.

    Args:
        parameters: in the trained scaling.
        heads: the layers, where they are not of heads alone.
        curve: the learning curve, if there is one.
        best_step: after how many steps the parameters were reached.

    Returns:
        `TrainedNetwork`.
    """
    weights = parameters.weights()
    layers = chain(spelled_by(weights.values) if heads is None else heads)
    overlaps = tuple(np.asarray(overlap, np.float64) for overlap in weights_order_parameters(weights, heads=layers))
    norms = tuple(_norms(layer) for layer in weights.values)
    return TrainedNetwork(
        tuple(np.asarray(layer) for layer in parameters.queries),
        tuple(np.asarray(layer) for layer in parameters.keys),
        np.asarray(effective_vectors(parameters, heads=layers)),
        overlaps,
        norms,
        len(parameters.readout),
        _checked_curve(curve),
        best_step,
        layers.spelled,
        None if parameters.projection_bias is None else np.asarray(offsets(parameters, heads=layers)),
        0.0 if parameters.readout_bias is None else float(parameters.readout_bias),
    )


def _norms(values) -> Float[np.ndarray, " matrices"]:
    r"""Frobenius norms of a layer's matrices; of a narrow head $(|V|^2 + \frac Nd |O|^2)^{1/2}$, root N times that while training."""
    arrays = values if isinstance(values, Narrow) else (values,)
    ratios = (values.shape[-1] / array.shape[-1] for array in arrays)
    squares = (np.sum(np.asarray(array, np.float64) ** 2, axis=(1, 2)) for array in arrays)
    return np.sqrt(sum(ratio * square for ratio, square in zip(ratios, squares, strict=True)))


def _checked_curve(curve) -> Float[np.ndarray, "validations columns"]:
    """The learning curve; one without a row where there is none."""
    if curve is None or isinstance(curve, np.ndarray) and not curve.size:
        return np.zeros((0, len(CURVE)))
    return checks.known("curve", curve, "validations columns", finite=False)


def outputs(
    parameters: Parameters,
    compact: CompactTokens,
    patches: Float[Array, "examples tokens pixels"],
    first: Float[Array, " examples"],
    layers: Chain,
) -> Float[Array, " examples"]:
    """The network's outputs, read out as the mean over tokens; fast to differentiate with respect to `parameters` only.

    Args:
        parameters: `Parameters`.
        compact: the constant parts of the tokens.
        patches: the normalised patches.
        first: label of the first image, +1 or -1.
        layers: the network's.

    Returns:
        `(examples,)`.
    """
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
    vectors = effective_vectors(parameters, heads=layers)
    vectors = vectors.reshape(*layers.branches, -1).transpose(*reversed(range(depth)), depth).reshape(vectors.shape)
    table = jnp.stack([compact.constants @ vectors.T, compact.signs[:, None] * (vectors @ compact.difference)[None]])
    seen = affine(flat, phases, over_channels(vectors).T, table.reshape(2, -1)).reshape(*label.shape, -1)
    found = jnp.einsum("eps,esp->e", columns, seen)
    if parameters.projection_bias is not None and parameters.readout_bias is not None:
        found += jnp.sum(offsets(parameters, heads=layers)) + parameters.readout_bias
    return found


def _branches(
    layer: Layer,
    along: Float[Array, "examples paths tokens"],
    attended: Float[Array, "examples paths heads tokens"] | None,
) -> Float[Array, "examples paths branches tokens"]:
    """The columns of every branch: those that come in where it passes through no head, else those of its head."""
    heads = cast(Array, attended)  # looked at where there are any
    if layer.branch_heads == tuple(range(layer.heads)):
        return heads
    columns = [along[:, :, None] if head < 0 else heads[:, :, head : head + 1] for head in layer.branch_heads]
    return jnp.concatenate(columns, axis=2)
