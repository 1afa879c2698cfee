r"""The first order in $1/N$ of evidence and predictor in closed form, for any number of paths.

At every width the mean kernel is that of infinite width. From rows $\delta$ a layer makes rows $\zeta$ of covariance
$C$ in $N_l$ independent columns, and adds $\zeta \zeta^\top / N_l - C$ to the overlaps below; beside a skip, where
$\delta$ stays with overlaps $H$, also $(\delta \zeta^\top + \zeta \delta^\top) / N_l$. With the adjoint of (K3),
$A_{above} = \sum_s \sigma_s^2 B_s^\top A B_s$, in which $\sigma_s = 1$ for a kept seed,

    N Var tr(W dK) -> V[W] = sum_l (N / N_l) (2 tr A C A C + 4 tr A H A C).                          (Q1)

Heads with values of dimension $d$ add $(N / d)\, 2 \mathrm{tr} (A_s G A_s G)$, $A_s = \sigma_l^2 B_s^\top A B_s$.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.kernels.of_paths import inputs_like, kernel_inputs
from statmech_attention.theory.kernels.of_tokens import check_alike
from statmech_attention.theory.kernels.regression import Prediction, Regression
from statmech_attention.theory.problem import Problem, need_problem

_AT_ONCE = 2**18  # entries of the matrices of a block of pairs; large ones are multiplied one by one


class FirstOrderPrediction(NamedTuple):
    """Mean and variance of the output at infinite width, and in `slope` the coefficients of $1/N$ in both."""

    limit: Prediction
    slope: Prediction

    def at(self, width: ArrayLike) -> Prediction:
        """$f_{GP} + f_1 / N$, and the variance to the same order."""
        return Prediction(*(limit + slope / width for limit, slope in zip(self.limit, self.slope, strict=True)))


@dataclass(frozen=True, eq=False, repr=False)
class FirstOrder:
    r"""$N [\ln p(Y) - \ln p_{GP}(Y)]$ for large $N$, from `first_order`.

    Attributes:
        gain: (Q2), never negative; what `log_evidence` has to leading order.
        fluctuations: (Q3).
        error: standard error of `fluctuations`, from the probes; 0 for an exact sum.
        layers: both if $N_1, .., N_{L+1}$ were finite one at a time, `(L + 1, 2)`; they add up.
        heads: both by value matrices, `(2, heads)` per layer: by their part of the last $C$ in (Q1),
            and by their own overlaps.
    """

    gain: float
    fluctuations: float
    error: float
    layers: Float[np.ndarray, "widths 2"]
    heads: tuple[Float[np.ndarray, "2 _heads"], ...]
    problem: Problem
    _sides: Float[Array, "rows sides"]  # columns z: the sum of z z' is R, or so on average

    @property
    def width(self) -> float:
        """The width $N$ at which the first order is one nat: the size of (Q2) + (Q3)."""
        return abs(self.gain + self.fluctuations)

    def __repr__(self) -> str:
        return f"FirstOrder(({self.gain:.4g} {self.fluctuations:+.4g} ± {self.error:.2g}) nats / N)"

    def predict(self, test: AttentionedInputs | TokenInputs | ArrayLike) -> FirstOrderPrediction:
        """First order of mean and variance of the output, (Q4): slope and curvature of (Q2) + (Q3) at $v + j a$ in $j$.

        Args:
            test: inputs like those of the problem. Each costs several times what `first_order` did.

        Returns:
            `FirstOrderPrediction(limit, slope)`, each with mean and variance, `(test examples, ..)`.
        """
        train, inputs = self.problem.attentioned, test
        if isinstance(train, TokenInputs):
            check_alike(train, inputs, "test")
        else:
            inputs = inputs_like("test", inputs, train)
        found = _predicted(_rows(train, inputs), _rows(inputs, train), _numbers(self.problem), self._sides)
        mean, variance, *slopes = (part.reshape(-1, *train.chain.readout.axes) for part in found)
        return FirstOrderPrediction(Prediction(mean, variance), Prediction(*slopes))


def first_order(problem: Problem, *, probes: int | None = None, key: checks.Key | None = None) -> FirstOrder:
    r"""What a finite width is worth to these labels: $N [\ln p(Y) - \ln p_{GP}(Y)]$ for large $N$, (Q2) + (Q3).

    With $R = (K + T)^{-1}$ of infinite width, $v = R Y$ and $z, z' \sim \mathcal N(0, R)$,

        1/8 V[R - v v']                                              gain,                  (Q2)
        1/4 E V[sym z z'] - 1/2 E V[sym v z]                         fluctuations.          (Q3)

    Over labels of the network of infinite width the sum has the mean zero. Where it is large compared
    with $N$, higher orders are not small.

    Args:
        problem: a `Problem` of paths or tokens, with width and temperature. $N$ is the largest width; only
            ratios count. Infinite widths are equal, or beside narrow heads infinite, with $N$ the largest $d$.
        probes: random matrices for (Q3), at least 2. If None, 64 for tokens, and for paths all pairs of rows,
            whose sum is exact; it is taken wherever there are no more pairs than probes.
        key: a JAX random key for the probes; `jax.random.key(0)` if None.

    Source: ours; for posterior means by prior cumulants see Zavatone-Veth et al. (2021).
    """
    problem = need_problem(problem, "width", "temperature", tokens=True)
    tokens, layers = isinstance(problem.attentioned, TokenInputs), problem.attentioned.chain.layers
    problem = problem if tokens else problem.reduce()
    size = problem.labels.size
    pairs = size * (size + 1) // 2
    probes = (64 if tokens else pairs) if probes is None else checks.whole("probes", probes, 2)
    key = checks.key("key", jax.random.key(0) if key is None else key)
    signs = None if probes >= pairs else jax.random.rademacher(key, (probes, size, size + 1), float)
    gains, terms, sides = _coefficients(_rows(problem.attentioned), _numbers(problem), signs)
    error = 0.0 if signs is None else float(np.std(np.sum(terms, axis=1), ddof=1) / math.sqrt(probes))
    parts = np.split(np.stack([gains, np.mean(terms, axis=0)]), np.cumsum([layer.seeds for layer in layers]), axis=1)
    heads = tuple(part[:, int(layer.keeps) :] for part, layer in zip(parts[:-1], layers, strict=True))
    by_layer = np.array([part.sum(axis=1) for part in parts])
    gain, noise = by_layer.sum(axis=0).tolist()
    return FirstOrder(gain, noise, error, by_layer, heads, problem, sides)


class _Rows(NamedTuple):
    """Rows of examples, one for every output; along paths `read` has no axis of examples, and maps have one for all."""

    inputs: Any  # (examples, rows, features)
    read: Any  # the readout's weights, (examples, rows, outputs)
    maps: Any  # B_s of every layer, (examples, seeds, below, above)


def _rows(inputs: Any, others: Any = None) -> _Rows:
    """Rows of inputs; those of tokens with zeros up to the longest example, also of `others`."""
    chain, eye, first = inputs.chain, np.eye(inputs.chain.outputs), 0
    if not isinstance(inputs, TokenInputs):
        each = zip(chain.layers, map(np.eye, chain.partial_paths[1:]), strict=True)
        maps = [np.array([[np.kron(seed[:, None], one) for seed in layer.mixing(1.0).T]]) for layer, one in each]
        scale = math.sqrt(chain.divisor * inputs.values.shape[-1])
        return jax.tree.map(jnp.asarray, _Rows(kernel_inputs(inputs) / scale, eye, maps))
    longest = max(each.groups[-1].length for each in (inputs, others or inputs))
    tokens, read = (np.zeros((len(inputs), longest, count)) for count in (inputs.tokens.shape[1], 1))
    maps = [np.zeros((len(inputs), layer.seeds, longest, longest)) for layer in chain.layers]
    for group in inputs.groups:
        rows, length, matrices = group.rows, group.length, [group.whole(place) for place in range(len(maps))]
        some = inputs.order[first : first + len(matrices[0])]
        tokens[some, :length] = inputs.tokens[rows].reshape(len(some), length, -1) / math.sqrt(tokens.shape[2])
        read[some, :length] = inputs.weights[rows].reshape(len(some), length, 1)
        for layer, matrix in zip(maps, matrices, strict=True):
            layer[some, :, :length, :length] = matrix
        first += len(some)
    weights = (read[:, None] * eye[:, None]).reshape(-1, longest, len(eye))
    copies = [np.repeat(layer, len(eye), axis=0) for layer in maps]
    return jax.tree.map(jnp.asarray, _Rows(np.repeat(tokens, len(eye), axis=0), weights, copies))


def _numbers(problem: Problem):
    """Variances of projection and readout; those of fresh and kept seeds, $N / N_l$ and $N / d$; $T$; labels."""
    unit, layers = float(problem.architecture.unit), problem.attentioned.chain.layers
    ratios = [1.0 if math.isinf(unit) else unit / width for width in problem.width]
    first, *between, last = problem.variance
    kept = [1.0 * (np.arange(layer.seeds) < int(layer.keeps)) for layer in layers]
    seeds = [((1 - one) * known, one) for one, known in zip(kept, between, strict=True)]
    inner = [None if layer.inner is None else unit / layer.inner for layer in layers]
    labels = jnp.asarray(problem.labels).reshape(-1)
    return (first, last, ratios[-1]), list(zip(seeds, ratios[:-1], inner, strict=True)), problem.temperature, labels


def _congruent(own, gram):
    """$B G B^\\top$, of rows with one map per example or one for all."""

    def mapped(columns):
        return (own @ columns.reshape(len(own), -1, columns.shape[1])).reshape(-1, columns.shape[1])

    return mapped(mapped(gram).T).T


def _levels(rows: _Rows, numbers):
    """Inputs, products of tokens, all layers at infinite width from the first one up, and the readout; the kernel."""
    (first, last, ratio), by_layer, *_ = numbers
    read, layers = rows.read.reshape(-1, rows.read.shape[-1]), list[Any]()
    top = gram = last * read @ read.T
    for maps, (seeds, width, inner) in reversed(list(zip(rows.maps, by_layer, strict=True))):

        def added(sums, seed, gram=gram):
            own, *parts = seed
            return [total + part * _congruent(own, gram) for total, part in zip(sums, parts, strict=True)], None

        start, each = jnp.zeros((len(maps) * maps.shape[2],) * 2), (maps.swapaxes(0, 1), *seeds)
        (fresh, beside), _ = jax.lax.scan(added, [start, start], each)
        layers.insert(0, (gram, width * (2 * fresh + 4 * beside), inner, each))
        gram = fresh + beside
    inputs = jnp.sqrt(first) * rows.inputs
    if rows.read.ndim == 2:
        kernel = jnp.einsum("mpi,pq,nqi->mn", inputs, gram, inputs, optimize=True)
        return (inputs, None, layers, (ratio, top)), kernel
    products = inputs.reshape(len(gram), -1) @ inputs.reshape(len(gram), -1).T
    return (inputs, products, layers, (ratio, top)), (products * gram).reshape(2 * inputs.shape[:2]).sum(axis=(1, 3))


def _shares(left, right, levels) -> Float[Array, " seeds"]:
    """(Q1) of the symmetric part of `left right^T`: $\\mathrm{tr} A (2 C + 4 H) A C$ with the last $C$ seed by seed."""
    inputs, products, layers, (ratio, top) = levels
    if products is None:
        one, two = (jnp.einsum("mpi,mk->pki", inputs, side).reshape(inputs.shape[1], -1) for side in (left, right))
        adjoint = one @ two.T
    else:
        adjoint = products * jnp.repeat(jnp.repeat(left @ right.T, inputs.shape[1], axis=0), inputs.shape[1], axis=1)
    adjoint, found = 0.5 * (adjoint + adjoint.T), []
    for gram, below, inner, seeds in layers:
        pull = adjoint @ below @ adjoint

        def added(above, seed, adjoint=adjoint, pull=pull, gram=gram, inner=inner):
            own, fresh, kept = seed
            through, share = (_congruent(own.swapaxes(-1, -2), each) for each in (adjoint, pull))
            overlaps = 0.0 if inner is None else 2 * inner * fresh**2 * jnp.vdot(through @ gram @ through, gram)
            return above + (fresh + kept) * through, fresh * jnp.vdot(share, gram) + overlaps

        adjoint, shares = jax.lax.scan(added, jnp.zeros_like(gram), seeds)
        found.append(shares)
    return jnp.concatenate([*found, 2 * ratio * jnp.vdot(adjoint @ top @ adjoint, top)[None]])


def _each(lefts, rights, levels):
    """`_shares` of pairs of vectors one by one, in blocks."""
    at_once = max(1, min(len(lefts), _AT_ONCE // max(layer[1].size for layer in levels[2])))
    pairs = lefts[:, :, None], rights[:, :, None]
    return jax.lax.map(lambda sides: _shares(*sides, levels), pairs, batch_size=at_once)


def _of_labels(root, sides, weights, levels):
    """(Q2), and $-\\frac12 E V[\\mathrm{sym}\\, v z]$ with the columns of `sides` for $z$, terms of a sum."""
    gain = _shares(jnp.column_stack([root, weights]), jnp.column_stack([root, -weights]), levels) / 8
    return gain, -0.5 * _each(jnp.tile(weights, (sides.shape[1], 1)), sides.T, levels)


@quick_jit()
def _coefficients(rows: _Rows, numbers, signs):
    """Shares in (Q2); shares in (Q3), a row per probe; and the columns $z$ for `_of_labels`."""
    (levels, kernel), (*_, temperature, labels) = _levels(rows, numbers), numbers
    regression = Regression.of(kernel, temperature, labels)
    root, weights = regression.whiten(jnp.eye(len(labels))).T, regression.solve(labels)
    if signs is None:
        one, two = np.triu_indices(len(labels))
        noise = _each(root.T[one] * np.where(one == two, 1.0, math.sqrt(2))[:, None], root.T[two], levels)
        noise = noise.sum(axis=0, keepdims=True)
    else:
        noise = jax.lax.map(lambda sign: _shares(root @ sign[:, :-1], root, levels), signs)
    some = signs is not None and len(signs) < len(labels)
    sides = root @ signs[:, :, -1].T / math.sqrt(len(signs)) if some else root
    gain, linear = _of_labels(root, sides, weights, levels)
    return gain, 0.25 * noise + (len(signs) * linear if some else linear.sum(axis=0, keepdims=True)), sides


@quick_jit()
def _predicted(rows: _Rows, new: _Rows, numbers, sides):
    """Mean and variance at infinite width, and their first order, one new example at a time."""
    *_, temperature, labels = numbers
    tokens = rows.read.ndim == 3

    def one(number):
        def joined(old, more):
            return jnp.concatenate([old, more[number][None]])

        alone = rows._replace(inputs=joined(rows.inputs, new.inputs))
        levels, kernel = _levels(jax.tree.map(joined, rows, new) if tokens else alone, numbers)
        regression = Regression.of(kernel[:-1, :-1], temperature, labels)
        root, weights = regression.whiten(jnp.eye(len(labels))).T, jnp.append(regression.solve(labels), 0.0)
        along = jnp.append(-regression.solve(kernel[:-1, -1]), 1.0)
        wide, noise = (jnp.pad(part, ((0, 1), (0, 0))) for part in (root, sides))

        def nats(step):
            return sum(map(jnp.sum, _of_labels(wide, noise, weights + step * along, levels)))

        slope_and_curvature = jax.jvp(lambda step: jax.jvp(nats, (step,), (1.0,))[1], (0.0,), (1.0,))
        mean, variance = regression.predict(kernel[:-1, -1:], kernel[-1:, -1])
        return mean[0], variance[0], *slope_and_curvature

    return jax.lax.map(one, jnp.arange(len(new.inputs)))
