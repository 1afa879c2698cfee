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

from statmech_attention.layers.chains import Chain
from statmech_attention.theory.kernels.in_blocks import whole_block
from statmech_attention.theory.kernels.of_paths import kernel_inputs, over_outputs
from statmech_attention.theory.kernels.projected import unit_blocks
from statmech_attention.theory.levels.rows import congruent, passed
from statmech_attention.theory.problem import Problem

_AT_ONCE = 2**18  # entries of the matrices of a block of pairs; large ones are multiplied one by one


class Layer(NamedTuple):
    """Maps of a layer between rows, its variance, and sizes."""

    kept: Any  # B_s of the kept seeds, (examples, seeds, below, above)
    fresh: Any  # B_s of the other seeds
    variance: Any
    ratio: Any  # N / N_l
    narrow: Any  # N / d of heads whose values have the dimension d, else None


class Network(NamedTuple):
    """Rows of examples, one for every output; those of tokens have a `read` and maps of their own.

    The paths of all examples are the same, and so are the components of a projected network.
    """

    inputs: Any  # sigma_0 times (examples, rows, features)
    rest: Any  # what components leave out of every example's overlap with itself, or None
    read: Any  # sigma_a times the readout's weights, (examples, rows, outputs)
    layers: list[Layer]  # from the first up
    ratio: Any  # N / N_{L+1}

    def take(self, examples) -> "Network":
        """The network with some examples."""
        some = self._replace(inputs=self.inputs[examples], rest=None if self.rest is None else self.rest[examples])
        if self.read.ndim == 2:
            return some
        each = [layer._replace(kept=layer.kept[examples], fresh=layer.fresh[examples]) for layer in self.layers]
        return some._replace(read=self.read[examples], layers=each)


class Limit(NamedTuple):
    """A network at infinite width."""

    kernel: Any
    products: Any  # of tokens, over pairs of rows; None along paths
    above: list  # overlaps above every layer, from the first up
    changes: list  # N / N_l (2 C + 4 H)
    top: Any  # overlaps at the readout


def network_of(problem: Problem, *more: Any) -> Network:
    """The network of a problem with the rows of its inputs, and of more of them."""
    of_kind = _of_paths if problem.along_paths else _of_components if problem.projected else _of_tokens
    rows, rest, read, maps = of_kind((problem.attentioned, *more), problem.attentioned.chain)
    unit, (first, *variances, last) = float(problem.architecture.unit), problem.variance
    *ratios, ratio = (1.0 if math.isinf(unit) else unit / width for width in problem.width)
    layers = []
    for kind, own, variance, share in zip(problem.attentioned.chain.layers, maps, variances, ratios, strict=True):
        kept, fresh = np.split(own, [int(kind.keeps)], axis=1)
        layers.append(Layer(kept, fresh, variance, share, None if kind.inner is None else unit / kind.inner))
    rest = None if rest is None else first * last * rest
    return jax.tree.map(jnp.asarray, Network(math.sqrt(first) * rows, rest, math.sqrt(last) * read, layers, ratio))


def _of_paths(inputs, chain: Chain):
    """Inputs, what is left out, readout, and maps of every layer, of seeds of unit variance."""
    rows = np.concatenate([np.asarray(kernel_inputs(one)) for one in inputs])
    each = zip(chain.layers, map(np.eye, chain.partial_paths[1:]), strict=True)
    maps = [np.array([[np.kron(seed[:, None], one) for seed in layer.mixing(1.0).T]]) for layer, one in each]
    return rows / math.sqrt(chain.divisor * rows.shape[2]), None, np.eye(chain.outputs), maps


def _of_components(inputs, chain: Chain):
    """The same; components take the place of paths, and the blocks of (Z1) map them."""
    network, eye = inputs[0].projection, np.eye(chain.outputs)
    rows = np.concatenate([np.asarray(over_outputs(one.values.swapaxes(1, 2), chain.outputs)) for one in inputs])
    rest = np.concatenate([np.repeat(np.broadcast_to(one.rest, len(one)), chain.outputs) for one in inputs])
    maps = [np.array([[np.kron(seed.T, eye) for seed in block]]) for block in unit_blocks(network)[::-1]]
    return rows, rest, eye, maps


def _of_tokens(inputs, chain: Chain):
    """The same with zeros up to the longest example."""
    length, eye = max(one.longest for one in inputs), np.eye(chain.outputs)
    each = [whole_block(one, length) for one in inputs]
    whole = jax.tree.map(lambda *parts: np.repeat(np.concatenate(parts), chain.outputs, axis=0), *each)
    maps, rows, weights = whole
    read = weights[..., None] * np.tile(eye, (len(rows) // len(eye), 1))[:, None]
    return rows / math.sqrt(rows.shape[2]), None, read, maps


def limit_of(network: Network) -> Limit:
    """The network at infinite width, from the readout down."""
    inputs, above, changes = network.inputs, list[Any](), list[Any]()
    read = network.read.reshape(-1, network.read.shape[-1])
    top = gram = read @ read.T
    for layer in reversed(network.layers):
        values, beside = (passed(gram, maps.swapaxes(0, 1)) for maps in (layer.fresh, layer.kept))
        values = layer.variance * values
        above.insert(0, gram)
        changes.insert(0, layer.ratio * (2 * values + 4 * beside))
        gram = values + beside
    if network.read.ndim == 2:
        kernel = jnp.einsum("mpi,pq,nqi->mn", inputs, gram, inputs, optimize=True)
        kernel = kernel if network.rest is None else kernel + jnp.diag(network.rest)
        return Limit(kernel, None, above, changes, top)
    products = inputs.reshape(len(gram), -1) @ inputs.reshape(len(gram), -1).T
    kernel = (products * gram).reshape(2 * inputs.shape[:2]).sum(axis=(1, 3))
    return Limit(kernel, products, above, changes, top)


def _adjoint(left, right, network: Network, limit: Limit):
    """$A$ at the inputs, for the symmetric part $W$ of `left right^T`."""
    inputs, rows = network.inputs, network.inputs.shape[1]
    if limit.products is None:
        one, two = (jnp.einsum("mpi,mk->pki", inputs, side).reshape(rows, -1) for side in (left, right))
        adjoint = one @ two.T
    else:
        weights = jnp.repeat(jnp.repeat(left @ right.T, rows, axis=0), rows, axis=1)
        adjoint = limit.products * weights
    return 0.5 * (adjoint + adjoint.T)


def shares(left, right, network: Network, limit: Limit) -> Float[Array, " seeds"]:
    """(Q1) of the symmetric part of `left right^T`: $\\mathrm{tr} A (2 C + 4 H) A C$ with the last $C$ seed by seed."""
    adjoint, found = _adjoint(left, right, network, limit), []
    for layer, above, changes in zip(network.layers, limit.above, limit.changes, strict=True):
        pull = adjoint @ changes @ adjoint

        def added(total, own, layer=layer, above=above, adjoint=adjoint, pull=pull):
            back = own.swapaxes(-1, -2)
            through = layer.variance * congruent(back, adjoint)
            share = layer.variance * jnp.vdot(congruent(back, pull), above)
            if layer.narrow is not None:
                share += 2 * layer.narrow * jnp.vdot(through @ above @ through, above)
            return total + through, share

        beside = passed(adjoint, layer.kept.swapaxes(0, 1).swapaxes(-1, -2))
        adjoint, by_seed = jax.lax.scan(added, beside, layer.fresh.swapaxes(0, 1))
        found.append(by_seed)
    return jnp.concatenate([*found, 2 * network.ratio * jnp.vdot(adjoint @ limit.top @ adjoint, limit.top)[None]])


def shares_of_all(lefts, rights, network: Network, limit: Limit) -> Float[Array, "terms seeds"]:
    """`shares` of many pairs, `(terms, rows, columns)`, in blocks."""
    at_once = max(1, min(len(lefts), _AT_ONCE // max(changes.size for changes in limit.changes)))
    return jax.lax.map(lambda pair: shares(pair[0], pair[1], network, limit), (lefts, rights), batch_size=at_once)
