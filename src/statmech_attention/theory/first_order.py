r"""The first order in $1/N$ of evidence and predictor in closed form, for any number of paths.

At every width the kernel's mean is that of infinite width; its covariance is of order $1/N$. A layer
makes rows $\zeta$ of covariance $C$, in $N_l$ independent columns, from rows $\delta$. Beside a skip
$\delta$ stays, with overlaps $H$. To the overlaps below, the layer adds

    zeta zeta' / N_l - C + (delta zeta' + zeta delta') / N_l,

uncorrelated with what others add. With the adjoint of (K3), $A_{above} = \sum_s \sigma_s^2 B_s^\top A B_s$,
and $\sigma_s = 1$ for a kept seed,

    N Var tr(W dK) -> V[W] = sum_l (N / N_l) (2 tr A C A C + 4 tr A H A C).                          (N1)

Heads with values of dimension $d$ add $(N / d)\, 2 \mathrm{tr} (A_s G A_s G)$, $A_s = \sigma_l^2 B_s^\top A B_s$.
Rows are (example, token), with copies for several outputs, or partial paths, the same for all examples.
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
from statmech_attention.theory.infinite_width import check_alike
from statmech_attention.theory.kernels import inputs_like, kernel_inputs
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.regression import Prediction, Regression

_AT_ONCE = 2**22  # entries of the matrices of a block of probes


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
        gain: (N2), never negative; what `log_evidence` has to leading order.
        fluctuations: (N3).
        error: standard error of `fluctuations`, from the probes; 0 for an exact sum.
        heads: what every value matrix adds to both, `(2, heads)` per layer, the readout last: by its
            part of the last $C$ in (N1), and by its own overlaps.
        problem: the problem.
    """

    gain: float
    fluctuations: float
    error: float
    heads: tuple[Float[np.ndarray, "2 _heads"], ...]
    problem: Problem
    _sides: Float[Array, "rows sides"]  # columns z: the sum of z z' is R, or so on average

    @property
    def layers(self) -> Float[np.ndarray, "widths 2"]:
        """Gain and fluctuations if $N_1, .., N_{L+1}$ were finite one at a time; they add up."""
        return np.array([heads.sum(axis=1) for heads in self.heads])

    @property
    def width(self) -> float:
        """The width $N$ at which the first order is one nat: the size of (N2) + (N3)."""
        return abs(self.gain + self.fluctuations)

    def __repr__(self) -> str:
        return f"FirstOrder({self.gain:.4g} {self.fluctuations:+.4g} ± {self.error:.2g} nats, over N)"

    def predict(self, test: AttentionedInputs | TokenInputs | ArrayLike) -> FirstOrderPrediction:
        r"""First order of the output's mean and variance: slope and curvature of (N2) + (N3) in $j$ at $v + j a$, (N4).

        $a = (-R k, 1)$ on training inputs and the new one.

        Args:
            test: inputs like those of the problem. Each costs several times what `first_order` did.

        Returns:
            `FirstOrderPrediction(limit, slope)`, each with mean and variance, `(test examples,)`, or
            `(test examples, outputs)`.
        """
        train, inputs = self.problem.attentioned, test
        if isinstance(train, TokenInputs):
            check_alike(train, inputs, "test")
        else:
            inputs = inputs_like("test", inputs, train)
        found = _predicted(_rows(train, inputs), _rows(inputs, train), *_numbers(self.problem), self._sides)
        parts = [part.reshape(-1, *train.chain.readout.axes) for part in found]
        return FirstOrderPrediction(Prediction(*parts[:2]), Prediction(*parts[2:]))


def first_order(problem: Problem, *, probes: int | None = None, key: checks.Key | None = None) -> FirstOrder:
    r"""What a finite width is worth to these labels: $N [\ln p(Y) - \ln p_{GP}(Y)]$ for large $N$, (N2) + (N3).

    With $R = (K + T)^{-1}$ of infinite width, $v = R Y$ and $z, z' \sim \mathcal N(0, R)$,

        1/8 V[R - v v']                                              gain,                  (N2)
        1/4 E V[sym z z'] - 1/2 E V[sym v z]                         fluctuations.          (N3)

    Over labels of the network of infinite width the sum has the mean zero. It needs no minimum, and
    tells nothing of widths at which it is large.

    Args:
        problem: a `Problem` of paths or tokens, with width and temperature. $N$ is the largest width,
            and only ratios count. Infinite widths are equal ones, but beside narrow heads infinite:
            then $N$ is the largest dimension of values.
        probes: number of random matrices with the covariance of $\mathrm{sym}\, z z'$, for (N3). If None,
            64 for tokens, and for paths all pairs of rows; an exact sum wherever pairs are no more.
        key: a JAX random key for the probes; `jax.random.key(0)` if None.

    Raises:
        ValueError: a missing width or temperature, fewer than two probes.

    Source: ours; Zavatone-Veth et al. (2021) have posterior means to this order by prior cumulants.
    """
    problem = need_problem(problem, "width", "temperature", tokens=None)
    tokens, layers = isinstance(problem.attentioned, TokenInputs), problem.attentioned.chain.layers
    problem = problem if tokens else problem.reduce()
    size = problem.labels.size
    pairs = size * (size + 1) // 2
    probes = (64 if tokens else pairs) if probes is None else checks.whole("probes", probes, 2)
    key = checks.key("key", jax.random.key(0) if key is None else key)
    signs = None if probes >= pairs else jax.random.rademacher(key, (probes, size, size + 1), float)
    gains, terms, sides = _coefficients(_rows(problem.attentioned), *_numbers(problem), signs)
    shares = np.stack([gains, np.mean(terms, axis=0)])
    error = 0.0 if signs is None else float(np.std(np.sum(terms, axis=1), ddof=1) / math.sqrt(probes))
    parts = np.split(shares, np.cumsum([layer.seeds for layer in layers]), axis=1)
    heads = [part[:, int(layer.keeps) :] for part, layer in zip(parts[:-1], layers, strict=True)]
    return FirstOrder(*map(float, shares.sum(axis=1)), error, (*heads, parts[-1]), problem, sides)


class _Rows(NamedTuple):
    """Inputs `(examples, rows, features)`, the readout's weights `(.., rows, outputs)`, and the maps $B_s$ by layer.

    Maps are `(seeds, examples, below, above)`, one for all examples along paths, whose weights have
    no axis of examples. An example with its output counts as an example.
    """

    inputs: Any
    read: Any
    maps: Any


def _rows(inputs: Any, others: Any = None) -> _Rows:
    """Rows of inputs; those of tokens with zeros up to the longest example of `others`, too."""
    chain, first = inputs.chain, 0
    eye, layers = np.eye(chain.outputs), chain.layers
    if not isinstance(inputs, TokenInputs):
        each = zip(layers, map(np.eye, chain.partial_paths[1:]), strict=True)
        maps = [np.array([[np.kron(seed[:, None], one)] for seed in layer.mixing(1.0).T]) for layer, one in each]
        scale = math.sqrt(chain.divisor * inputs.values.shape[-1])
        return jax.tree.map(jnp.asarray, _Rows(kernel_inputs(inputs) / scale, eye, tuple(maps)))
    longest = max(each.groups[-1].length for each in (inputs, others or inputs))
    tokens, read = np.zeros((len(inputs), longest, inputs.tokens.shape[1])), np.zeros((len(inputs), longest))
    maps = [np.zeros((layer.seeds, len(inputs), longest, longest)) for layer in layers]
    for rows, length, matrices in inputs.groups:
        some = inputs.order[first : first + len(matrices[0])]
        tokens[some, :length] = inputs.tokens[rows].reshape(len(some), length, -1)
        read[some, :length] = inputs.weights[rows].reshape(len(some), length)
        for layer, matrix in zip(maps, matrices, strict=True):
            layer[:, some, :length, :length] = matrix.swapaxes(0, 1)
        first += len(some)
    copies = [np.repeat(layer, len(eye), axis=1) for layer in maps]
    tokens = np.repeat(tokens, len(eye), axis=0) / math.sqrt(tokens.shape[2])
    return jax.tree.map(jnp.asarray, _Rows(tokens, np.einsum("et,co->ecto", read, eye).reshape(-1, longest, len(eye)), tuple(copies)))


def _numbers(problem: Problem):
    """Variances of the projection, of every layer's seeds and of the readout, with $N / N_l$ and $N / d$; $T$; labels."""
    unit, layers, variance = float(problem.architecture.unit), problem.attentioned.chain.layers, problem.variance
    ratios = [1.0 if math.isinf(unit) else unit / width for width in problem.width]
    fresh = [np.arange(layer.seeds) >= int(layer.keeps) for layer in layers]
    inner = [None if layer.inner is None else unit / layer.inner for layer in layers]
    each = tuple((1.0 * one, np.where(one, known, 1.0)) for one, known in zip(fresh, variance[1:-1], strict=True))
    return (variance[0], variance[-1], each, ratios, inner), problem.temperature, jnp.asarray(problem.labels).reshape(-1)


def _congruent(own, gram):
    """$B G B^\\top$, of rows with one map per example or one for all."""

    def mapped(columns):
        return (own @ columns.reshape(len(own), -1, columns.shape[1])).reshape(-1, columns.shape[1])

    return mapped(mapped(gram).T).T


def _levels(rows: _Rows, numbers):
    """Inputs, products of tokens, every layer at infinite width from the first one up, and the readout; the kernel."""
    projection, readout, each, ratios, inner = numbers
    read, layers = rows.read.reshape(-1, rows.read.shape[-1]), []
    top = gram = readout * read @ read.T
    for maps, (fresh, variance), ratio, narrow in reversed(list(zip(rows.maps, each, ratios, inner))):

        def passed(sums, seed, gram=gram):
            own, parts = seed
            return sums + parts[:, None, None] * _congruent(own, gram)[None], None

        parts = jnp.stack([fresh * variance, (1 - fresh) * variance], axis=1)
        start = jnp.zeros((2, *(maps.shape[1] * maps.shape[2],) * 2))
        values, beside = jax.lax.scan(passed, start, (maps, parts))[0]
        layers.insert(0, (gram, ratio * (2 * values + 4 * beside), narrow, (maps, fresh, variance)))
        gram = values + beside
    inputs = jnp.sqrt(projection) * rows.inputs
    flat = inputs.reshape(-1, inputs.shape[2])
    if rows.read.ndim == 2:
        kernel = jnp.einsum("mpi,pq,nqi->mn", inputs, gram, inputs, optimize=True)
        return (inputs, None, layers, (top, ratios[-1])), kernel
    products = flat @ flat.T
    return (inputs, products, layers, (top, ratios[-1])), (products * gram).reshape(2 * inputs.shape[:2]).sum(axis=(1, 3))


def _shares(left, right, levels) -> Float[Array, " seeds"]:
    """(N1) of the symmetric part of `left right^T`: $\\mathrm{tr} A (2 C + 4 H) A C$ with the last $C$ seed by seed."""
    inputs, products, layers, (top, ratio) = levels
    if products is None:
        one, two = (jnp.einsum("mpi,mk->pki", inputs, side).reshape(inputs.shape[1], -1) for side in (left, right))
        adjoint = one @ two.T
    else:
        adjoint = products * jnp.repeat(jnp.repeat(left @ right.T, inputs.shape[1], axis=0), inputs.shape[1], axis=1)
    adjoint, found = 0.5 * (adjoint + adjoint.T), []
    for gram, below, narrow, seeds in layers:
        pull = adjoint @ below @ adjoint

        def passed(above, seed, adjoint=adjoint, pull=pull, gram=gram, narrow=narrow):
            own, fresh, variance = seed
            through, share = (variance * _congruent(own.swapaxes(-1, -2), each) for each in (adjoint, pull))
            overlaps = 0.0 if narrow is None else 2 * narrow * jnp.vdot(through @ gram @ through, gram)
            return above + through, fresh * (jnp.vdot(share, gram) + overlaps)

        adjoint, shares = jax.lax.scan(passed, jnp.zeros_like(gram), seeds)
        found.append(shares)
    return jnp.concatenate([*found, 2 * ratio * jnp.vdot(adjoint @ top @ adjoint, top)[None]])


def _each(lefts, rights, levels):
    """`_shares` of pairs of vectors, or of matrices, one by one in blocks."""
    entries = max(layer[1].size for layer in levels[2])
    at_once = max(1, min(len(lefts), _AT_ONCE // entries))
    return jax.lax.map(lambda sides: _shares(*sides, levels), (lefts, rights), batch_size=at_once)


def _of_labels(root, sides, weights, levels):
    """(N2), and $-\\frac12 E V[\\mathrm{sym}\\, v z]$ with the columns of `sides` for $z$, terms of a sum."""
    gain = _shares(jnp.column_stack([root, weights]), jnp.column_stack([root, -weights]), levels) / 8
    lefts = jnp.tile(weights, (sides.shape[1], 1))
    return gain, -0.5 * _each(lefts[:, :, None], sides.T[:, :, None], levels)


@quick_jit()
def _coefficients(rows: _Rows, numbers, temperature, labels, signs):
    """Shares in (N2); shares in (N3), a row per probe; and the columns $z$ for `_of_labels`."""
    levels, kernel = _levels(rows, numbers)
    regression = Regression.of(kernel, temperature, labels)
    root, weights = regression.whiten(jnp.eye(len(labels))).T, regression.solve(labels)
    if signs is None:
        one, two = np.triu_indices(len(labels))
        lefts = root.T[one] * np.where(one == two, 1.0, math.sqrt(2))[:, None]
        gain, linear = _of_labels(root, root, weights, levels)
        noise = _each(lefts[:, :, None], root.T[two][:, :, None], levels)
        return gain, (noise.sum(axis=0) / 4 + linear.sum(axis=0))[None], root
    noise = jax.lax.map(lambda sign: _shares(root @ sign[:, :-1], root, levels) / 4, signs)
    sides = root if len(signs) >= len(labels) else root @ signs[:, :, -1].T / math.sqrt(len(signs))
    gain, linear = _of_labels(root, sides, weights, levels)
    return gain, noise + (linear.sum(axis=0, keepdims=True) if sides is root else len(signs) * linear), sides


@quick_jit()
def _predicted(rows: _Rows, new: _Rows, numbers, temperature, labels, sides):
    """Mean and variance at infinite width, and their first order, one new example at a time."""
    tokens = rows.read.ndim == 3

    def one(number):
        def joined(old, more, axis=0):
            return jnp.concatenate([old, jnp.take(more, number[None], axis=axis)], axis=axis)

        read = joined(rows.read, new.read) if tokens else rows.read
        maps = [joined(*each, 1) if tokens else each[0] for each in zip(rows.maps, new.maps, strict=True)]
        levels, kernel = _levels(_Rows(joined(rows.inputs, new.inputs), read, maps), numbers)
        regression = Regression.of(kernel[:-1, :-1], temperature, labels)
        root, weights = regression.whiten(jnp.eye(len(labels))).T, jnp.append(regression.solve(labels), 0.0)
        along = jnp.append(-regression.solve(kernel[:-1, -1]), 1.0)
        wide, noise = (jnp.pad(part, ((0, 1), (0, 0))) for part in (root, sides))

        def slope(step):
            def total(step):
                return sum(map(jnp.sum, _of_labels(wide, noise, weights + step * along, levels)))

            return jax.jvp(total, (step,), (1.0,))[1]

        mean, variance = regression.predict(kernel[:-1, -1:], kernel[-1:, -1])
        return mean[0], variance[0], *jax.jvp(slope, (0.0,), (1.0,))

    return jax.lax.map(one, jnp.arange(len(new.inputs)))
