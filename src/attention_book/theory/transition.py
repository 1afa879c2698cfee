"""Networks that learn to subtract a path: data (I1) of two paths, the landscape of their action, and their dynamics.

Order parameters are in the basis (1, -1), (1, 1) of the paths, each over the square root of two: a rotation of heads
that no prior notices. What is learned is `along`, the overlap U of the difference of both paths.
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import statmech_attention as sma
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.minimum import minimise
from statmech_attention.theory.levels.paths import full_rank
from statmech_attention.theory.prepared import all_pairs

_ROTATION = np.array([[1, 1], [-1, 1]]) / np.sqrt(2)
_LEAST = 3.0  # the smallest entropy (11): one of the readout, two of a layer with two paths
_KICK = 0.25  # time between two kicks of the dynamics, in relaxation times of a weight without data
_GRID = np.linspace(np.log(0.8), np.log(40), 17)  # of ln U along (1, -1), on which the landscape is sought


class Data(NamedTuple):
    """Examples along two paths, in the features that the training examples span, and labels."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    features: int


def draw(rng, examples, features, correlation, signal, tests=0) -> Data:
    """Draw (I1) for two paths with unit noise and the signal on the first."""
    y = np.where(np.arange(examples + tests) % 2, 1.0, -1.0)
    x = rng.normal(size=(len(y), 2, features))
    x[:, 1] = correlation * x[:, 0] + np.sqrt(1 - correlation**2) * x[:, 1]
    x[:, 0, 0] += signal * y
    basis = np.linalg.qr(x[:examples].reshape(2 * examples, -1).T)[0]
    return Data(x[:examples] @ basis, y[:examples], x[examples:] @ basis, y[examples:], features)


def action_of(data: Data, width: int, temperature: float, attention: bool = True) -> Action:
    """The action (11) of the rotated paths; without attention each path has a readout of its own and no layer."""
    turned = np.einsum("phd,hk->pkd", data.x, _ROTATION) * np.sqrt(data.x.shape[-1] / data.features)
    problem = sma.Problem(turned, data.y, layers=(2,), width=width, temperature=temperature)
    action = Action.of(all_pairs(problem), problem.architecture, full_rank(problem.architecture))
    return action if attention else replace(action, finite=jnp.array([1.0, 0.0]))  # the energy sees the readout's prior


def among(action: Action, count) -> Action:
    """The action of the first `count` examples; the others become labels 0 without inputs, a constant."""
    energy: Any = action.energy
    seen = jnp.where(jnp.arange(len(energy.labels)) < count, 1.0, 0.0)
    rows, columns = np.tril_indices(len(seen))
    products = energy.products * (seen[rows] * seen[columns])[None]
    return replace(action, energy=replace(energy, products=products, labels=energy.labels * seen))


@jax.jit
def _floor(action: Action):
    """The lowest points at given ln U along (1, -1), where the logarithm is the sum of two coordinates."""
    down = jnp.array([[0, 0, -1.0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])

    def newton(place, rest):
        _, slope, at = action.dense(jnp.array([place, 0, 0, 0]) + down @ rest)
        curve, turn = jnp.linalg.eigh(down.T @ at.hessian @ down)
        step = turn @ ((turn.T @ (down.T @ slope)) / jnp.maximum(jnp.abs(curve), 1e-3))
        return rest - step * jnp.minimum(1, 0.5 / jnp.linalg.norm(step))

    def lowest(rest, place):
        rest = jax.lax.fori_loop(0, 3, lambda _, rest: newton(place, rest), rest)
        point = jnp.array([place, 0, 0, 0]) + down @ rest
        return rest, (point, action.value(point))

    return jax.lax.scan(lowest, jnp.zeros(3), jnp.asarray(_GRID) / 2)[1]


@jax.jit
def _stationary(action: Action, point):
    """Newton's method: where the gradient vanishes; action, gradient, number of descents, the next order of ln t."""

    def newton(_, point):
        _, slope, at = action.dense(point)
        return point - jnp.linalg.solve(at.hessian, slope)

    point = jax.lax.fori_loop(0, 7, newton, point)
    value, slope, at = action.dense(point)
    curvatures = jnp.linalg.eigvalsh(at.hessian)
    beyond = action.potential(point) - action.half(point) + 0.5 * jnp.log(jnp.abs(curvatures)).sum()
    return action.overlap(point)[0, 0], value, jnp.abs(slope).max(), (curvatures < 0).sum(), beyond


def landscape(action: Action):
    """U along (1, -1) and the action at the prior's minimum, the saddle point and the learned minimum; NaN if one."""
    along, excess, _ = _extrema(action)
    return along, excess + _LEAST


def next_order(action: Action) -> float:
    """What follows the barrier in ln t: psi of (C1) and ln |det H| / 2, saddle point minus the prior's minimum."""
    beyond = _extrema(action)[2]
    return float(beyond[1] - beyond[0])


def _extrema(action: Action):
    """U along (1, -1), the action, and the next order at three stationary points; NaN if there is one."""
    points, floor = map(np.asarray, _floor(action))
    turns = np.nonzero(np.diff(np.sign(np.diff(floor))))[0] + 1
    extrema = [[float(number) for number in _stationary(action, points[turn])] for turn in turns]
    negative = [extremum[3] for extremum in extrema]  # eigenvalues of the Hessian
    good = negative == [0, 1, 0] and max(extremum[2] for extremum in extrema) < 1e-8
    return np.array(extrema)[:, [0, 1, 4]].T if good else np.full((3, 3), np.nan)


@jax.jit
def follow(action: Action, counts, start):
    """U at the minima that are reached from one another as the number of examples changes, and the last point."""

    def next_one(point, count):
        point = minimise(among(action, count), point, 1e-8, 200, "dense").minimum.point
        return point, action.overlap(point)

    point, overlaps = jax.lax.scan(next_one, start, counts)
    return overlaps, point


def weights(key, width, dimensions, attention=True, size=1.0):
    """All weights as one vector: V0, then for each path the value matrix V1 if there is a layer, and the readout."""
    above = 2 * width * width + width if attention else 2 * width
    return size * jax.random.normal(key, (width * dimensions + above,), jnp.float32)


def network(state, x, width, features):
    """Outputs (5) on inputs `(examples, paths x features)`, and the overlaps U of both paths."""
    first, above = jnp.split(state, [width * x.shape[1] // 2])
    w = above.reshape(-1, width)
    if len(w) > 2:  # a layer of value matrices under the readout
        w = jnp.einsum("hij,i->hj", w[:-1].reshape(2, width, width), w[-1]) / jnp.sqrt(1.0 * width)
    outputs = x @ (w @ first.reshape(width, -1)).reshape(-1) / jnp.sqrt(2.0 * width * features)
    return outputs, w @ w.T / width


def _potential(state, seen, x, y, temperature, width, features):
    """-ln of the posterior (8) of the weights, given the examples `seen`."""
    return 0.5 * jnp.sum(seen * (y - network(state, x, width, features)[0]) ** 2) / temperature + 0.5 * state @ state


def relaxed(phase, key, force, step):
    """Weights and velocities after underdamped Langevin dynamics for one relaxation time of a weight without data."""
    leaps = round(_KICK / step)
    keep = math.exp(-_KICK)

    def leap(_, phase):
        state = phase[0] + step / 2 * phase[1]
        velocity = phase[1] - step * force(state)
        return state + step / 2 * velocity, velocity

    def kick(phase, key):
        state, velocity = jax.lax.fori_loop(0, leaps, leap, phase)
        noise = jax.random.normal(key, state.shape, state.dtype)
        return (state, keep * velocity + math.sqrt(1 - keep**2) * noise), None

    return jax.lax.scan(kick, phase, jax.random.split(key, round(1 / _KICK)))[0]


def single(*arrays):
    """In single precision, in which networks are run."""
    return [jnp.asarray(array, jnp.float32) for array in arrays]


@partial(jax.jit, static_argnames=("width", "features", "step"))
def escape(key, x, y, temperature, beyond, patience, width, features, step):
    """Time from the prior until U along (1, -1) is `beyond` or patience ends, the last U, and means of U and misfit."""
    first, second, key = jax.random.split(key, 3)
    given = {"seen": 1.0, "x": x, "y": y, "temperature": temperature, "width": width, "features": features}
    force = partial(jax.grad(_potential), **given)

    def go_on(at):
        phase, time, _, total = at
        phase = relaxed(phase, jax.random.fold_in(key, time), force, step)
        outputs, U = network(phase[0], x, width, features)
        along = (U[0, 0] - 2 * U[0, 1] + U[1, 1]) / 2
        return phase, time + 1, along, total + jnp.stack([along, jnp.mean((y - outputs) ** 2)])

    phase = tuple(weights(subkey, width, x.shape[1] // 2) for subkey in (first, second))
    start = phase, 0, jnp.float32(0), jnp.zeros(2, jnp.float32)
    _, time, along, total = jax.lax.while_loop(lambda at: (at[1] < patience) & (at[2] < beyond), go_on, start)
    return time, along, total / time


@partial(jax.jit, static_argnames=("width", "features", "step"))
def stay(phase, key, seen, x, y, x_test, temperature, time, width, features, step):
    """Dynamics for a time: weights and velocities, and means over its second half of U and of the test outputs."""
    given = {"x": x, "y": y, "temperature": temperature, "width": width, "features": features}
    force = partial(jax.grad(_potential), seen=seen, **given)

    def go_on(now, at):
        phase, U, outputs = at
        phase = relaxed(phase, jax.random.fold_in(key, now), force, step)
        share = jnp.where(now >= time // 2, 1 / (time - time // 2), 0.0)
        output, overlap = network(phase[0], x_test, width, features)
        return phase, U + share * overlap, outputs + share * output

    nothing = jnp.zeros((2, 2), jnp.float32), jnp.zeros(len(x_test), jnp.float32)
    return jax.lax.fori_loop(0, time, go_on, (phase, *nothing))


@partial(jax.jit, static_argnames=("width", "features", "rate"))
def descend(state, seen, x, y, x_test, temperature, steps, width, features, rate):
    """Adam with weight decay from these weights, on the same potential without noise: weights, U and test outputs."""
    given = {"x": x, "y": y, "temperature": temperature, "width": width, "features": features}
    slope, adam = partial(jax.grad(_potential), seen=seen, **given), optax.adam(rate)

    def go_on(_, at):
        change, moments = adam.update(slope(at[0]), at[1])
        return at[0] + change, moments

    state, _ = jax.lax.fori_loop(0, steps, go_on, (state, adam.init(state)))
    outputs, U = network(state, x_test, width, features)
    return state, U, outputs
