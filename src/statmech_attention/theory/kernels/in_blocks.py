r"""Examples in blocks of few shapes, and (K3) between such blocks, compiled and in bounded memory.

Tokens that are missing in a block are zeros, which nothing sees. A kernel of examples with themselves is
symmetric, and half of the blocks will do.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from statmech_attention.compiling import quick_jit
from statmech_attention.layers.chains import Chain
from statmech_attention.model.tokens import TokenInputs

_LENGTHS = 4  # lengths are padded to multiples of it
_ENTRIES = {"cpu": 2**21}  # of the matrices of two blocks, all seeds together: what fits into a cache
_ON_ACCELERATOR = 2**27
_DERIVED = 4  # times as many where all levels are kept for derivatives


class Block(NamedTuple):
    """Some examples, with zeros for those and for the tokens that are missing."""

    numbers: Int[np.ndarray, " known"]
    maps: list[Float[np.ndarray | Array, "..."]]
    tokens: Float[np.ndarray | Array, "examples tokens features"]
    weights: Float[np.ndarray | Array, "examples tokens"]

    def cast(self, number) -> "Block":
        """Arrays of another precision, but what is single, on the device, or on several if they divide the examples."""

        def cast(array):
            return jnp.asarray(array, np.float32 if array.dtype == np.float32 else number)

        arrays, devices = jax.tree.map(cast, self[1:]), jax.devices()
        if len(devices) > 1 and len(self.weights) % len(devices) == 0:
            shared = NamedSharding(Mesh(np.array(devices), ("examples",)), PartitionSpec("examples"))
            arrays = jax.tree.map(lambda array: jax.device_put(array, shared), arrays)
        return Block(self.numbers, *arrays)


def whole_block(inputs: TokenInputs, length: int) -> tuple[list, Any, Any]:
    """Maps as matrices, tokens and weights of all examples, in the order in which they were given."""
    block, given = next(padded_blocks(inputs, len(inputs), length)), np.argsort(inputs.order)
    maps = [own if own.ndim == 4 else own[..., None] * np.eye(length) for own in block.maps]
    return [own[given] for own in maps], block.tokens[given], block.weights[given]


def padded_blocks(inputs: TokenInputs, at_once: int, length: int | None = None) -> Iterator[Block]:
    """So many examples at a time, in the order of the rows, padded to this length, or to the longest of them."""
    examples = list(inputs.examples())
    for first in range(0, len(inputs), at_once):
        some = slice(first, first + at_once)
        longest = len(examples[some][-1].tokens)
        tokens, weights, maps = zip(*examples[some], strict=True)
        padded = partial(_padded, examples=at_once, length=length or longest + -longest % _LENGTHS)
        each: list[Any] = [padded(layer, range(1, layer[0].ndim)) for layer in zip(*maps, strict=True)]
        yield Block(inputs.order[some], each, padded(tokens, [0]), padded(weights, [0]))


def _padded(parts, axes, examples: int, length: int) -> Float[np.ndarray, "examples ..."]:
    """Arrays of single examples in one, with zeros beyond their tokens, which are on these axes."""
    shape = [length if axis in axes else size for axis, size in enumerate(parts[0].shape)]
    whole = np.zeros((examples, *shape), parts[0].dtype)
    for place, part in zip(whole, parts, strict=False):
        place[tuple(map(slice, part.shape))] = part
    return whole


def kernel_in_blocks(
    inputs: TokenInputs, others: TokenInputs, variances, *, single: bool = False
) -> Float[np.ndarray, "examples others"]:
    r"""$K$ of infinite width at a unit variance of the readout, by (K3) and (K2), a block of pairs at a time.

    With `single` numbers within a block are of single precision.
    """
    kernel, known = np.empty((len(inputs), len(others))), factors_and_keeps(inputs.chain, variances)
    for one, other in _pairs(inputs, others, np.float32 if single else np.float64):
        _fill(kernel, one, other, _kernel(one[1:], other[1:], *known), others is inputs)
    return variances[0] * kernel


def slopes_in_blocks(
    inputs: TokenInputs, others: TokenInputs, variances
) -> list[Float[np.ndarray, "_gates examples others"]]:
    r"""Derivatives of this $K$ in gates on the variances of a layer's values, or on that of a block of units."""
    sizes = [1 if layer.gates else layer.seeds - int(layer.keeps) for layer in inputs.chain.layers]
    slopes = [np.empty((size, len(inputs), len(others))) for size in sizes]
    known = factors_and_keeps(inputs.chain, variances)
    for one, other in _pairs(inputs, others, np.float64, _DERIVED):
        for whole, part in zip(slopes, _slopes_of_blocks(one[1:], other[1:], *known), strict=True):
            _fill(whole, one, other, variances[0] * np.asarray(part), others is inputs)
    return slopes


def pulled_in_blocks(
    inputs: TokenInputs, variances, pull: Float[np.ndarray, "examples examples"]
) -> list[Float[np.ndarray, " seeds"]]:
    r"""Derivatives of $\mathrm{tr}(W K)$ in gates on the variances of values, for a symmetric $W$."""
    factors, keeps = factors_and_keeps(inputs.chain, variances)
    totals = [np.zeros(len(factor)) for factor in factors]
    for one, other in _pairs(inputs, inputs, np.float64, _DERIVED):
        part = pull[np.ix_(one.numbers, other.numbers)] * (1 if one.numbers[0] == other.numbers[0] else 2)
        missing = len(one.weights) - len(one.numbers), len(other.weights) - len(other.numbers)
        weights = np.pad(variances[0] * part, [(0, count) for count in missing])
        slopes = _pulled_of_blocks(one[1:], other[1:], factors, keeps, weights)
        totals = [total + np.asarray(slope) for total, slope in zip(totals, slopes, strict=True)]
    return [(total * factor)[keep:] for total, factor, keep in zip(totals, factors, keeps, strict=True)]


def biases_in_blocks(inputs: TokenInputs, others: TokenInputs, variances) -> Float[np.ndarray, "examples others"]:
    r"""Sums over tokens of what enters the values of all layers, and of what leaves the layers."""
    kernel, known = np.empty((len(inputs), len(others))), factors_and_keeps(inputs.chain, variances)
    for one, other in _pairs(inputs, others, np.float64):
        grams, values = zip(*levels_between(one[1:], other[1:], *known), strict=True)
        _fill(kernel, one, other, sum((*grams[:-1], *values[1:])).sum(axis=(1, 3)), others is inputs)
    return kernel


def layer_step(
    inputs: TokenInputs, others: TokenInputs, layer: int, gram, variance, *, up: bool = False
) -> Float[np.ndarray, "rows others"]:
    r"""(K3) of a layer between all rows, $\sum_s B_s G B_s^\top$; `up` has its adjoint, $\sum_s B_s^\top G B_s$.

    Of the same inputs the matrix is symmetric.
    """
    left = _single_layer(inputs, layer, up)
    right, found = left if others is inputs else _single_layer(others, layer, up), np.empty_like(gram)
    kind = inputs.chain.layers[layer]
    known = seed_variances(kind, variance), int(kind.keeps)
    for one, other in _pairs(left, right, gram.dtype):
        rows, columns = (np.asarray(block.tokens)[..., 0].astype(int) - 1 for block in (one, other))
        part, _ = _step(one.maps[0], other.maps[0], gram[rows[..., None, None], columns], *known)
        here, there = rows[rows >= 0], columns[columns >= 0]
        found[np.ix_(here, there)] = part = np.asarray(part)[rows >= 0][:, columns >= 0]
        if others is inputs:
            found[np.ix_(there, here)] = part.T
    return found


def _single_layer(inputs: TokenInputs, layer: int, up: bool) -> TokenInputs:
    """One layer alone, with numbers of rows from 1 in the place of tokens; `up` has its maps transposed."""
    each = [group.maps[layer] for group in inputs.groups]
    maps = [part.swapaxes(-1, -2) if up and part.ndim == 4 else part for part in each]
    groups = tuple(group._replace(maps=(part,)) for group, part in zip(inputs.groups, maps, strict=True))
    return replace(inputs, groups=groups, tokens=1.0 + np.arange(len(inputs.weights))[:, None])


def _pairs(inputs: TokenInputs, others: TokenInputs, number, times: int = 1) -> Iterator[tuple[Block, Block]]:
    """All pairs of blocks, of the same inputs half of them."""
    at_once = pairs_at_once(inputs, others, times)
    rows = list(padded_blocks(inputs, at_once))
    columns = rows if others is inputs else list(padded_blocks(others, at_once))
    for place, row in enumerate(rows):
        one = row.cast(number)
        for other in columns[place if others is inputs else 0 :]:
            yield one, other.cast(number)


def pairs_at_once(inputs: TokenInputs, others: TokenInputs, times: int = 1) -> int:
    """Number of examples of a block, so that the matrices of two fit `times` over into fast memory."""
    seeds = max([layer.shape[1] for layer in inputs.groups[0].maps if layer.ndim == 4], default=1)
    longest = max(each.groups[-1].length for each in (inputs, others))
    entries = _ENTRIES.get(jax.default_backend(), _ON_ACCELERATOR)
    most = 1 << max(0, int(math.log2(max(1.0, math.sqrt(entries / (times * seeds * longest**2))))))
    return min(most, 1 << (max(len(inputs), len(others)) - 1).bit_length())


def _fill(whole, one: Block, other: Block, part, symmetric: bool) -> None:
    """Put what is found for two blocks where their examples are."""
    part = np.asarray(part, float)[..., : len(one.numbers), : len(other.numbers)]
    whole[..., one.numbers[:, None], other.numbers] = part
    if symmetric:
        whole[..., other.numbers[:, None], one.numbers] = part.swapaxes(-1, -2)


def factors_and_keeps(chain: Chain, variances) -> tuple[list[Float[np.ndarray, " seeds"]], tuple[int, ...]]:
    """The variance of every seed, one of kept ones, and how many are kept, from the first layer up."""
    factors = [seed_variances(*pair) for pair in zip(chain.layers, variances[1:-1], strict=True)]
    return factors, tuple(int(layer.keeps) for layer in chain.layers)


def seed_variances(layer, variance: float) -> Float[np.ndarray, " seeds"]:
    """One of a kept seed, and that of the values of the others."""
    return np.where(np.arange(layer.seeds) < int(layer.keeps), 1.0, variance)


@quick_jit(static=("keeps",))
def _slopes_of_blocks(one, other, factors, keeps: tuple[int, ...]):
    """Derivatives in gates of every pair of examples, `(gates, examples, others)` for a layer."""
    pair = len(one[2]), len(other[2])
    sizes = [1 if own.ndim == 3 else own.shape[1] - keep for own, keep in zip(one[0], keeps, strict=True)]
    gates = [jnp.ones((size, *pair)) for size in sizes]
    return jax.grad(lambda gates: jnp.sum(_kernel(one, other, factors, keeps, gates)))(gates)


@quick_jit(static=("keeps",))
def _pulled_of_blocks(one, other, factors, keeps: tuple[int, ...], pull):
    """Derivatives in the variances of all seeds of what has the derivatives `pull` in the kernel."""
    return jax.grad(lambda factors: jnp.vdot(pull, _kernel(one, other, factors, keeps)))(factors)


def _kernel(one, other, factors, keeps, gates=None):
    """(K3) and (K2) between two blocks."""
    *_, (gram, _) = levels_between(one, other, factors, keeps, gates)
    return summed_tokens(one[1], other[1], gram)


@quick_jit()
def summed_tokens(tokens, others, gram) -> Float[Array, "examples others"]:
    """(K2) between two blocks, at a unit variance of the projection."""
    products = jnp.einsum("pti,qui->ptqu", tokens, others, precision="highest")
    return jnp.sum(products * gram, axis=(1, 3)) / tokens.shape[2]


def levels_between(one, other, factors, keeps: tuple[int, ...], gates=None) -> Iterator[tuple[Array, Array]]:
    """(K3) between two blocks from the readout down: what enters a level, and the part that has passed values."""
    (left, _, weights), (right, _, read) = one, other
    gram = jnp.einsum("pt,qu->ptqu", weights, read)
    yield gram, gram
    each = zip(left[::-1], right[::-1], factors[::-1], keeps[::-1], (gates or len(left) * [None])[::-1], strict=True)
    for own, theirs, *known in each:
        gram, values = _step(own, theirs, gram, *known)
        yield gram, values


@quick_jit(static=("keep",))
def _step(own, theirs, gram, factor, keep: int, gate=None):
    """(K3) of a layer between two blocks: what enters it, and the part that has passed values."""
    scaled = own * factor.astype(own.dtype).reshape(1, -1, *(1,) * (own.ndim - 2))
    values = _mapped(scaled[:, keep:], theirs[:, keep:], gram, gate)
    return (values + _mapped(own[:, :keep], theirs[:, :keep], gram) if keep else values), values


def _mapped(own, theirs, gram, gate=None):
    r"""$\sum_s g_s B_s G B_s^\top$ between two blocks; of gated units, diagonals of their maps, $g$ is one."""
    if own.ndim == 3:
        through = jnp.einsum("pst,qsu->ptqu", own, theirs, precision="highest").astype(gram.dtype) * gram
        return through if gate is None else gate[0, :, None, :, None] * through
    half = jnp.einsum("pstv,pvqu->qptsu", own, gram, precision="highest")
    half = half if gate is None else gate.transpose(2, 1, 0)[:, :, None, :, None] * half
    return jnp.einsum("qptsu,qswu->ptqw", half, theirs, precision="highest")
