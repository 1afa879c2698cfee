r"""By how much the kernel of a network of large finite width fluctuates, layer by layer, for any number of paths.

From rows $\delta$ a layer makes rows $\zeta$ of covariance $C$ in $N_l$ independent columns, and adds
$\zeta \zeta^\top / N_l - C$ to the overlaps below; beside a skip, where $\delta$ stays with overlaps $H$, also
$(\delta \zeta^\top + \zeta \delta^\top) / N_l$. With the adjoint of (K3),
$A_{above} = \sum_s \sigma_s^2 B_s^\top A B_s$, in which $\sigma_s = 1$ for a kept seed,

    N Var tr(W dK) -> V[W] = sum_l (N / N_l) (2 tr A C A C + 4 tr A H A C).                          (Q1)

Heads with values of dimension $d$ add $(N / d)\, 2 \mathrm{tr} (A_s G A_s G)$, $A_s = \sigma_l^2 B_s^\top A B_s$.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.of_paths import kernel_inputs, over_outputs
from statmech_attention.theory.kernels.projected import ProjectedInputs, deviations
from statmech_attention.theory.problem import Problem

_AT_ONCE = 2**18  # entries of the matrices of a block of pairs; large ones are multiplied one by one


class Rows(NamedTuple):
    """Rows of examples, one for every output; only those of tokens have a `read` and maps of their own.

    The paths of all examples are the same, and so are the components of a projected network.
    """

    inputs: Any  # (examples, rows, features)
    rest: Any  # what a projected network leaves out of every example's overlap with itself
    read: Any  # the readout's weights, (examples, rows, outputs)
    kept: list  # B_s of the kept seeds of every layer, (examples, seeds, below, above)
    fresh: list  # B_s of its other seeds


class Numbers(NamedTuple):
    """What a problem has beside its inputs."""

    variances: tuple
    ratios: list  # N / N_l
    narrow: list  # N / d of heads whose values have the dimension d, else None
    temperature: Any
    labels: Any


class Level(NamedTuple):
    """A layer of the network of infinite width."""

    above: Any  # overlaps above the layer at infinite width
    changes: Any  # N / N_l (2 C + 4 H)
    narrow: Any  # as in `Numbers`
    variance: Any
    kept: Any  # as in `Rows`
    fresh: Any


class Network(NamedTuple):
    """The network of infinite width."""

    inputs: Any
    products: Any  # of tokens, over pairs of rows; None along paths
    levels: list  # of the layers, from the first up
    top: Any  # overlaps at the readout
    ratio: Any  # N / N_{L+1}


def numbers_of(problem: Problem) -> Numbers:
    """The numbers of a problem."""
    unit, layers = float(problem.architecture.unit), problem.attentioned.chain.layers
    ratios = [1.0 if math.isinf(unit) else unit / width for width in problem.width]
    narrow = [None if layer.inner is None else unit / layer.inner for layer in layers]
    return Numbers(problem.variance, ratios, narrow, problem.temperature, jnp.asarray(problem.labels).reshape(-1))


def rows_of(inputs: Any, others: Any = None) -> Rows:
    """Rows of inputs; those of tokens with zeros up to the longest example, also of `others`."""
    chain, eye = inputs.chain, np.eye(inputs.chain.outputs)
    tokens: Any
    read: Any
    rest: Any = np.zeros(len(inputs) * len(eye))
    if isinstance(inputs, ProjectedInputs):
        tokens, read = over_outputs(inputs.values.swapaxes(1, 2), len(eye)), eye
        rest = np.repeat(np.broadcast_to(inputs.rest, len(inputs)), len(eye))
        maps = _components(inputs, eye)
    elif isinstance(inputs, TokenInputs):
        longest = max(each.groups[-1].length for each in (inputs, others or inputs))
        tokens, read, *maps = (np.repeat(part, len(eye), axis=0) for part in _padded(inputs, longest))
        read = read * np.tile(eye, (len(inputs), 1))[:, None]
    else:
        tokens, read = kernel_inputs(inputs) / math.sqrt(chain.divisor * inputs.values.shape[-1]), eye
        each = zip(chain.layers, map(np.eye, chain.partial_paths[1:]), strict=True)
        maps = [np.array([[np.kron(seed[:, None], one) for seed in layer.mixing(1.0).T]]) for layer, one in each]
    pairs = [np.split(layer, [int(kind.keeps)], axis=1) for kind, layer in zip(chain.layers, maps, strict=True)]
    kept, fresh = ([pair[place] for pair in pairs] for place in range(2))
    return jax.tree.map(jnp.asarray, Rows(tokens, rest, read, kept, fresh))


def _components(inputs: ProjectedInputs, eye) -> list:
    """Maps between the components of a projected network, for seeds of values of variance one."""
    each = list(zip(inputs.projection.blocks, deviations(inputs.projection), strict=True))[::-1]
    scaled = [block.swapaxes(1, 2) / deviation[:, None, None] for block, deviation in each]
    return [np.array([[np.kron(seed, eye) for seed in layer]]) for layer in scaled]


def _padded(inputs: TokenInputs, longest: int) -> list:
    """Tokens, weights at the readout, and maps of every layer, with an entry per example."""
    tokens = np.zeros((len(inputs), longest, inputs.tokens.shape[1]))
    read = np.zeros((len(inputs), longest, 1))
    maps = [np.zeros((len(inputs), layer.seeds, longest, longest)) for layer in inputs.chain.layers]
    ends = np.cumsum([len(group.maps[0]) for group in inputs.groups])
    for some, group in zip(np.split(inputs.order, ends), inputs.groups, strict=False):
        rows, length = group.rows, group.length
        tokens[some, :length] = inputs.tokens[rows].reshape(len(some), length, -1) / math.sqrt(tokens.shape[2])
        read[some, :length] = inputs.weights[rows].reshape(len(some), length, 1)
        for place, layer in enumerate(maps):
            layer[some, :, :length, :length] = group.whole(place)
    return [tokens, read, *maps]


def _congruent(own, gram):
    """$B G B^\\top$, of rows with one map per example or one for all."""

    def mapped(columns):
        return (own @ columns.reshape(len(own), -1, columns.shape[1])).reshape(-1, columns.shape[1])

    return mapped(mapped(gram).T).T


def _summed(maps, gram):
    """$\\sum_s B_s G B_s^\\top$."""
    start = jnp.zeros((len(maps) * maps.shape[2],) * 2)
    return jax.lax.scan(lambda sums, own: (sums + _congruent(own, gram), None), start, maps.swapaxes(0, 1))[0]


def network_of(rows: Rows, numbers: Numbers):
    """The network of infinite width, from the readout down, and its kernel."""
    first, *between, last = numbers.variances
    *ratios, ratio = numbers.ratios
    read, levels = rows.read.reshape(-1, rows.read.shape[-1]), list[Level]()
    top = gram = last * read @ read.T
    each = zip(ratios, numbers.narrow, between, rows.kept, rows.fresh, strict=True)
    for width, narrow, variance, kept, fresh in reversed(list(each)):
        values, beside = variance * _summed(fresh, gram), _summed(kept, gram)
        levels.insert(0, Level(gram, width * (2 * values + 4 * beside), narrow, variance, kept, fresh))
        gram = values + beside
    inputs = jnp.sqrt(first) * rows.inputs
    if rows.read.ndim == 2:
        kernel = jnp.einsum("mpi,pq,nqi->mn", inputs, gram, inputs, optimize=True) + jnp.diag(first * last * rows.rest)
        return Network(inputs, None, levels, top, ratio), kernel
    products = inputs.reshape(len(gram), -1) @ inputs.reshape(len(gram), -1).T
    kernel = (products * gram).reshape(2 * inputs.shape[:2]).sum(axis=(1, 3))
    return Network(inputs, products, levels, top, ratio), kernel


def _adjoint(left, right, network: Network):
    """$A$ at the inputs, for the symmetric part $W$ of `left right^T`."""
    inputs, rows = network.inputs, network.inputs.shape[1]
    if network.products is None:
        one, two = (jnp.einsum("mpi,mk->pki", inputs, side).reshape(rows, -1) for side in (left, right))
        adjoint = one @ two.T
    else:
        weights = jnp.repeat(jnp.repeat(left @ right.T, rows, axis=0), rows, axis=1)
        adjoint = network.products * weights
    return 0.5 * (adjoint + adjoint.T)


def shares(left, right, network: Network) -> Float[Array, " seeds"]:
    """(Q1) of the symmetric part of `left right^T`: $\\mathrm{tr} A (2 C + 4 H) A C$ with the last $C$ seed by seed."""
    adjoint, found = _adjoint(left, right, network), []
    for level in network.levels:
        pull = adjoint @ level.changes @ adjoint

        def added(above, own, level=level, adjoint=adjoint, pull=pull):
            back = own.swapaxes(-1, -2)
            through = level.variance * _congruent(back, adjoint)
            share = level.variance * jnp.vdot(_congruent(back, pull), level.above)
            if level.narrow is not None:
                share += 2 * level.narrow * jnp.vdot(through @ level.above @ through, level.above)
            return above + through, share

        beside = _summed(level.kept.swapaxes(-1, -2), adjoint)
        adjoint, by_seed = jax.lax.scan(added, beside, level.fresh.swapaxes(0, 1))
        found.append(by_seed)
    return jnp.concatenate([*found, 2 * network.ratio * jnp.vdot(adjoint @ network.top @ adjoint, network.top)[None]])


def shares_of_all(lefts, rights, network: Network) -> Float[Array, "terms seeds"]:
    """`shares` of many pairs, `(terms, rows, columns)`, in blocks."""
    at_once = max(1, min(len(lefts), _AT_ONCE // max(level.changes.size for level in network.levels)))
    return jax.lax.map(lambda pair: shares(pair[0], pair[1], network), (lefts, rights), batch_size=at_once)
