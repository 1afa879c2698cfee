r"""The first order in $1/N$ of evidence and predictor in closed form, for any number of paths.

At every width the mean kernel is that of infinite width, and it fluctuates by (Q1) in `fluctuations`.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.model.tokens import TokenInputs
from statmech_attention.theory.fluctuations import Limit, Network, limit_of, network_of, shares, shares_of_all
from statmech_attention.theory.kernels.of_paths import inputs_like
from statmech_attention.theory.kernels.projected import ProjectedInputs
from statmech_attention.theory.kernels.regression import Prediction, Regression
from statmech_attention.theory.problem import Problem, need_problem, new_inputs


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
        error: standard error of the sum of both, from the probes of (Q3), since (Q2) has none; 0 for an exact sum.
            Neither their parts by layer and head nor `predict` have one.
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

    def predict(self, test: AttentionedInputs | TokenInputs | ProjectedInputs | ArrayLike) -> FirstOrderPrediction:
        """First order of mean and variance of the output, (Q4): slope and curvature of (Q2) + (Q3) at $v + j a$ in $j$.

        Args:
            test: inputs like those of the problem. Each costs several times what `first_order` did.

        Returns:
            `FirstOrderPrediction(limit, slope)`, each with mean and variance, `(test examples, ..)`.
        """
        problem, train = self.problem, self.problem.attentioned
        new = inputs_like("test", test, train) if problem.along_paths else new_inputs(problem, test)
        found = _predicted(network_of(problem, new), problem.labels.reshape(-1), problem.temperature, self._sides)
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
        problem: a `Problem` of paths, tokens, or what a projection sees of them, with width and temperature.
            $N$ is the largest width; only ratios count. Infinite widths are equal, or beside narrow heads
            infinite, with $N$ the largest $d$. What a projection leaves out is taken not to fluctuate: with 64
            components (Q2) and (Q3) moved by at most 6 % on an encoder's sentences.
        probes: random matrices for (Q3), at least 2; its part by which the whole kernel grows is exact. If None,
            64, or for paths all pairs of rows, whose sum is exact; it is taken wherever there are no more
            pairs than probes.
        key: a JAX random key for the probes; `jax.random.key(0)` if None.

    Source: ours; for posterior means of kernels by prior cumulants see Zavatone-Veth et al. (2021).
    """
    problem = need_problem(problem, "width", "temperature", tokens=True)
    problem = problem.reduce() if problem.along_paths else problem
    network, size = network_of(problem), problem.labels.size
    pairs = size * (size + 1) // 2
    most = pairs if problem.along_paths else 64
    probes = most if probes is None else checks.whole("probes", probes, 2)
    key = checks.key("key", jax.random.key(0) if key is None else key)
    signs = None if probes >= pairs else jax.random.rademacher(key, (probes, size, size + 1), float)
    gains, terms, sides = _coefficients(network, problem.labels.reshape(-1), problem.temperature, signs)
    error = 0.0 if signs is None else float(np.std(np.sum(terms, axis=1), ddof=1) / math.sqrt(probes))
    ends = np.cumsum([layer.fresh.shape[1] for layer in network.layers])
    parts = np.split(np.stack([gains, np.mean(terms, axis=0)]), ends, axis=1)
    layers = np.array([part.sum(axis=1) for part in parts])
    gain, noise = layers.sum(axis=0).tolist()
    return FirstOrder(gain, noise, error, layers, tuple(parts[:-1]), problem, sides)


@quick_jit()
def _coefficients(network: Network, labels, temperature, signs):
    """Shares in (Q2); shares in (Q3), a row per probe; and the columns $z$ for `_of_labels`."""
    limit, size = limit_of(network), len(labels)
    regression = Regression.of(limit.kernel, temperature, labels)
    root, weights = regression.whiten(jnp.eye(size)).T, regression.solve(labels)
    if signs is None:
        one, two = np.triu_indices(size)
        twice = np.where(one == two, 1.0, math.sqrt(2))[:, None, None]
        noise = shares_of_all(twice * root.T[one][:, :, None], root.T[two][:, :, None], network, limit)
        noise = jnp.sum(noise, axis=0, keepdims=True)
    else:
        # Most of the noise of probes is along the kernel itself: this part is exact, and probes see the rest.
        size_of_kernel = root.T @ limit.kernel @ root
        matrices, whole = _without(signs[:, :, :-1], size_of_kernel)
        noise = shares_of_all(root @ matrices, jnp.tile(root, (len(signs), 1, 1)), network, limit)
        noise += shares(root @ whole, root, network, limit)[None]
    if signs is None or len(signs) >= size:
        gain, linear = _of_labels(root, root, weights, network, limit)
        return gain, 0.25 * noise + jnp.sum(linear, axis=0, keepdims=True), root
    vectors, whole = _without(signs[:, :, -1], size_of_kernel @ root.T @ labels)
    sides = root @ jnp.column_stack([whole, vectors.T / math.sqrt(len(signs))])
    gain, linear = _of_labels(root, sides, weights, network, limit)
    return gain, 0.25 * noise + linear[:1] + len(signs) * linear[1:], sides


def _of_labels(root, sides, weights, network: Network, limit: Limit):
    """(Q2), and $-\\frac12 E V[\\mathrm{sym}\\, v z]$ with the columns of `sides` for $z$, terms of a sum."""
    gain = shares(jnp.column_stack([root, weights]), jnp.column_stack([root, -weights]), network, limit) / 8
    many = jnp.tile(weights[:, None], (sides.shape[1], 1, 1))
    return gain, -0.5 * shares_of_all(many, sides.T[:, :, None], network, limit)


def _without(signs, direction):
    """Random arrays without their part along a direction, and this direction, of length one or zero."""
    direction = direction / jnp.maximum(jnp.linalg.norm(direction), jnp.finfo(float).tiny)
    parts = jnp.tensordot(signs, direction, direction.ndim)
    return signs - jnp.multiply.outer(parts, direction), direction


@quick_jit()
def _predicted(network: Network, labels, temperature, sides):
    """Mean and variance at infinite width, and their first order, one new example at a time."""
    old = jnp.arange(len(labels))

    def one(number):
        both = network.take(jnp.append(old, number))
        limit = limit_of(both)
        regression = Regression.of(limit.kernel[:-1, :-1], temperature, labels)
        root, weights = regression.whiten(jnp.eye(len(labels))).T, jnp.append(regression.solve(labels), 0.0)
        along = jnp.append(-regression.solve(limit.kernel[:-1, -1]), 1.0)
        wide, noise = (jnp.pad(part, ((0, 1), (0, 0))) for part in (root, sides))

        def nats(step):
            return sum(map(jnp.sum, _of_labels(wide, noise, weights + step * along, both, limit)))

        slope_and_curvature = jax.jvp(lambda step: jax.jvp(nats, (step,), (1.0,))[1], (0.0,), (1.0,))
        mean, variance = regression.predict(limit.kernel[:-1, -1:], limit.kernel[-1:, -1])
        return mean[0], variance[0], *slope_and_curvature

    return jax.lax.map(one, jnp.arange(len(labels), len(network.inputs)))
