r"""A solvable model of paths that share noise and signal: energy, saddle point and accuracy without data.

Example $i$ with label $y_i = \pm 1$, seen along path $a$ in $N_0$ features, is

    xi_i^a = y_i s_a + o_a + n_i^a,      n_i^a ~ N(0, Q_ab 1),                                     (I1)

with a signal $s_a$ and an offset $o_a$ in a few directions, and noise with covariance $Q$ between
paths, independent for every feature and example. For $P, N_0 \to \infty$ at fixed
$\gamma = P / N_0$ the energy is a function of $U$ alone, (I2) to (I5); the entropy is that of
`theory.action`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.compiling import quick_jit
from statmech_attention.layers.chains import Layers
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.theory.descent.energies import Energy
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.minimum import ActionMinimum, minimise
from statmech_attention.theory.descent.trust_region import Outcome
from statmech_attention.theory.kernels.of_paths import check_order_parameter, check_semi_definite
from statmech_attention.theory.levels.paths import full_rank, point_of
from statmech_attention.theory.problem import Problem, need_problem

_NAMES = ("noise", "signal", "offset", "examples", "features", "width", "temperature", "variance")
_MOST_DENSE = 120  # coordinates whose Hessian is formed


class SolvablePrediction(NamedTuple):
    r"""Outputs on new examples, $f(x^*) = m y^* + b + z$ with $z \sim \mathcal N(0, v)$ over examples, (I6).

    Attributes:
        slope: $m$, the share of the label that the mean output returns.
        offset: $b$.
        spread: $v$, the variance of the mean output over examples of one class.
        variance: $1/g - T$, the posterior variance (30) of the output on one example.
        accuracy: the share of new examples whose mean output has the label's sign.
        squared_error: the mean of $(y^* - \langle f(x^*) \rangle)^2$.
    """

    slope: Float[Array, "*batch"]
    offset: Float[Array, "*batch"]
    spread: Float[Array, "*batch"]
    variance: Float[Array, "*batch"]
    accuracy: Float[Array, "*batch"]
    squared_error: Float[Array, "*batch"]


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, init=False, eq=False)
class SolvableModel:
    r"""Data of the law (I1) and the network that learns them; a pytree, to be mapped over and differentiated in.

    Args:
        noise: $Q$, `(paths, paths)`, symmetric, positive semi-definite.
        signal: $s$, `(paths,)` for one direction, or `(directions, paths)`: orthogonal directions
            in the space of the features.
        examples: $P$. Only the ratios of $P$, $N_0$ and the widths matter, except in `sample`.
        features: $N_0$.
        temperature: $T > 0$.
        width: $N$ or $(N_1, .., N_{L+1})$; infinity is the Gaussian-process limit.
        offset: $o$, what both classes have in common, in the same directions as `signal`.
        variance: $\sigma^2$ or $(\sigma_0^2, .., \sigma_L^2, \sigma_a^2)$.
        layers: $(H_1, .., H_L)$ or layers of other kinds, with one output; one layer of all paths
            if None.

    Raises:
        ValueError: wrong shapes, several outputs, numbers out of range, float32.
    """

    noise: Float[Array, "paths paths"]
    signal: Float[Array, "directions paths"]
    offset: Float[Array, "directions paths"]
    examples: Any
    features: Any
    width: tuple
    temperature: Any
    variance: tuple
    layers: tuple

    def __init__(
        self,
        noise: ArrayLike,
        signal: ArrayLike,
        *,
        examples: ArrayLike,
        features: ArrayLike,
        temperature: ArrayLike,
        width: ArrayLike | Sequence[ArrayLike] = np.inf,
        offset: ArrayLike | None = None,
        variance: ArrayLike | Sequence[ArrayLike] = 1.0,
        layers: Layers | None = None,
    ):
        covariance = checks.array("noise", noise, "paths paths", double=True)
        checks.same("noise", "rows", covariance.shape[0], "columns", covariance.shape[1])
        check_semi_definite("noise", covariance)
        strength = _directions("signal", signal)
        common = jnp.zeros_like(strength) if offset is None else _directions("offset", offset)
        architecture = Architecture.of((covariance.shape[0],) if layers is None else layers, width, variance)
        chain = architecture.chain
        if chain.outputs != 1 or chain.readout.axes:
            raise ValueError(f"layers: wanted one output, got {architecture.chain.shorthand}. Leave Outputs out.")
        checks.same("noise", "rows", covariance.shape[0], "paths of the layers", chain.paths)
        checks.same("signal", "columns", strength.shape[1], "paths", chain.paths)
        if common.shape != strength.shape:
            raise ValueError(f"offset: wanted the shape of the signal, {strength.shape}, got {common.shape}.")
        numbers = {"examples": examples, "features": features, "temperature": temperature}
        sizes = [checks.positive(name, number) for name, number in numbers.items()]
        self._set(covariance, strength, common, *sizes[:2], architecture.widths, sizes[2], architecture.variances)
        object.__setattr__(self, "layers", architecture.chain.shorthand)

    @classmethod
    def of(cls, problem: Problem) -> "SolvableModel":
        r"""The model with the moments of a problem's data: label and constant fitted by least squares, the rest noise.

        The squared lengths of signals and offsets are without the part that is noise. Features of
        real data are neither independent nor alike, so that this is an approximation there.

        Args:
            problem: a `Problem` of one output with width, temperature and labels $\pm 1$.

        Raises:
            ValueError: as `SolvableModel`; other labels.
        """
        problem = need_problem(problem, "width", "temperature")
        values = problem.attentioned.values
        labels = checks.labels(problem.labels, len(values), signs=True)
        count, paths, features = values.shape
        design = jnp.stack([labels, jnp.ones_like(labels)], axis=1)
        inverse = jnp.linalg.inv(design.T @ design)
        means = jnp.einsum("xy,iy,iaj->xaj", inverse, design, values)
        rest = values - jnp.einsum("ix,xaj->iaj", design, means)
        noise = jnp.einsum("iaj,ibj->ab", rest, rest) / ((count - 2) * features)
        flat = means.reshape(2 * paths, features)
        signal, offset = jnp.split(_root(flat @ flat.T - features * jnp.kron(inverse, noise)).T, 2, axis=1)
        numbers = {name: getattr(problem, name) for name in ("width", "temperature", "variance", "layers")}
        return cls(noise, signal, offset=offset, examples=count, features=features, **numbers)

    def replace(self, **changes) -> "SolvableModel":
        """The same model with other arguments of `SolvableModel`, by name, checked again.

        Raises:
            ValueError: as `SolvableModel`.
            TypeError: an unknown name.
        """
        return SolvableModel(**({name: getattr(self, name) for name in (*_NAMES, "layers")} | changes))

    def energy(self, order_parameter: ArrayLike) -> Float[Array, ""]:
        r"""$E(U) = -\ln g + T g - 1 + \frac1\gamma \ln\det(I + c\,Q U) + \frac{g}{1 + q}$, equations (I3) and (I4).

        $1/g = T + h\,\mathrm{tr}\,Q V$ (I2) with $c = \gamma h g$, $V = (U^{-1} + c\,Q)^{-1}$ and
        $h = \sigma_0^2 / \prod_l H_l$; $q = c\,\mathrm{tr}\,s V s^\top$ without an offset.

        Args:
            order_parameter: $U$, `(paths, paths)`, positive semi-definite.

        Raises:
            ValueError: a wrong shape, a $U$ that is not symmetric.
        """
        return _energy(self, check_order_parameter(order_parameter, len(self.noise)))

    def predict(self, order_parameter: ArrayLike) -> SolvablePrediction:
        r"""Law of the outputs on new examples and its accuracy, (I6) to (I8).

        $m = q / (1 + q)$, $v = -\gamma h\, \frac{d}{dt} \frac{g}{1 + q}$ at $U + t\,U Q U$, $t = 0$.

        Args:
            order_parameter: as in `energy`.

        Raises:
            ValueError: as `energy`.
        """
        return _predict(self, check_order_parameter(order_parameter, len(self.noise)))

    def solve(
        self,
        *,
        start: Sequence[ArrayLike] | None = None,
        tolerance: float = 1e-9,
        max_steps: int = 200,
        throw: bool = True,
    ) -> ActionMinimum:
        r"""$U = \mathrm{argmin}\,[\mathcal L + \alpha E]$, (11) with the energy (I3) and (I4); a few numbers.

        Under `jax.jit`, `jax.vmap` and `jax.grad` write `throw=False`. First derivatives in the
        model's numbers are those of the implicit function theorem.

        Args:
            start: order parameters to start from, $(U^{(1)}, .., U^{(L+1)})$; the
                Gaussian-process limit if None.
            tolerance: largest gradient entry, in the good coordinates, of a converged solve, in
                units of one plus the size of the action at the start.
            max_steps: trial steps before giving up.
            throw: raise if the solve does not converge.

        Returns:
            Order parameters and $P E$, and `minimum` with $S - S_0$ and outcome.

        Raises:
            ValueError: order parameters that no network of these layers has.
            RuntimeError: the tolerance was not reached.
        """
        tolerance = checks.positive("tolerance", tolerance)
        if checks.concrete(max_steps):
            checks.whole("max_steps", max_steps)
        factors = full_rank(self.architecture)
        point = jnp.zeros(factors.coordinates) if start is None else point_of(start, factors)
        minimum = _solve(self, point, tolerance, max_steps)
        if throw and (outcome := Outcome(int(minimum.minimum.outcome))) != Outcome.CONVERGED:
            raise RuntimeError(f"The saddle point was not reached: {outcome.name}, {self}.")
        return minimum

    def sample(self, key: checks.Key, test_examples: int = 1000) -> tuple[Problem, AttentionedInputs, Array]:
        """Draw data of the law (I1): a `Problem` of $P$ examples, test inputs and test labels.

        Args:
            key: a JAX random key.
            test_examples: number of test examples.

        Raises:
            ValueError: $P$ or $N_0$ that is not whole, fewer features than directions.
        """
        count, features = checks.whole("examples", self.examples), checks.whole("features", self.features)
        total, (directions, paths) = count + checks.whole("test_examples", test_examples), self.signal.shape
        if directions > features:
            raise ValueError(f"features: wanted at least the {directions} directions of the signal, got {features}.")
        labels = jnp.where(jnp.arange(total) % 2 == 0, 1.0, -1.0)
        drawn = jax.random.normal(checks.key("key", key), (total * paths * features,)).reshape(total, paths, features)
        seen = jnp.einsum("ab,ibj->iaj", _root(self.noise), drawn)
        means = labels[:, None, None] * self.signal.T[None] + self.offset.T[None]
        inputs = seen.at[:, :, :directions].add(means)
        numbers = {name: getattr(self, name) for name in ("width", "temperature", "variance")}
        problem = Problem(inputs[:count], labels[:count], layers=self.layers, **numbers)
        return problem, AttentionedInputs(inputs[count:], self.layers), labels[count:]

    @property
    def architecture(self) -> Architecture:
        """Layers, widths and prior variances."""
        return Architecture(self.layers, self.width, self.variance)

    def tree_flatten(self):
        return tuple(getattr(self, name) for name in _NAMES), self.layers

    @classmethod
    def tree_unflatten(cls, layers, parts) -> "SolvableModel":
        model = object.__new__(cls)
        model._set(*parts)
        object.__setattr__(model, "layers", layers)
        return model

    def _set(self, *parts) -> None:
        for name, part in zip(_NAMES, parts, strict=True):
            object.__setattr__(self, name, part)


def _directions(name: str, value):
    wide = np.ndim(value) == 2
    array = checks.array(name, value, "directions paths" if wide else "paths", double=True)
    return array if wide else array[None]


def _root(matrix):
    """A matrix whose product with its transpose is this one, without its negative part."""
    values, vectors = jnp.linalg.eigh(matrix)
    return vectors * jnp.sqrt(jnp.maximum(values, 0.0))[None, :]


class _Response(NamedTuple):
    """Numbers of (I2), (I4) and (I5) at one $U$; `noise` is $Q$ with the gains of the paths."""

    g: Array
    c: Array
    h: Array
    noise: Array
    q: Array
    p: Array
    omega: Array


def _response(model: SolvableModel, order_parameter) -> _Response:
    chain = model.architecture.chain
    gains = jnp.asarray(chain.path_gains)
    h = model.variance[0] / chain.divisor
    noise = model.noise * gains[:, None] * gains[None, :]
    signal, offset = model.signal * gains[None, :], model.offset * gains[None, :]
    gamma = model.examples / model.features

    x = _inverse_resolvent(order_parameter, noise, model.temperature, gamma, h)
    c = gamma * h / x
    v = _renormalised(order_parameter, noise, c)
    p, omega = c * jnp.sum((signal @ v) * offset), c * jnp.sum((offset @ v) * offset)
    q = c * jnp.sum((signal @ v) * signal) - p**2 / (1 + omega)
    return _Response(1 / x, c, h, noise, q, p, omega)


def _renormalised(order_parameter, noise, c):
    """$V$, in a form that a singular $U$ has too."""
    solved = jnp.linalg.solve(jnp.eye(len(noise)) + c * order_parameter @ noise, order_parameter)
    return 0.5 * (solved + solved.T)


@jax.custom_jvp
def _inverse_resolvent(order_parameter, noise, temperature, gamma, h):
    """$x = 1/g$ by Newton's method: $x - T - h tr Q V$ is convex, so that from above it falls to the root."""
    root = _root(noise)
    spectrum = h * jnp.maximum(jnp.linalg.eigvalsh(root.T @ order_parameter @ root), 0.0)

    def fall(_, x):
        shares = gamma * spectrum / (x + gamma * spectrum)
        return x - (x - temperature - x / gamma * jnp.sum(shares)) / (1 - jnp.sum(shares**2) / gamma)

    return jax.lax.fori_loop(0, 40, fall, temperature + jnp.sum(spectrum))


@_inverse_resolvent.defjvp
def _inverse_resolvent_tangent(primals, tangents):
    x = _inverse_resolvent(*primals)

    def right(order_parameter, noise, temperature, gamma, h):
        return temperature + h * jnp.sum(_renormalised(order_parameter, noise, gamma * h / x) * noise)

    order_parameter, noise, _, gamma, h = primals
    v = _renormalised(order_parameter, noise, gamma * h / x) @ noise
    slope = 1 - gamma * (h / x) ** 2 * jnp.sum(v * v.T)
    return x, jax.jvp(right, primals, tangents)[1] / slope


def _misfit(model, order_parameter):
    at = _response(model, order_parameter)
    return at.g / (1 + at.q)


@jax.jit
def _energy(model, order_parameter):
    at = _response(model, order_parameter)
    spread = jnp.linalg.slogdet(jnp.eye(len(at.noise)) + at.c * at.noise @ order_parameter)[1]
    volume = -jnp.log(at.g) + model.temperature * at.g - 1 + spread * model.features / model.examples
    return volume + at.g / (1 + at.q)


@quick_jit()
def _predict(model, order_parameter) -> SolvablePrediction:
    at = _response(model, order_parameter)
    slope, offset = at.q / (1 + at.q), at.p / ((1 + at.omega) * (1 + at.q))
    change = order_parameter @ at.noise @ order_parameter
    fall = jax.jvp(partial(_misfit, model), (order_parameter,), (change,))[1]
    spread = -model.examples / model.features * at.h * fall
    deviation = jnp.sqrt(jnp.maximum(spread, jnp.finfo(float).tiny))
    accuracy = 0.5 * (norm.cdf((slope + offset) / deviation) + norm.cdf((slope - offset) / deviation))
    error = (1 - slope) ** 2 + offset**2 + spread
    return SolvablePrediction(slope, offset, spread, 1 / at.g - model.temperature, accuracy, error)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SolvableEnergy(Energy):
    """$P E(U)$ by (I3) and (I4)."""

    model: SolvableModel

    def value(self, overlap):
        return self.model.examples * _energy(self.model, overlap)


@quick_jit()
def _solve(model: SolvableModel, start, tolerance, max_steps) -> ActionMinimum:
    action = Action.of(SolvableEnergy(model), model.architecture, full_rank(model.architecture))
    size = 1 + jnp.abs(jax.lax.stop_gradient(action.value(start)))
    return minimise(action, start, tolerance * size, max_steps, "dense" if start.size <= _MOST_DENSE else "products")
