r"""The kernel of infinite width without paths: the recursion (K3) between Gram matrices of rows (example, token)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from statmech_attention.layers.chains import Chain
from statmech_attention.model.architecture import variances
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.in_blocks import kernel_in_blocks

_COMPILED = 2**20  # pairs of rows from which on it pays to compile
_AT_ONCE = 2**22  # entries of a block of rows, all seeds together


def kernel_of_tokens(
    inputs: TokenInputs, others, variance, single: bool = False
) -> Float[np.ndarray, "examples others"]:
    r"""$K$ of infinite width for any number of paths, (K2) and (K3); of one of several outputs.

    From the readout $G_{L+1} = \sigma_a^2 \omega \omega^\top$ down, in general
    $G_l = \sigma_l^2 \sum_s B_s G_{l+1} B_s^\top$; for heads,

        G_l = sigma_l^2 / H_l sum_h Omega_h G_{l+1} Omega_h^T  (+ G_{l+1} beside a skip),
        G_l = sigma_l^2 / M sum_m g_m g_m^T o G_{l+1} + G_{l+1}     (gated units beside a skip),
        K   = sigma_0^2 / N_0 sum_ts x_t . x_s G_1[t, s].
    """
    check_alike(inputs, others, "others")
    known = variances(variance, len(inputs.chain.layers))
    if single or len(inputs.tokens) * len(others.tokens) > _COMPILED:
        return known[-1] * kernel_in_blocks(inputs, others, known, single=single)
    return known[-1] * infinite_width(inputs, others, known)


def check_alike(inputs: TokenInputs, others: TokenInputs, name: str) -> None:
    """Raise ValueError unless both are inputs of the same network."""
    if not (isinstance(inputs, TokenInputs) and isinstance(others, TokenInputs)):
        raise ValueError(f"{name}: wanted token_inputs, got {type(others).__name__} beside {type(inputs).__name__}.")
    check_network(others, inputs.chain, inputs.tokens.shape[1], name)


def check_network(inputs: TokenInputs, chain: Chain, features: int, name: str) -> None:
    """Raise ValueError unless these are inputs of a network of these layers and so many features."""
    if inputs.chain != chain or inputs.tokens.shape[1] != features:
        raise ValueError(
            f"{name}: wanted layers {chain.shorthand} and {features} features as in training, got "
            f"{inputs.layers} and {inputs.tokens.shape[1]}."
        )


def transposed(rows: TokenInputs) -> TokenInputs:
    """The rows with every $B_s$ transposed, for the adjoint of the recursion."""
    return replace(rows, groups=tuple(group.transposed() for group in rows.groups))


def mapped(rows: TokenInputs, layer: int, seeds: slice, gram) -> Iterator[tuple[slice, np.ndarray]]:
    """$B_s G$ over `seeds` for some examples of one length at a time: rows, `(examples, seeds, tokens, columns)`."""
    for group in rows.groups:
        maps, length = group.maps[layer][:, seeds], group.length
        count, columns = maps.shape[1], gram.shape[1]
        at_once = max(1, _AT_ONCE // max(1, count * length * columns))
        for first in range(0, len(maps), at_once):
            some = maps[first : first + at_once]
            here = slice(group.rows.start + first * length, group.rows.start + (first + len(some)) * length)
            part = gram[here].reshape(len(some), length, columns)
            if some.ndim == 3:
                yield here, some[..., None] * part[:, None]
                continue
            half = some.reshape(len(some), count * length, length) @ part
            yield here, half.reshape(len(some), count, length, columns)


def stepped(rows: TokenInputs, others: TokenInputs, layer: int, seeds: slice, gram) -> Float[np.ndarray, "rows others"]:
    """$\\sum_s B_s G B_s^\\top$ over `seeds`, of a Gram matrix between two sets of rows."""
    below = np.zeros_like(gram)
    if (left := rows.diagonals(layer, seeds)) is not None:
        return _gated(left, others.diagonals(layer, seeds), gram)
    for here, half in mapped(rows, layer, seeds, gram):
        examples, count, length, _ = half.shape
        if not count:
            return below
        for other in others.groups:
            right = other.maps[layer][:, seeds].swapaxes(-1, -2).reshape(-1, count * other.length, other.length)
            left = half[..., other.rows].reshape(examples, count, length, len(right), other.length)
            left = left.transpose(3, 0, 2, 1, 4).reshape(len(right), -1, count * other.length)
            below[here, other.rows] = (left @ right).transpose(1, 0, 2).reshape(examples * length, -1)
    return below


def _gated(left, right, gram) -> Float[np.ndarray, "rows others"]:
    """$(\\sum_s b_s b_s^\\top) \\circ G$ of diagonals $b_s$, `(rows, seeds)`, in blocks of rows."""
    below = np.empty(gram.shape)
    at_once = max(1, _AT_ONCE // max(1, len(right)))
    for first in range(0, len(left), at_once):
        here = slice(first, first + at_once)
        below[here] = gram[here] * (left[here] @ right.T)
    return below


def seeded(rows: TokenInputs, layer: int, columns: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "..."]:
    """$B_s$ times columns, `(seeds, rows, columns)`."""
    halves = [half.swapaxes(0, 1) for _, half in mapped(rows, layer, slice(None), columns)]
    wide = [half.reshape(len(half), half.shape[1] * half.shape[2], columns.shape[1]) for half in halves]
    return np.concatenate(wide, axis=1)


def token_products(rows: TokenInputs, others: TokenInputs, gram) -> Float[np.ndarray, "examples others"]:
    r"""$\frac{1}{N_0} \sum_{ts} x_{\mu t} \cdot x_{\nu s}\, G_{\mu t, \nu s}$, (K2) at a unit variance."""
    products = gram * (rows.tokens @ others.tokens.T) / rows.tokens.shape[1]
    return others.per_example(rows.per_example(products).T).T


def layer_step(rows: TokenInputs, others: TokenInputs, layer: int, gram, variance):
    """(K3): the Gram matrix below a layer, and the part of it that has passed the layer's values."""
    kept = int(rows.chain.layers[layer].keeps)
    values = variance * stepped(rows, others, layer, slice(kept, None), gram)
    return (values + stepped(rows, others, layer, slice(0, kept), gram) if kept else values), values


def infinite_width(rows: TokenInputs, others: TokenInputs, variances, see: Callable = lambda *_: None):
    r"""$K$ of infinite width at a unit variance of the readout, by (K3) and (K2).

    `see(layer, gram, values)` is called with the matrices of every level, from above: those of a layer's
    input, and the part of it that has passed the layer's values; at first with those of the readout.
    """
    gram = np.outer(rows.weights, others.weights)
    see(len(rows.chain.layers), gram, gram)
    for layer in reversed(range(len(rows.chain.layers))):
        gram, values = layer_step(rows, others, layer, gram, variances[1 + layer])
        see(layer, gram, values)
    return variances[0] * token_products(rows, others, gram)


def bias_kernel(
    inputs: TokenInputs, others: TokenInputs, *, variance: ArrayLike | Sequence[ArrayLike] = 1.0
) -> Float[np.ndarray, "examples others"]:
    r"""Kernel of biases of unit variance, which they add to $K$; times $\sigma_b^2$ for those of another one.

    A bias is the same at all tokens. With $C_l$ the part of (K3) that passes the values of layer $l$,

        K_b = sum_l sum_ts (C_l + G_{l+1})[mu t, nu s],

    the first for vectors of independent entries added to what enters the values of a layer, before the scale of
    a pre-norm, and the second for vectors added to what leaves the layer and its post-norm. Tokens may have a
    constant feature besides, for a bias of the projection.

    Args:
        inputs, others: from `token_inputs`, of the same chain.
        variance: as in `kernel`.

    Source: ours; with frozen attention and gates a bias is one more feature.
    """
    check_alike(inputs, others, "others")
    layers = len(inputs.chain.layers)
    known = variances(variance, layers)
    total = np.zeros((len(inputs.weights), len(others.weights)))

    def add(layer, gram, values):
        nonlocal total
        total = total + (values if layer < layers else 0.0) + (gram if layer else 0.0)

    infinite_width(inputs, others, known, add)
    return known[-1] * others.per_example(inputs.per_example(total).T).T
