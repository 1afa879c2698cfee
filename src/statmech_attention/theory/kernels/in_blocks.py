r"""Examples in blocks of few shapes, and (K3) between such blocks, compiled and in bounded memory.

Tokens that are missing in a block are zeros, which nothing sees. A kernel of examples with themselves is
symmetric, and half of the blocks will do.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

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


def padded_blocks(inputs: TokenInputs, at_once: int) -> Iterator[Block]:
    """So many examples at a time, in the order of the rows, padded to the longest of them."""
    counts = [len(group.maps[0]) for group in inputs.groups]
    ends = np.cumsum(counts)
    for first in range(0, len(inputs), at_once):
        last = min(first + at_once, len(inputs))
        cuts = [first, *(end for end in ends.tolist() if first < end < last), last]
        pieces = [_piece(inputs, ends, *cut) for cut in pairwise(cuts)]
        longest = max(piece.tokens.shape[1] for piece in pieces)
        joined = _joined(pieces, at_once, longest + -longest % _LENGTHS)
        yield Block(inputs.order[first:last], *joined)


def _piece(inputs: TokenInputs, ends, first: int, last: int) -> Block:
    """Examples of one length, by their places in the order of the rows."""
    place = int(np.searchsorted(ends, first, side="right"))
    rows, length, maps = inputs.groups[place]
    start = first - (ends[place] - len(maps[0]))
    some = slice(start, start + last - first)
    tokens = inputs.tokens[rows].reshape(-1, length, inputs.tokens.shape[1])[some]
    weights = inputs.weights[rows].reshape(-1, length)[some]
    return Block(inputs.order[first:last], [layer[some] for layer in maps], tokens, weights)


def _joined(pieces: list[Block], examples: int, length: int):
    """One array of all pieces for each of theirs."""

    def of(parts, axes):
        shape = [length if axis in axes else size for axis, size in _sizes(parts)]
        whole, first = np.zeros((examples, *shape), parts[0].dtype), 0
        for part in parts:
            inside = tuple(slice(size) for size in part.shape[1:])
            whole[(slice(first, first + len(part)), *inside)] = part
            first += len(part)
        return whole

    maps = [of(list(parts), range(2, parts[0].ndim)) for parts in zip(*(piece.maps for piece in pieces), strict=True)]
    return maps, of([piece.tokens for piece in pieces], (1,)), of([piece.weights for piece in pieces], (1,))


def _sizes(parts) -> list[tuple[int, int]]:
    return list(enumerate(parts[0].shape))[1:]


def kernel_in_blocks(
    inputs: TokenInputs, others: TokenInputs, variances, *, single: bool = False
) -> Float[np.ndarray, "examples others"]:
    r"""$K$ of infinite width at a unit variance of the readout, by (K3) and (K2), a block of pairs at a time.

    With `single` numbers within a block are of single precision.
    """
    number = np.float32 if single else np.float64
    seeds = max([layer.shape[1] for layer in inputs.groups[0].maps if layer.ndim == 4], default=1)
    longest = max(each.groups[-1].length for each in (inputs, others))
    entries = _ENTRIES.get(jax.default_backend(), _ON_ACCELERATOR)
    at_once = 1 << max(0, int(math.log2(max(1.0, math.sqrt(entries / (seeds * longest**2))))))
    rows = list(padded_blocks(inputs, at_once))
    columns = rows if others is inputs else list(padded_blocks(others, at_once))
    factors = _factors(inputs.chain, variances)
    kernel = np.empty((len(inputs), len(others)))
    for place, row in enumerate(rows):
        one = row.cast(number)
        for other in columns[place if others is inputs else 0 :]:
            part = np.asarray(_of_blocks(one[1:], other.cast(number)[1:], factors), float)
            part = part[: len(one.numbers), : len(other.numbers)]
            kernel[np.ix_(one.numbers, other.numbers)] = part
            if others is inputs:
                kernel[np.ix_(other.numbers, one.numbers)] = part.T
    return variances[0] * kernel


def _factors(chain: Chain, variances) -> list[Float[np.ndarray, " seeds"]]:
    """The variance of every seed, one of kept ones, from the first layer up."""
    return [seed_variances(*pair) for pair in zip(chain.layers, variances[1:-1], strict=True)]


def seed_variances(layer, variance: float) -> Float[np.ndarray, " seeds"]:
    """One of a kept seed, and that of the values of the others."""
    return np.where(np.arange(layer.seeds) < int(layer.keeps), 1.0, variance)


@quick_jit()
def _of_blocks(one, other, factors):
    """(K3) and (K2) between two blocks."""
    (left, tokens, weights), (right, others, read) = one, other
    gram = weights[:, :, None, None] * read[None, None]
    for own, theirs, factor in zip(left[::-1], right[::-1], factors[::-1], strict=True):
        scaled = own * factor.astype(own.dtype).reshape(1, -1, *(1,) * (own.ndim - 2))
        if own.ndim == 3:  # gates of units, diagonals of their maps
            gram = gram * jnp.einsum("pst,qsu->ptqu", scaled, theirs, precision="highest").astype(gram.dtype)
        else:
            half = jnp.einsum("pstv,pvqu->qptsu", scaled, gram, precision="highest")
            gram = jnp.einsum("qptsu,qswu->ptqw", half, theirs, precision="highest")
    products = jnp.einsum("pti,qui->ptqu", tokens, others, precision="highest")
    return jnp.sum(products * gram, axis=(1, 3)) / tokens.shape[2]
