r"""Inputs of a chain whose paths are never counted: tokens, and the maps of every layer between tokens.

A layer takes the backward signals $\delta_{\mu t} = \sqrt N \partial f_\mu / \partial x_{\mu t}$ of
its output to those of its input,

    delta'_{mu t} = sum_s sum_t' B_s(mu)_{t t'} g^s_{mu t'},

where a kept seed $g^s$ is $\delta$ itself and the others are independent Gaussian vectors with the
Gram matrix of $\delta$. $B_s$ follows from `attended`, `mixing`, `gains` and `divisor` of the
layer's kind, as `statmech_attention.layers.kind` has them; it stays within an example. Examples are
sorted by length and not padded. The maps of a layer with gates are diagonal, and only their diagonals are kept.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from statmech_attention import checks
from statmech_attention.layers.chains import Chain, Layers
from statmech_attention.model.attention import Attention
from statmech_attention.model.given import Given, given_parts
from statmech_attention.model.inputs import ReadAttention
from statmech_attention.model.scales import scaled_attended


class _Example(NamedTuple):
    tokens: Float[np.ndarray, "tokens features"]
    weights: Float[np.ndarray, " tokens"]
    maps: tuple[Float[np.ndarray, "_seeds tokens *_tokens"], ...]


class Group(NamedTuple):
    """Examples of one length: their rows, and one array $B_s$ `(examples, seeds, below, above)` per layer.

    Of a layer with gates it is that of the diagonals, `(examples, seeds, tokens)`.
    """

    rows: slice
    length: int
    maps: tuple[Float[np.ndarray, "examples _seeds tokens *_tokens"], ...]


@dataclass(frozen=True, eq=False, repr=False)
class TokenInputs:
    """Tokens of all examples, one row each, and what every layer does between them, from `token_inputs`.

    Attributes:
        chain: the layers and the readout.
        groups: examples of one length together.
        tokens: `(rows, features)`.
        weights: of every row at the readout.
        order: numbers of the examples in the order of the rows.
    """

    chain: Chain
    groups: tuple[Group, ...]
    tokens: Float[np.ndarray, "rows features"]
    weights: Float[np.ndarray, " rows"]
    order: Int[np.ndarray, " examples"]

    def __len__(self) -> int:
        """Number of examples."""
        return len(self.order)

    @property
    def layers(self) -> tuple:
        """$(H_1, .., H_L)$, or layers of other kinds among them, as in `(2, SkipHeads(2), Outputs(3))`."""
        return self.chain.shorthand

    @property
    def starts(self) -> Int[np.ndarray, " examples"]:
        """The first row of every example, in the order of the rows."""
        return np.concatenate([np.arange(group.rows.start, group.rows.stop, group.length) for group in self.groups])

    @property
    def lengths(self) -> Int[np.ndarray, " examples"]:
        """The number of tokens of every example, in the order of the rows."""
        return np.concatenate([np.full(len(group.maps[0]), group.length) for group in self.groups])

    @property
    def longest(self) -> int:
        """The largest of them."""
        return self.groups[-1].length

    def __repr__(self) -> str:
        paths, features = self.chain.paths, self.tokens.shape[1]
        return f"TokenInputs({len(self)} examples, {features} features, layers={self.layers}: {paths} paths)"

    def take(self, examples) -> "TokenInputs":
        """Some of the examples, by number and in this order, or those where an array of booleans is true."""
        chosen = np.atleast_1d(examples)
        if chosen.dtype == bool:
            checks.same("examples", "booleans", len(chosen), "inputs", len(self))
            chosen = np.flatnonzero(chosen)
        if not len(chosen) or not all(checks.is_whole(number, 0) and number < len(self) for number in chosen.tolist()):
            raise ValueError(f"examples: wanted whole numbers out of 0..{len(self) - 1}, got {examples!r}.")
        each = dict(zip(self.order.tolist(), self.examples(), strict=True))
        return _grouped(self.chain, [each[number] for number in chosen.tolist()])

    def keep_heads(self, kept: Sequence[Sequence[int]]) -> "TokenInputs":
        """The inputs of the sub-network that has only some heads of every layer, as `AttentionedInputs.keep_heads`.

        Raises:
            ValueError: a layer that lets nothing through, a head that is not there, or layers whose
                value matrices are not one for every head.
        """
        smaller, parts = self.chain.keep(kept)
        need_value_matrices((*self.chain.layers, *smaller.layers))
        branches = [list(part.branches) for part in parts]
        gains = [
            np.diagonal(seed_factors(part.layer)) / np.diagonal(seed_factors(layer))[left]
            for part, layer, left in zip(parts, self.chain.layers, branches, strict=True)
        ]

        def of_smaller(maps):
            left = zip(maps, branches, gains, strict=True)
            return tuple(
                layer[:, some] * gain[:, None, None] if layer.ndim == 4 else layer for layer, some, gain in left
            )

        groups = tuple(group._replace(maps=of_smaller(group.maps)) for group in self.groups)
        return replace(self, chain=smaller, groups=groups)

    def without_head(self, layer: int, head: int) -> "TokenInputs":
        """The inputs of the network in which the values of a head of this layer are zero."""
        kind = self.chain.layers[layer]
        branch = kind.branch_heads.index(head)
        need_value_matrices((kind,))

        def silenced(maps):
            changed = maps[layer].copy()
            changed[:, branch] = 0.0
            return (*maps[:layer], changed, *maps[layer + 1 :])

        return replace(self, groups=tuple(group._replace(maps=silenced(group.maps)) for group in self.groups))

    def per_example(self, rows: Float[np.ndarray, "rows *columns"]) -> Float[np.ndarray, "examples *columns"]:
        """Sums over the tokens of every example, in the order in which the examples were given."""
        return np.add.reduceat(rows, self.starts, axis=0)[np.argsort(self.order)]

    def seen(self, rows: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "examples features columns"]:
        """Sums of the tokens of every example, weighted by each column; over the root of $N_0$."""
        sums = np.empty((len(self), self.tokens.shape[1], rows.shape[1]))
        for number, first, length in zip(self.order, self.starts, self.lengths, strict=True):
            sums[number] = self.tokens[first : first + length].T @ rows[first : first + length]
        return sums / np.sqrt(self.tokens.shape[1])

    def spread(self, examples: Float[np.ndarray, "examples *columns"]) -> Float[np.ndarray, "rows *columns"]:
        """The entry of its example for every row."""
        return np.repeat(examples[self.order], self.lengths, axis=0)

    def examples(self) -> Iterator[_Example]:
        """Tokens, weights and maps of one example after another, in the order of the rows."""
        for group in self.groups:
            for number in range(len(group.maps[0])):
                start = group.rows.start + number * group.length
                rows = slice(start, start + group.length)
                yield _Example(self.tokens[rows], self.weights[rows], tuple(layer[number] for layer in group.maps))


def token_inputs(
    inputs: ArrayLike | ReadAttention | Iterable[ReadAttention],
    attention: Attention | None = None,
    *,
    layers: Layers | None = None,
    readout: str | int = "last",
    scales: Sequence[ArrayLike | None] | None = None,
    norm: str = "post",
    layout: str = "key_query",
    mask: ArrayLike | None = None,
    gates: Sequence[ArrayLike] | None = None,
) -> TokenInputs:
    """The arguments of `attentioned_inputs`, for any number of paths: none is made.

    Gates keep their precision, and overlaps of gates are computed in it: thousands of units are cheaper in single.

    A `Problem` with these inputs is solved as one along paths is. What needs single paths, as
    `head_scores` and `tempered_posterior`, takes `attentioned_inputs`.

    Args:
        inputs, attention, layers, readout, scales, norm, layout, mask, gates: as in `attentioned_inputs`.

    Raises:
        ValueError: as `attentioned_inputs`, but for the number of paths.
    """
    options: dict[str, Any] = {"layers": layers, "readout": readout, "scales": scales, "norm": norm}
    parts = [_split(part) for part in given_parts(inputs, attention, gates, layout=layout, mask=mask, **options)]
    return _grouped(parts[0][0], [example for _, examples in parts for example in examples])


def _split(given: Given) -> tuple[Chain, list[_Example]]:
    """The chain and the single examples, without padding."""
    shape = given.inputs.shape[:2]
    each = zip(given.chain.layers, given.matrices, given.norms, strict=True)
    maps = [_seed_maps(layer, matrix, before, after, shape) for layer, matrix, (before, after) in each]
    mask = np.ones(shape, bool) if given.mask is None else given.mask
    tokens, examples = np.asarray(given.inputs, float), []
    for number, counted in enumerate(mask):
        places = np.flatnonzero(counted)
        cut = tuple(
            layer[number][:, places] if layer.ndim == 3 else layer[number][:, places[:, None], places] for layer in maps
        )
        examples.append(_Example(tokens[number, places], np.asarray(given.weights[number], float)[places], cut))
    return given.chain, examples


def _grouped(chain: Chain, examples: list[_Example]) -> TokenInputs:
    """The examples sorted by length."""
    lengths = np.array([len(example.tokens) for example in examples])
    order = np.argsort(lengths, kind="stable")
    groups, first = list[Group](), 0
    for length, members in groupby(order, key=lambda number: int(lengths[number])):
        some = [examples[number] for number in members]
        maps = tuple(np.stack(layer) for layer in zip(*(example.maps for example in some), strict=True))
        groups.append(Group(slice(first, first + length * len(some)), length, maps))
        first += length * len(some)
    tokens = np.concatenate([examples[number].tokens for number in order])
    weights = np.concatenate([examples[number].weights for number in order])
    return TokenInputs(chain, tuple(groups), tokens, weights, order)


def _seed_maps(layer, matrix, before, after, shape) -> Float[np.ndarray, "examples seeds tokens *_tokens"]:
    """$B_s$ of a layer, at unit variances, or their diagonals."""
    if layer.gates:
        diagonals = scaled_attended(layer, jnp.ones((shape[0], 1, shape[1])), matrix, before, after)[:, :, 0]
        factors = np.diagonal(seed_factors(layer)).astype(matrix.dtype)
        return factors[:, None] * np.asarray(diagonals, matrix.dtype)
    eye = jnp.broadcast_to(jnp.eye(shape[1]), (*shape, shape[1]))
    branches = np.swapaxes(np.asarray(scaled_attended(layer, eye, matrix, before, after), float), -1, -2)
    factors = seed_factors(layer)
    if _is_diagonal(factors):
        return np.diagonal(factors)[:, None, None] * branches
    return np.einsum("bs,ebtu->estu", factors, branches)


def seed_factors(layer) -> Float[np.ndarray, "branches seeds"]:
    """The coefficients with which the branches of a layer stand in the maps $B_s$."""
    return np.asarray(layer.gains)[:, None] / np.sqrt(layer.divisor) * layer.mixing(1.0)


def one_value_matrix_per_head(layer) -> bool:
    """True if every branch of a layer is a seed of its own."""
    return _is_diagonal(seed_factors(layer))


def need_value_matrices(layers) -> None:
    """Raise ValueError where heads share value matrices."""
    if not all(map(one_value_matrix_per_head, layers)):
        raise ValueError(f"layers: wanted one value matrix per head, got {', '.join(map(str, layers))}.")


def _is_diagonal(matrix) -> bool:
    return matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.diag(np.diagonal(matrix)))
