r"""Rows, one per (example, token), and the steps of the recursion (K3) between their Gram matrices.

A layer takes the backward signals $\delta_{\mu t} = \sqrt N \partial f_\mu / \partial x_{\mu t}$ of
its output to those of its input,

    delta'_{mu t} = sum_s sum_t' B_s(mu)_{t t'} g^s_{mu t'},

where a kept seed $g^s$ is $\delta$ itself and the others are independent Gaussian vectors with the
Gram matrix of $\delta$. $B_s$ follows from `attended`, `mixing`, `gains` and `divisor` of the
layer's kind, as `statmech_attention.layers.kind` has them; it stays within an example. Examples are
sorted by length, and those of one length are multiplied together, so that nothing is padded.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from statmech_attention.layers.chains import Chain
from statmech_attention.model.attention import chain_and_matrices
from statmech_attention.model.inputs import padded, token_weights
from statmech_attention.model.scales import scaled_attended, token_scales

_AT_ONCE = 2**22  # entries of a block of rows, all seeds together


class Group(NamedTuple):
    """Examples of one length: their rows, and one array $B_s$ `(examples, seeds, below, above)` per layer."""

    rows: slice
    length: int
    maps: tuple[Float[np.ndarray, "examples _seeds tokens tokens"], ...]


class TokenRows(NamedTuple):
    """Rows of all examples; `order` has the examples in the order of the rows, `starts` where each begins."""

    chain: Chain
    groups: tuple[Group, ...]
    tokens: Float[np.ndarray, "rows features"]
    weights: Float[np.ndarray, " rows"]
    order: Int[np.ndarray, " examples"]
    starts: Int[np.ndarray, " examples"]

    def per_example(self, rows: Float[np.ndarray, "rows *columns"]) -> Float[np.ndarray, "examples *columns"]:
        """Sums over the tokens of every example, in the order in which the examples were given."""
        found = np.empty((len(self.order), *rows.shape[1:]))
        found[self.order] = np.add.reduceat(rows, self.starts, axis=0)
        return found

    def seen(self, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "examples features columns"]:
        """Sums of the tokens of every example, weighted by each column; over the root of $N_0$."""
        found = np.empty((len(self.order), self.tokens.shape[1], rows.shape[1]))
        for place, (first, last) in enumerate(zip(self.starts, [*self.starts[1:], len(rows)], strict=True)):
            found[self.order[place]] = self.tokens[first:last].T @ rows[first:last]
        return found / np.sqrt(self.tokens.shape[1])

    def blocks(self, at_once: int) -> Iterator[tuple[slice, "TokenRows"]]:
        """The rows of at most so many examples of one length, with their place among the sorted examples."""
        first = 0
        for group in self.groups:
            examples = (group.rows.stop - group.rows.start) // group.length
            for start in range(0, examples, at_once):
                count = min(at_once, examples - start)
                here = slice(group.rows.start + start * group.length, group.rows.start + (start + count) * group.length)
                maps = tuple(one[start : start + count] for one in group.maps)
                whole = Group(slice(0, count * group.length), group.length, maps)
                starts = group.length * np.arange(count)
                cut = TokenRows(self.chain, (whole,), self.tokens[here], self.weights[here], np.arange(count), starts)
                yield slice(first + start, first + start + count), cut
            first += examples

    def spread(self, examples: Float[np.ndarray, "examples *columns"]) -> Float[np.ndarray, "rows *columns"]:
        """The entry of its example for every row."""
        return np.repeat(examples[self.order], np.diff(self.starts, append=len(self.weights)), axis=0)


def token_rows(
    inputs, attention=None, *, layers=None, readout="last", scales=None, norm="post", layout="key_query", mask=None
) -> TokenRows:
    """Rows of the arguments of `attentioned_inputs`, for any number of paths."""
    inputs, mask = padded(inputs, mask)
    weights = token_weights(readout, mask, *inputs.shape[:2])
    chain, matrices = chain_and_matrices(inputs, attention, layers, layout, mask)
    norms = token_scales(scales, norm, chain, inputs)
    each = zip(chain.layers, matrices, norms, strict=True)
    maps = [_seed_maps(layer, matrix, before, after, inputs.shape[:2]) for layer, matrix, (before, after) in each]
    mask = np.ones(inputs.shape[:2], bool) if mask is None else mask
    lengths = mask.sum(axis=1)
    order = np.argsort(lengths, kind="stable")
    starts = np.cumsum(lengths[order]) - lengths[order]
    tokens = np.concatenate([np.asarray(inputs[one], float)[mask[one]] for one in order])
    heights = np.concatenate([np.asarray(weights[one], float)[mask[one]] for one in order])
    groups, first = [], 0
    for length, count in zip(*np.unique(lengths, return_counts=True), strict=True):
        chosen = order[first : first + count]
        places = np.stack([np.flatnonzero(mask[one]) for one in chosen])
        index = chosen[:, None, None], slice(None), places[:, :, None], places[:, None, :]
        cut = tuple(np.ascontiguousarray(np.moveaxis(one[index], -1, 1)) for one in maps)
        rows = slice(int(starts[first]), int(starts[first] + count * length))
        groups.append(Group(rows, int(length), cut))
        first += count
    return TokenRows(chain, tuple(groups), tokens, heights, order, starts)


def _seed_maps(layer, matrix, before, after, shape) -> Float[np.ndarray, "examples seeds tokens tokens"]:
    """$B_s$ of a layer, at unit variances."""
    eye = jnp.broadcast_to(jnp.eye(shape[1]), (*shape, shape[1]))
    branches = np.swapaxes(np.asarray(scaled_attended(layer, eye, matrix, before, after), float), -1, -2)
    coefficients = np.asarray(layer.gains)[:, None] / np.sqrt(layer.divisor) * layer.mixing(1.0)
    if coefficients.shape[0] == coefficients.shape[1] and np.array_equal(
        coefficients, np.diag(np.diagonal(coefficients))
    ):
        return np.diagonal(coefficients)[:, None, None] * branches
    return np.einsum("bs,ebtu->estu", coefficients, branches)


def transposed(rows: TokenRows) -> TokenRows:
    """The rows with every $B_s$ transposed, for the adjoint of the recursion."""
    groups = (group._replace(maps=tuple(np.swapaxes(one, -1, -2) for one in group.maps)) for group in rows.groups)
    return rows._replace(groups=tuple(groups))


def stepped(rows: TokenRows, others: TokenRows, layer: int, seeds: slice, gram) -> Float[np.ndarray, "rows others"]:
    """$\\sum_s B_s G B_s^\\top$ over `seeds`, of a Gram matrix between two sets of rows."""
    found = np.zeros(gram.shape)
    for group in rows.groups:
        maps, length = group.maps[layer][:, seeds], group.length
        examples, count = maps.shape[:2]
        if not count:
            return found
        at_once = max(1, _AT_ONCE // (count * length * gram.shape[1]))
        for first in range(0, examples, at_once):
            some = maps[first : first + at_once]
            here = slice(group.rows.start + first * length, group.rows.start + (first + len(some)) * length)
            half = some.reshape(len(some), -1, length) @ gram[here].reshape(len(some), length, -1)
            half = half.reshape(len(some), count, length, -1)
            for other in others.groups:
                right = other.maps[layer][:, seeds].swapaxes(-1, -2).reshape(-1, count * other.length, other.length)
                left = half[..., other.rows].reshape(len(some), count, length, len(right), other.length)
                left = left.transpose(3, 0, 2, 1, 4).reshape(len(right), -1, count * other.length)
                found[here, other.rows] = (left @ right).transpose(1, 0, 2).reshape(len(some) * length, -1)
    return found


def seeded(rows: TokenRows, layer: int, columns: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "..."]:
    """$B_s$ times columns, `(seeds, rows, columns)`."""
    found = [
        np.moveaxis(group.maps[layer] @ columns[group.rows].reshape(-1, 1, group.length, columns.shape[1]), 1, 0)
        for group in rows.groups
    ]
    return np.concatenate([one.reshape(len(one), -1, columns.shape[1]) for one in found], axis=1)


def token_products(rows: TokenRows, others: TokenRows, gram) -> Float[np.ndarray, "examples others"]:
    r"""$\frac{1}{N_0} \sum_{ts} x_{\mu t} \cdot x_{\nu s}\, G_{\mu t, \nu s}$, (K2) at a unit variance."""
    products = gram * (rows.tokens @ others.tokens.T) / rows.tokens.shape[1]
    return others.per_example(rows.per_example(products).T).T


def layer_step(rows: TokenRows, others: TokenRows, layer: int, gram, variance):
    """(K3): the Gram matrix below a layer, and the part of it that has passed the layer's values."""
    kept = int(rows.chain.layers[layer].keeps)
    values = variance * stepped(rows, others, layer, slice(kept, None), gram)
    return (values + stepped(rows, others, layer, slice(0, kept), gram) if kept else values), values


def infinite_width(rows: TokenRows, others: TokenRows, variances, see: Callable = lambda *_: None):
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
