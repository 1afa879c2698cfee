r"""The action (11) without paths, in features of every level, and its minimum.

With the features of `theory.levels.ranking`, $D_l = d d^\top / N$ above a layer and $U = \sigma_a^2 F F^\top$ of
the outputs, the layer's values bring

    C = sigma_l^2 (sum_s A_s D A_s^T + rest (x) U),      Psi = C c chol(c^T C c)^{-T},

where `rest` is what the features above leave out, at its prior. Beside a skip with $A_0$, let
$\Phi = \mathrm{chol}(D)$, the features above in orthonormal coordinates $\phi$; what has passed values has
the coordinates $M \phi + f \epsilon$ with fresh noise $\epsilon$. Then, as in (K5),

    D_{l-1} = A_0 D A_0^T + rest_0 (x) U + A_0 Phi M^T Psi^T + (..)^T + C + Psi (M M^T + f f^T - 1) Psi^T,
    S - S_0 = sum_l (N_l / N_max) (|M|^2 + |f|^2 - 2 ln det f - r) + alpha E,
    K = sigma_0^2 (sum_i X_i D_0 X_i^T + rest (x) U).

With all features this is (11) exactly, for any number of paths. The signals of a head of value dimension
$k$ pass through $k$ columns of its own first. They bring a level more, with $D_s$ in place of $D$ above,

    D_s = Phi f_s f_s^T Phi^T,          (k / N_max) (|f_s|^2 - 2 ln det f_s - r).
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.linalg import solve_triangular
from jax.scipy.sparse.linalg import cg
from jaxtyping import Array, Float

from statmech_attention.compiling import quick_jit
from statmech_attention.theory.kernels.regression import Regression
from statmech_attention.theory.levels.ranking import Features, grown

_MEMORY = 20  # pairs of steps and gradients
_POLISH = 5
_CLOSE = 1e-2  # gradient from which Newton's steps lead to the minimum
_PRODUCTS = 100


class Numbers(NamedTuple):
    r"""What the action depends on beside the features; all can be differentiated.

    `variances` are $(\sigma_L^2, .., \sigma_1^2)$ and `shares` $N_l / N_{max}$ in the same order, those of
    heads of a finite value dimension in `inner`, zero without; `projection` is $\sigma_0^2$,
    `readout` $\sigma_a^2$ and `unit` $N_{max}$.
    """

    labels: Float[Array, "examples outputs"]
    temperature: Float[Array, ""]
    projection: Float[Array, ""]
    variances: Float[Array, " layers"]
    readout: Float[Array, ""]
    shares: Float[Array, " layers"]
    inner: Float[Array, " layers"]
    readout_share: Float[Array, ""]
    unit: Float[Array, ""]

    @classmethod
    def of(cls, labels, temperature, variances, shares, inner, unit) -> "Numbers":
        """From variances and shares in the order of `Problem`, the first layer's first."""
        parts = labels.reshape(len(labels), -1), temperature, variances[0], variances[-2:0:-1], variances[-1]
        return cls(*(jnp.asarray(part, float) for part in (*parts, shares[-2::-1], inner[::-1], shares[-1], unit)))


class Point(NamedTuple):
    """Coordinates, zero at infinite width: of $F$ of the outputs, of $f$ and, beside skips, of $M$ of every level.

    Of $F$ and $f$, lower triangles, the logarithm of the diagonal; what is above does not matter. So for
    $f_s$ in `inner`, if some heads have a finite value dimension.
    """

    outputs: Float[Array, "outputs outputs"]
    factor: Float[Array, "layers rows rows"]
    shift: Float[Array, "layers rows rows"] | None
    inner: Float[Array, "layers seeds rows rows"] | None


class Seen(NamedTuple):
    """One level at a point, for new inputs: `whitened` is $c\\, \\mathrm{chol}(c^\\top C c)^{-\\top}$."""

    whitened: Float[Array, "rows rows"]
    psi: Float[Array, "rows rows"]
    moment: Float[Array, "rows rows"]
    lifted: Float[Array, "rows rows"] | None  # chol(D)^-T M^T
    gram: Float[Array, "rows rows"]  # above
    bend: Float[Array, "seeds rows rows"] | None  # Phi^-T (f_s f_s^T - 1) Phi^-1


def prior_point(features: Features, numbers: Numbers) -> Point:
    """Coordinates of infinite width."""
    outputs, (layers, seeds) = numbers.labels.shape[1], features.layers.values.shape[:2]
    square = jnp.zeros((layers, features.size * outputs, features.size * outputs))
    shift = None if features.layers.kept is None else square
    inner = jnp.repeat(square[:, None], seeds, axis=1) if np.any(numbers.inner) else None
    return Point(jnp.zeros((outputs, outputs)), square, shift, inner)


def triangle(coordinates: Float[Array, "rows rows"]) -> Float[Array, "rows rows"]:
    """A lower triangle with a positive diagonal."""
    return jnp.tril(coordinates, -1) + jnp.diag(jnp.exp(jnp.diagonal(coordinates)))


def descend(point: Point, numbers: Numbers, features: Features):
    r"""$U$ of the outputs, $D_0$, the cost of all levels, and `Seen` of each."""
    outputs = triangle(point.outputs)
    top = numbers.readout * outputs @ outputs.T
    step = partial(_step, top=top)
    start = jnp.kron(jnp.eye(features.size), top)
    levels = features.layers, point.factor, point.shift, point.inner, numbers.variances, numbers.shares, numbers.inner
    gram, (costs, seen) = jax.lax.scan(step, start, levels)
    return top, gram, numbers.readout_share * _cost(outputs) + jnp.sum(costs), seen


def _step(gram, layer, top):
    """(K5): the Gram matrix of the features below a layer."""
    level, coordinates, shift, inner, variance, share, inner_share = layer
    ones = jnp.eye(len(top))
    factor, basis = triangle(coordinates), jnp.kron(level.basis, ones)
    through, inner_cost, bend = gram, 0.0, None
    if inner is not None:
        through, inner_cost, bend = _narrowed(gram, inner, inner_share)
    fresh = variance * (_mapped(level.values, through, len(top)) + jnp.kron(level.values_rest, top))
    image = fresh @ basis
    half = jnp.linalg.cholesky(basis.T @ image + jnp.diag(jnp.repeat(level.spare, len(top))))
    psi = solve_triangular(half, image.T, lower=True).T
    moment = factor @ factor.T - jnp.eye(len(half))
    cost, below, lifted = _cost(factor), fresh, None
    if shift is not None:
        root, along = jnp.linalg.cholesky(gram), jnp.kron(level.kept, ones)
        moment, cost = moment + shift @ shift.T, cost + jnp.sum(shift**2)
        cross = (along @ root @ shift.T) @ psi.T
        below = below + along @ gram @ along.T + jnp.kron(level.kept_rest, top) + cross + cross.T
        lifted = solve_triangular(root, shift.T, lower=True, trans=1)
    whitened = solve_triangular(half, basis.T, lower=True).T
    seen = Seen(whitened, psi, moment, lifted, gram, bend)
    return below + psi @ moment @ psi.T, (share * cost + inner_cost, seen)


def _narrowed(gram, coordinates: Float[Array, "seeds rows rows"], share):
    """$D_s$ of all heads, their cost, and `bend`; heads without a value dimension have $D$ itself."""
    root, ones = jnp.linalg.cholesky(gram), jnp.eye(len(gram))
    lifted = solve_triangular(root, ones, lower=True).T

    def of_head(coordinates):
        factor = jnp.where(share > 0, triangle(coordinates), ones)
        half = root @ factor
        return half @ half.T, _cost(factor), lifted @ (factor @ factor.T - ones) @ lifted.T

    grams, costs, bend = jax.vmap(of_head)(coordinates)
    return grams, share * jnp.sum(costs), bend


def _mapped(maps: Float[Array, "seeds below above"], gram: Float[Array, "*seeds rows rows"], outputs: int):
    r"""$\sum_s A_s D_s A_s^\top$, every $A_s$ the same for all outputs; with one $D$, or with one of each seed."""
    seeds, below, above = maps.shape
    if gram.ndim == 2:
        half = maps.reshape(-1, above) @ gram.reshape(above, -1)
    else:
        half = maps @ gram.reshape(seeds, above, -1)
    half = half.reshape(seeds, below * outputs, above, outputs)
    gram_below = jnp.tensordot(half, maps, ((0, 2), (0, 2)))
    return jnp.swapaxes(gram_below, 1, 2).reshape(below * outputs, below * outputs)


def _cost(factor: Float[Array, "rows rows"]):
    """Entropy of a level beyond its smallest one."""
    return jnp.sum(factor**2) - 2 * jnp.sum(jnp.log(jnp.diagonal(factor))) - len(factor)


def kernel_of(top, gram, variance, features: Features):
    """$K$ of all pairs (example, output)."""
    outputs, (examples, _, count) = len(top), features.seen.shape
    half = jnp.tensordot(features.seen, gram.reshape(count, outputs, count, outputs), 1)  # p i c b d
    seen = jnp.einsum("picbd,qib->pcqd", half, features.seen).reshape(examples * outputs, -1)
    return variance * (seen + jnp.kron(features.rest, top))


def excess_action(point: Point, numbers: Numbers, features: Features):
    """$S - S_0$, and the regression on the labels."""
    top, gram, cost, _ = descend(point, numbers, features)
    kernel = kernel_of(top, gram, numbers.projection, features)
    regression = Regression.of(kernel, numbers.temperature, numbers.labels.reshape(-1))
    return cost + regression.nats / numbers.unit, regression


@quick_jit()
def _value_and_slope(point: Point, numbers: Numbers, features: Features):
    return jax.value_and_grad(lambda point: excess_action(point, numbers, features)[0])(point)


class Lowest(NamedTuple):
    """The end of a minimisation; its gradient where the entropy's Hessian is one at infinite width."""

    point: Point
    action: float
    gradient_norm: float
    steps: int


def lowest(start: Point, numbers: Numbers, features: Features, tolerance: float, max_steps: int) -> Lowest:
    """Go down from a point by L-BFGS; where rounding of the action ends it before the tolerance, by Newton's steps."""
    from scipy.optimize import minimize

    flat, unravel = ravel_pytree(start)
    units = np.asarray(ravel_pytree(_units(start, numbers))[0])

    def value(flat):
        action, slope = _value_and_slope(unravel(flat * units), numbers, features)
        return float(action), np.asarray(ravel_pytree(slope)[0]) * units

    options = {"maxcor": _MEMORY, "maxiter": max_steps, "maxfun": 2 * max_steps, "ftol": 0.0, "gtol": tolerance}
    scaled = np.divide(flat, units, out=np.zeros_like(units), where=units > 0)
    end = minimize(value, scaled, jac=True, method="L-BFGS-B", options=options)
    point, action, slope, steps = end.x, float(end.fun), end.jac, int(end.nfev)
    for _ in range(_POLISH):
        if not tolerance < np.abs(slope).max() < _CLOSE:
            break
        scaled, downhill = jnp.asarray(point), -jnp.asarray(slope)
        step = _newton_step(start, scaled, downhill, jnp.asarray(units), numbers, features)
        nearer = value(point + np.asarray(step))
        if not np.abs(nearer[1]).max() < np.abs(slope).max():
            break
        (action, slope), point, steps = nearer, point + np.asarray(step), steps + 1
    return Lowest(unravel(point * units), action, float(np.abs(slope).max()), steps)


@quick_jit()
def _newton_step(like: Point, scaled, downhill, units, numbers, features):
    unravel = ravel_pytree(like)[1]

    def gradient(scaled):
        action = jax.grad(lambda point: excess_action(point, numbers, features)[0])
        return ravel_pytree(action(unravel(scaled * units)))[0] * units

    product = jax.linearize(gradient, scaled)[1]
    return cg(product, downhill, tol=1e-4, maxiter=_PRODUCTS)[0]


def carried(point: Point, features: Features, others: Features, passed: Sequence, outputs: int) -> Point:
    r"""A point in other features, of which the first are the same: what is new, or lost, is at its prior.

    `passed` are the Gram matrices of every level for as many features as it has.
    """
    factors, shifts = [], []
    for level, gram in enumerate(passed):
        old, new = _frame(features, level, gram), _frame(others, level, gram)
        known = gram[: len(old), : len(new)]
        overlap = np.kron(old[: len(known)].T @ known @ new[: known.shape[1]], np.eye(outputs))
        factor = np.asarray(triangle(point.factor[level]))
        moment = overlap.T @ (factor @ factor.T - np.eye(len(factor))) @ overlap + np.eye(overlap.shape[1])
        half = np.linalg.cholesky(moment)
        factors.append(np.tril(half, -1) + np.diag(np.log(np.diagonal(half))))
        if point.shift is not None:
            shift, wanted = overlap.T @ np.asarray(point.shift[level]), overlap.shape[1]
            shifts.append(np.pad(shift, ((0, 0), (0, max(0, wanted - shift.shape[1]))))[:, :wanted])
    shift = None if point.shift is None else jnp.asarray(np.stack(shifts))
    size, inner = others.size * outputs, None
    if point.inner is not None:
        kept = np.asarray(point.inner[..., :size, :size])
        inner = jnp.asarray(grown(kept, *kept.shape[:2], size, size))
    return Point(point.outputs, jnp.asarray(np.stack(factors)), shift, inner)


def _frame(features: Features, level: int, gram) -> Float[np.ndarray, "rows columns"]:
    """Directions of a level that are orthonormal at infinite width; missing ones are zero."""
    basis, spare = np.asarray(features.layers.basis[level]), np.asarray(features.layers.spare[level])
    size = min(len(gram), len(basis))
    half = np.linalg.cholesky(basis[:size].T @ gram[:size, :size] @ basis[:size] + np.diag(spare))
    return np.linalg.solve(half, basis.T).T


def _units(point: Point, numbers: Numbers) -> Point:
    """One over the roots of the entropy's Hessian at infinite width; zero for what stays there."""

    def of(square, share):
        share = np.asarray(share).reshape(np.shape(share) + (1,) * (square.ndim - np.ndim(share)))
        return np.where(share > 0, 1 / np.sqrt(2 * np.where(share > 0, share, 1.0)), 0.0) * np.ones(square.shape)

    def triangular(square, share):
        return of(square, share) * np.where(np.eye(square.shape[-1]), 0.5**0.5, 1.0)

    outputs, factor = triangular(point.outputs, numbers.readout_share), triangular(point.factor, numbers.shares)
    shift = None if point.shift is None else of(point.shift, numbers.shares)
    inner = None if point.inner is None else triangular(point.inner, numbers.inner)
    return Point(outputs, factor, shift, inner)
