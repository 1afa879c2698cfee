r"""The network in path form on compact tokens: cheap outputs and gradients of all its parameters.

The output is $f(x) = \sum_\pi v^\pi \cdot \xi^\pi(x)$ with effective weights $v^\pi$ that are the same for all
examples, so products of width by width matrices are done once a step and not once a token. A token is
$x_t = u_t \otimes 1_3 + c_t + y_1 g_t \delta$, and so lies in the span of a few known vectors: logits need products of
patches with small matrices and tables that depend on position and $y_1$ alone.

Scaling while training ("trained scaling"): entries start uniform in $\pm 1/\sqrt{\text{fan in}}$, and of the square
roots of (1), (2), (4) only $1/\sqrt{H_l}$ is kept: $x^0 = V^{(0)} x$, $f = a \cdot x^L$,
$x^l = H_l^{-1/2} \sum_h V^{(l,h)} x^{l-1} \Omega^{(l,h)}$. `Parameters.weights` converts to the scaling of (1), (2),
(4), which all the rest of the package uses.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from statmech_attention.network import Weights
from statmech_attention.tasks._sequences import CHANNELS, CompactTokens


class Parameters(NamedTuple):
    """All trained parameters, in the trained scaling.

    Attributes:
        queries: $Q^{(l,h)}$, one array `(H_l, dimension, features)` a layer.
        keys: $K^{(l,h)}$, the same shapes.
        projection: $V^{(0)}$.
        values: $V^{(l,h)}$, one array `(H_l, width, width)` a layer.
        readout: $a$.
    """

    queries: tuple[Float[Array, "_heads dimension features"], ...]
    keys: tuple[Float[Array, "_heads dimension features"], ...]
    projection: Float[Array, "width features"]
    values: tuple[Float[Array, "_heads width width"], ...]
    readout: Float[Array, " width"]

    @property
    def heads(self) -> tuple[int, ...]:
        """$(H_1, .., H_L)$."""
        return tuple(len(values) for values in self.values)

    def weights(self) -> Weights:
        r"""The same network in the scaling of (1), (2), (4): $\sqrt{N_0} V^{(0)}$, $\sqrt N V^{(l,h)}$, $\sqrt N a$.

        Returns:
            `Weights` for `forward`, which then gives the outputs of this network.
        """
        width, features = (math.sqrt(size) for size in self.projection.shape)
        values = tuple(width * layer for layer in self.values)
        return Weights(features * self.projection, values, width * self.readout)


def initial(
    key: PRNGKeyArray | UInt32[Array, "2"], heads: tuple[int, ...], width: int, dimension: int, features: int
) -> Parameters:
    """Parameters before training, uniform in plus or minus the inverse root of the number of inputs, in float32.

    Args:
        key: a JAX random key.
        heads: number of heads in every layer.
        width: $N$.
        dimension: $G$, of queries and keys.
        features: $N_0$.

    Returns:
        `Parameters`.
    """
    layers = len(heads)
    keys = jax.random.split(key, 3 * layers + 2)

    def uniform(number: int, *shape: int):
        bound = 1 / math.sqrt(shape[-1])
        return jax.random.uniform(keys[number], shape, jnp.float32, -bound, bound)

    return Parameters(
        tuple(uniform(layer, count, dimension, features) for layer, count in enumerate(heads)),
        tuple(uniform(layers + layer, count, dimension, features) for layer, count in enumerate(heads)),
        uniform(3 * layers, width, features),
        tuple(uniform(2 * layers + layer, count, width, width) for layer, count in enumerate(heads)),
        uniform(3 * layers + 1, width),
    )


def effective_vectors(parameters: Parameters) -> Float[Array, "paths features"]:
    r"""$v^\pi$ of $f = \sum_\pi v^\pi \cdot \xi^\pi(x)$; in (5), $(N N_0 \prod_l H_l)^{-1/2} {V^{(0)}}^\top w^\pi$.

    Args:
        parameters: `Parameters`.

    Returns:
        `(paths, features)`, paths with $h_1$ slowest.
    """
    rows = parameters.readout[None, :]
    for values in reversed(parameters.values):
        rows = jnp.einsum("dm,hmn->hdn", rows, values).reshape(-1, values.shape[2])
    return rows @ parameters.projection / math.sqrt(len(rows))


def outputs(
    parameters: Parameters,
    compact: CompactTokens,
    patches: Float[Array, "examples tokens pixels"],
    first: Float[Array, " examples"],
) -> Float[Array, " examples"]:
    """The network's outputs, read out as the mean over tokens; fast to differentiate with respect to `parameters` only.

    Args:
        parameters: `Parameters`.
        compact: the constant parts of the tokens.
        patches: the normalised patches.
        first: label of the first image, +1 or -1.

    Returns:
        `(examples,)`.
    """
    flat = patches.reshape(-1, patches.shape[-1])
    phases = jnp.stack([jnp.ones_like(first), first], axis=1)
    label = first[:, None] * compact.signs[None, :]
    columns = None
    for queries, keys in zip(reversed(parameters.queries), reversed(parameters.keys), strict=True):
        matrices = _matrices(_products(queries, keys, compact), compact.signs, flat, phases, label)
        if columns is None:
            columns = jnp.mean(matrices, axis=1)
        else:
            columns = jnp.einsum("edt,eths->edhs", columns, matrices).reshape(*columns.shape[:1], -1, columns.shape[2])
    # The columns' paths have h_L slowest.
    layers = len(parameters.heads)
    vectors = effective_vectors(parameters)
    vectors = vectors.reshape(*parameters.heads, -1).transpose(*reversed(range(layers)), layers).reshape(vectors.shape)
    table = jnp.stack([compact.constants @ vectors.T, compact.signs[:, None] * (vectors @ compact.difference)[None]])
    seen = _affine(flat, phases, _over_channels(vectors).T, table.reshape(2, -1)).reshape(*label.shape, -1)
    return jnp.einsum("eps,esp->e", columns, seen)


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
