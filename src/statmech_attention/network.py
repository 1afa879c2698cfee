"""The network itself: weights, layer-by-layer forward pass, effective weights.

Equations (1), (2), (4), (5), (6). Widths: $N_l$ enters attention layer $l$, $N_{L+1}$ the readout.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt32

from statmech_attention import _checks
from statmech_attention._architecture import architecture
from statmech_attention.attention import attention_matrices
from statmech_attention.paths import AttentionedInputs, readout_weights


class Weights(NamedTuple):
    r"""All learned weights of (8); queries and keys are not among them.

    Attributes:
        projection: $V^{(0)}$, `(N_1, features)`.
        values: $V^{(l,h)}$, one array `(H_l, N_{l+1}, N_l)` a layer.
        readout: $a$, `(N_{L+1},)`.
    """

    projection: Float[Array, "*batch width_in features"]
    values: tuple[Float[Array, "*batch _heads _width_out _width_in"], ...]
    readout: Float[Array, "*batch width_out"]


def sample_weights(key: PRNGKeyArray | UInt32[Array, "2"], *, heads, width, features, variance=1.0) -> Weights:
    r"""Weights drawn from the prior: every entry is $\mathcal N(0, \sigma_l^2)$.

    Args:
        key: a JAX random key.
        heads: number of heads in every layer, $(H_1, .., H_L)$.
        width: $N$, or one whole number a layer, $(N_1, .., N_{L+1})$.
        features: $N_0$.
        variance: $\sigma^2$, or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.

    Returns:
        `Weights`.

    Raises:
        ValueError: numbers out of range, wrong lengths, a width that is not whole.
    """
    layout = architecture(heads, width, variance)
    widths = []
    for number in layout.widths:
        if not _checks.whole(number, 1):
            raise ValueError(f"width: wanted whole numbers to draw weights, got {number}.")
        widths.append(int(number))
    if not _checks.whole(features, 1):
        raise ValueError(f"features: wanted a whole number of at least 1, got {features!r}.")
    keys = jax.random.split(key, len(layout.heads) + 2)
    scales = np.sqrt(np.asarray(layout.variances))
    values = tuple(
        scales[layer + 1] * jax.random.normal(keys[layer + 1], (count, widths[layer + 1], widths[layer]))
        for layer, count in enumerate(layout.heads)
    )
    return Weights(
        scales[0] * jax.random.normal(keys[0], (widths[0], int(features))),
        values,
        scales[-1] * jax.random.normal(keys[-1], (widths[-1],)),
    )


def forward(weights: Weights, inputs, attention, readout="last") -> Float[Array, " examples"]:
    r"""The network's output $f(x)$, layer by layer: equations (1), (2), (4).

    $x^0 = V^{(0)} x / \sqrt{N_0}$, $x^l = \frac{1}{\sqrt{N_l H_l}} \sum_h V^{(l,h)} x^{l-1} \Omega^{(l,h)}$,
    $f = a \cdot x^L_{t^*} / \sqrt{N_{L+1}}$.

    Args:
        weights: `Weights`.
        inputs: `(examples, tokens, features)`.
        attention: anything `attention_matrices` takes.
        readout: "first", "last", a token's index, or "mean".

    Returns:
        `(examples,)`.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    inputs = _checks.array("inputs", inputs, "examples tokens features")
    matrices = attention_matrices(inputs, attention)
    _check_fit(weights, inputs.shape[2], tuple(matrix.shape[1] for matrix in matrices))
    hidden = inputs @ weights.projection.T / _root(inputs.shape[2])
    for values, matrix in zip(weights.values, matrices, strict=True):
        attended = jnp.einsum("esn,ehst->ehtn", hidden, matrix)
        hidden = jnp.einsum("hmn,ehtn->etm", values, attended) / _root(values.shape[0] * values.shape[2])
    read = jnp.einsum("t,etm->em", readout_weights(readout, inputs.shape[1]).astype(hidden.dtype), hidden)
    return read @ weights.readout / _root(weights.readout.shape[0])


def effective_weights(weights: Weights) -> Float[Array, "paths width"]:
    r"""$w^\pi = (N_{L+1} \cdots N_2)^{-1/2}\, a^\top V^{(L,h_L)} \cdots V^{(1,h_1)}$, equation (6).

    Args:
        weights: `Weights`.

    Returns:
        `(paths, N_1)`; $V^{(0)}$ is left out.
    """
    return _partial_weights(weights)[0]


def forward_paths(weights: Weights, attentioned: AttentionedInputs) -> Float[Array, " examples"]:
    r"""The network's output in path form, $f = (N_1 N_0 \prod_l H_l)^{-1/2} \sum_\pi w^\pi \cdot V^{(0)} \xi^\pi(x)$, (5).

    Args:
        weights: `Weights`.
        attentioned: the result of `attentioned_inputs`.

    Returns:
        `(examples,)`, the same numbers as `forward`.

    Raises:
        ValueError: shapes that do not fit each other.
    """
    _check_fit(weights, attentioned.values.shape[-1], attentioned.heads)
    paths, features = attentioned.values.shape[1:]
    columns = effective_weights(weights) @ weights.projection / _root(weights.projection.shape[0] * features * paths)
    return jnp.einsum("epi,pi->e", attentioned.values, columns)


def weights_order_parameters(weights: Weights) -> tuple[Float[Array, "..."], ...]:
    r"""$U^{(l)}_{\pi\pi'} = w^\pi \cdot w^{\pi'} / N_l$ of one weight configuration, the bracket of (13).

    Args:
        weights: `Weights`.

    Returns:
        $(U^{(1)}, .., U^{(L)}, U^{(L+1)})$; the last is the scalar $a \cdot a / N_{L+1}$.
    """
    overlaps = [partial @ partial.T / partial.shape[1] for partial in _partial_weights(weights)]
    return (*overlaps[:-1], overlaps[-1][0, 0])


def _partial_weights(weights: Weights) -> list:
    """Effective weights of the partial paths that start in layer 1, 2, .., L+1."""
    partial = [weights.readout[None, :]]
    for values in reversed(weights.values):
        rows = jnp.einsum("dm,hmn->hdn", partial[0], values) / _root(values.shape[1])
        partial.insert(0, rows.reshape(-1, values.shape[2]))
    return partial


def _root(number: int) -> float:
    # A Python float keeps the arrays' own precision; a NumPy scalar would promote float32.
    return float(np.sqrt(number))


def _check_fit(weights: Weights, features: int, heads: tuple[int, ...]) -> None:
    ranks = (weights.projection.ndim, *(values.ndim for values in weights.values), weights.readout.ndim)
    if ranks != (2, *(3,) * len(weights.values), 1):
        raise ValueError(
            f"weights: wanted shapes (N_1, features), (heads, N_out, N_in) a layer, (N,), got axes {ranks}."
        )
    got = tuple(values.shape[0] for values in weights.values)
    if got != heads or weights.projection.shape[1] != features:
        raise ValueError(
            f"weights: wanted heads {heads} and {features} features to fit the inputs, "
            f"got heads {got} and {weights.projection.shape[1]} features."
        )
    widths = [weights.projection.shape[0], *(values.shape[1] for values in weights.values)]
    entering = [*(values.shape[2] for values in weights.values), weights.readout.shape[0]]
    if widths != entering:
        raise ValueError(f"weights: wanted each layer to take the width below it, got {widths} into {entering}.")
