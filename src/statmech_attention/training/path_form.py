r"""The network in path form on compact tokens: cheap outputs and gradients of all its parameters.

The output is $f(x) = \sum_\pi v^\pi \cdot \xi^\pi(x)$ with effective weights $v^\pi$ that are the same for all
examples, so products of width by width matrices are done once a step and not once a token. A path takes one branch of
every layer, a head or the skip beside them; without a head it passes the layer by. A token is
$x_t = u_t \otimes 1_3 + c_t + y_1 g_t \delta$, and so lies in the span of a few known vectors: logits need products of
patches with small matrices and tables that depend on position and $y_1$ alone.

Scaling while training ("trained scaling"): entries start uniform in $\pm 1/\sqrt{\text{fan in}}$, and of the square
roots of (1), (2), (4) only $1/\sqrt{H_l}$ is kept: $x^0 = V^{(0)} x$, $f = a \cdot x^L$,
$x^l = H_l^{-1/2} \sum_h V^{(l,h)} x^{l-1} \Omega^{(l,h)}$, and beside a skip this plus $x^{l-1}$. `Parameters.weights` converts to the scaling of (1), (2),
(4), which all the rest of the package uses.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from statmech_attention.checks import Key
from statmech_attention.layers.chains import Chain, chain
from statmech_attention.layers.kind import Layer, mixed
from statmech_attention.model.network import Weights
from statmech_attention.tasks._sequences import CHANNELS, CompactTokens


class Parameters(NamedTuple):
    """All trained parameters, in the trained scaling.

    Attributes:
        queries: $Q^{(l,h)}$, one array `(H_l, dimension, features)` a layer.
        keys: $K^{(l,h)}$, the same shapes.
        projection: $V^{(0)}$.
        values: $V^{(l,h)}$, one array `(matrices, width, width)` a layer; for heads there are $H_l$ of them.
        readout: $a$.
    """

    queries: tuple[Float[Array, "_heads dimension features"], ...]
    keys: tuple[Float[Array, "_heads dimension features"], ...]
    projection: Float[Array, "width features"]
    values: tuple[Float[Array, "_heads width width"], ...]
    readout: Float[Array, " width"]

    def weights(self) -> Weights:
        r"""The same network in the scaling of (1), (2), (4): $\sqrt{N_0} V^{(0)}$, $\sqrt N V^{(l,h)}$, $\sqrt N a$.

        Returns:
            `Weights` for `forward`, which then gives the outputs of this network, with its `heads` where it is not of
            heads alone.
        """
        width, features = (math.sqrt(size) for size in self.projection.shape)
        values = tuple(width * layer for layer in self.values)
        return Weights(features * self.projection, values, width * self.readout)


def initial(key: Key, heads, width: int, dimension: int, features: int) -> Parameters:
    """Parameters before training, uniform in plus or minus the inverse root of the number of inputs, in float32.

    Args:
        key: a JAX random key.
        heads: number of heads in every layer, or layers of other kinds among them.
        width: $N$.
        dimension: $G$, of queries and keys.
        features: $N_0$.

    Returns:
        `Parameters`.
    """
    kinds = chain(heads).layers
    layers = len(kinds)
    keys = jax.random.split(key, 3 * layers + 2)

    def uniform(number: int, *shape: int):
        bound = 1 / math.sqrt(shape[-1])
        return jax.random.uniform(keys[number], shape, jnp.float32, -bound, bound)

    return Parameters(
        tuple(uniform(layer, kind.heads, dimension, features) for layer, kind in enumerate(kinds)),
        tuple(uniform(layers + layer, kind.heads, dimension, features) for layer, kind in enumerate(kinds)),
        uniform(3 * layers, width, features),
        tuple(uniform(2 * layers + layer, kind.value_matrices, width, width) for layer, kind in enumerate(kinds)),
        uniform(3 * layers + 1, width),
    )


def effective_vectors(parameters: Parameters, heads=None) -> Float[Array, "paths features"]:
    r"""$v^\pi$ of $f = \sum_\pi v^\pi \cdot \xi^\pi(x)$; in (5), $(N N_0 \prod_l H_l)^{-1/2} {V^{(0)}}^\top w^\pi$.

    Args:
        parameters: `Parameters`.
        heads: the layers, where they are not of heads alone.

    Returns:
        `(paths, features)`, paths with $h_1$ slowest.
    """
    layers = chain(tuple(len(values) for values in parameters.values) if heads is None else heads)
    rows = parameters.readout[None, :]
    for layer, values in zip(reversed(layers.layers), reversed(parameters.values), strict=True):
        seeds = jnp.einsum("dm,hmn->hdn", rows, values)
        if layer.keeps:
            seeds = jnp.concatenate([rows[None], seeds])
        rows = mixed(layer.mixing(1.0), seeds).reshape(-1, values.shape[2])
    gains = jnp.asarray(layers.path_gains, rows.dtype)[:, None]
    return gains * (rows @ parameters.projection / math.sqrt(layers.divisor))


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
            matrices = _matrices(_products(queries, keys, compact), compact.signs, flat, phases, label)
            if columns is None:
                attended = jnp.mean(matrices, axis=1)[:, None]
            else:
                attended = jnp.einsum("edt,eths->edhs", columns, matrices)
        columns = _branches(layer, mean if columns is None else columns, attended).reshape(
            len(first), -1, mean.shape[2]
        )
    # The columns' paths have the branch of layer L slowest.
    depth = len(layers.layers)
    vectors = effective_vectors(parameters, layers)
    vectors = vectors.reshape(*layers.branches, -1).transpose(*reversed(range(depth)), depth).reshape(vectors.shape)
    table = jnp.stack([compact.constants @ vectors.T, compact.signs[:, None] * (vectors @ compact.difference)[None]])
    seen = _affine(flat, phases, _over_channels(vectors).T, table.reshape(2, -1)).reshape(*label.shape, -1)
    return jnp.einsum("eps,esp->e", columns, seen)


def _branches(
    layer: Layer,
    along: Float[Array, "examples paths tokens"],
    attended: Float[Array, "examples paths heads tokens"] | None,
) -> Float[Array, "examples paths branches tokens"]:
    """The columns of every branch: those that come in where it passes through no head, else those of its head."""
    if layer.branch_heads == tuple(range(layer.heads)):
        return attended
    columns = [along[:, :, None] if head < 0 else attended[:, :, head : head + 1] for head in layer.branch_heads]
    return jnp.concatenate(columns, axis=2)


def _products(
    queries: Float[Array, "heads dimension features"],
    keys: Float[Array, "heads dimension features"],
    compact: CompactTokens,
) -> Float[Array, "vectors heads vectors"]:
    r"""$W^{(l,h)}$ between the spanning vectors (pixels, $c_t$, $\delta$): the query's one, head, the key's one."""
    constants = jnp.concatenate([compact.constants, compact.difference[None]])
    queries, keys = (
        jnp.concatenate([_over_channels(rows), jnp.einsum("hgi,ci->hgc", rows, constants)], axis=-1)
        for rows in (queries, keys)
    )
    return jnp.einsum("hgj,hgi->jhi", queries, keys) / math.sqrt(queries.shape[1])


def _matrices(
    products: Float[Array, "vectors heads vectors"],
    signs: Float[Array, " tokens"],
    flat: Float[Array, "rows pixels"],
    phases: Float[Array, "examples 2"],
    label: Float[Array, "examples tokens"],
) -> Float[Array, "examples tokens heads tokens"]:
    """A layer's attention matrices, query before head before key."""
    pixels = flat.shape[1]

    def part(first, end):
        # What the query's side of the logits has in store for some of the spanning vectors on the key's side.
        chosen = products[:, :, first:end]
        table = jnp.stack([chosen[pixels:-1], signs[:, None, None] * chosen[-1:]])
        return _affine(flat, phases, chosen[:pixels].reshape(pixels, -1), table.reshape(2, -1))

    parts = part(0, pixels), part(pixels, -1), part(-1, None)
    return _attend(*parts, flat.reshape(*label.shape, pixels), label)


def _over_channels(rows: Float[Array, "*rows features"]) -> Float[Array, "*rows pixels"]:
    return jnp.sum(rows.reshape(*rows.shape[:-1], -1, CHANNELS), axis=-1)


@jax.custom_vjp
def _affine(
    flat: Float[Array, "rows pixels"],
    phases: Float[Array, "examples 2"],
    matrix: Float[Array, "pixels columns"],
    table: Float[Array, "2 entries"],
) -> Float[Array, "rows columns"]:
    """Patches times a matrix, plus a table over tokens that is the same for all examples, plus one times $y_1$."""
    return flat @ matrix + (phases @ table).reshape(flat.shape[0], -1)


def _affine_forward(flat, phases, matrix, table):
    return _affine(flat, phases, matrix, table), (flat, phases)


def _affine_backward(saved, change):
    # Sums over examples as matrix products, in this orientation: three times as fast on CPUs as what JAX derives.
    flat, phases = saved
    return None, None, flat.T @ change, phases.T @ change.reshape(len(phases), -1)


_affine.defvjp(_affine_forward, _affine_backward)


@jax.custom_vjp
def _attend(
    by_patch: Float[Array, "rows _patch_columns"],
    by_position: Float[Array, "rows _position_columns"],
    by_label: Float[Array, "rows heads"],
    patches: Float[Array, "examples tokens pixels"],
    label: Float[Array, "examples tokens"],
) -> Float[Array, "examples tokens heads tokens"]:
    """Attention matrices of all heads, query before head before key: softmax over the last axis."""
    examples, tokens, pixels = patches.shape
    logits = jnp.einsum("exi,esi->exs", by_patch.reshape(examples, -1, pixels), patches)
    shape = (examples, tokens, by_label.shape[1], tokens)
    logits = logits.reshape(shape) + by_position.reshape(shape)
    return jax.nn.softmax(logits + by_label.reshape(*shape[:3], 1) * label[:, None, None, :], axis=-1)


def _attend_forward(by_patch, by_position, by_label, patches, label):
    matrices = _attend(by_patch, by_position, by_label, patches, label)
    return matrices, (matrices, patches, label)


def _attend_backward(saved, change):
    matrices, patches, label = saved
    examples, tokens, count = matrices.shape[:3]
    logits = matrices * (change - jnp.sum(matrices * change, axis=-1, keepdims=True))
    logits = logits.reshape(examples, tokens * count, tokens)
    by_patch = jnp.einsum("exs,esi->exi", logits, patches)
    by_label = jnp.einsum("exs,es->ex", logits, label)
    rows = examples * tokens
    return by_patch.reshape(rows, -1), logits.reshape(rows, -1), by_label.reshape(rows, -1), None, None


_attend.defvjp(_attend_forward, _attend_backward)
