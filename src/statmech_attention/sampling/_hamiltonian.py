r"""Hamiltonian Monte Carlo for densities close to standard normals.

With $-\ln p(y) = |y|^2 / 2 + V(y)$ the energy $|y|^2 / 2 + |r|^2 / 2 + V(y)$ has two parts. The
first rotates $(y, r)$ by an angle, exactly, and $V$ alone kicks $r$. A step is half a kick, a
rotation, half a kick: it preserves volume and is reversible, so that accepting or rejecting the
last point leaves the law exact. After a quarter turn a normal is independent of its start, in a
single step; the number of steps depends on the distance from a normal (Shahbaba et al. 2014).
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from numpyro.infer.hmc_util import dual_averaging

from statmech_attention.sampling._chains import Transition

SPREAD = 0.2  # of the angles around the wanted one: no direction comes back to where it was every time
_ACCEPTANCE = 0.85  # that the step aims for
_STEP = 0.4  # an angle, to begin with
_MOST_STEPS = 100
_LARGEST_ERROR = 1000.0  # of the energy, beyond which a trajectory diverges

_begin_average, update_average = dual_averaging()


class Point(NamedTuple):
    """A position, with the value of a function there and its gradient."""

    position: Float[Array, "*rungs coordinates"]
    value: Float[Array, "*rungs"]
    gradient: Float[Array, "*rungs coordinates"]


class State(NamedTuple):
    """A chain between two iterations; value and gradient of the potential are not yet known at iteration 0.

    Momentum and uniform numbers are drawn one iteration ahead: else the compiler repeats the draw
    wherever it is used.
    """

    key: Any
    momentum: Float[Array, " coordinates"]
    uniforms: Float[Array, "2"]
    point: Point
    iteration: Int[Array, ""]
    average: Any


@lru_cache(maxsize=64)
def hamiltonian(potential: Callable, record: Callable) -> Transition:
    """The chain of (position, data) functions, started from a standard normal around the position; cached.

    Its data is a pair: the functions' data, and the number of iterations in which the step adapts.
    """

    def begin(key, position, data):
        key, spread, _ = _drawn(key, position)
        key, momentum, uniforms = _drawn(key, position)
        unknown = Point(position + spread, jnp.zeros(()), jnp.zeros_like(position))
        return State(key, momentum, uniforms, unknown, jnp.zeros((), int), first_average(_STEP))

    def advance(state: State, data):
        data, warmup = data
        adapting = state.iteration < warmup
        place, luck = state.uniforms
        angle = 0.5 * jnp.pi * (1 + SPREAD * (2 * place - 1))
        steps = number_of_steps(angle, state.average, adapting, _MOST_STEPS)
        start, end, last_momentum = _trajectory(partial(evaluated, potential, data), state, angle, steps)
        change = end.value - start.value + 0.5 * (last_momentum @ last_momentum - state.momentum @ state.momentum)
        chance = acceptance(change)
        point = where(luck < chance, end, start)
        average = where(adapting, update_average(_ACCEPTANCE - chance, state.average), state.average)
        key, momentum, uniforms = _drawn(state.key, point.position)
        numbers = {"steps": steps, "diverging": diverges(change), "acceptance": chance}
        return State(key, momentum, uniforms, point, state.iteration + 1, average), numbers

    def keep(state: State, data):
        return {"potential": state.point.value, **record(state.point.position, data[0])}

    return Transition(begin, jax.jit(advance), jax.jit(keep))


def _trajectory(at: Callable, state: State, angle, steps) -> tuple[Point, Point, Float[Array, " coordinates"]]:
    """The start and the end of a trajectory, and the momentum at the end.

    At iteration 0 value and gradient are unknown at the start. A step 0 that does not move
    evaluates them there, so that the gradient is compiled in one place.
    """

    def step(index, carry):
        start, point, momentum = carry
        part = jnp.where(index == 0, 0.0, angle / steps)
        point, momentum = leap(part, lambda there: there.gradient - there.position, at, point, momentum)
        return where(index == 0, point, start), point, momentum

    first = jnp.where(state.iteration == 0, 0, 1)
    return jax.lax.fori_loop(first, steps + 1, step, (state.point, state.point, state.momentum))


def evaluated(function: Callable, data, position: Float[Array, " coordinates"]) -> Point:
    """The value and the gradient of a function of (position, data)."""
    value, gradient = jax.value_and_grad(function)(position, data)
    return Point(position, value, gradient)


def leap(part, force: Callable, at: Callable, point: Point, momentum: Float[Array, " coordinates"]):
    """Half a kick, a rotation by the angle `part`, half a kick: the next point and its momentum.

    `at` evaluates a position; `force` is the gradient of $V$ at a point.
    """
    cosine, sine = jnp.cos(part), jnp.sin(part)
    kicked = momentum - 0.5 * part * force(point)
    end = at(cosine * point.position + sine * kicked)
    turned = cosine * kicked - sine * point.position
    return end, turned - 0.5 * part * force(end)


def moved(push_key, luck_key, point: Point, at: Callable, beta, part, leaps):
    r"""A point of $-\ln p(z) = |z|^2 / 2 + \beta V(z)$ after a trajectory, if that is accepted.

    `at` evaluates $V$, and each leap turns by the angle `part`. With the point come the chance that
    it was accepted, and the change of energy.
    """
    momentum = jax.random.normal(push_key, point.position.shape)

    def total(point, momentum):
        return beta * point.value + 0.5 * (point.position @ point.position + momentum @ momentum)

    def step(_, moving):
        return leap(part, lambda there: beta * there.gradient, at, *moving)

    end, last_momentum = jax.lax.fori_loop(0, leaps, step, (point, momentum))
    change = total(end, last_momentum) - total(point, momentum)
    chance = acceptance(change)
    return where(jax.random.uniform(luck_key) < chance, end, point), chance, change


def acceptance(change: Float[Array, ""]) -> Float[Array, ""]:
    """The chance to accept a change of energy: none where it is not a number."""
    return jnp.exp(-jnp.maximum(jnp.where(jnp.isnan(change), jnp.inf, change), 0.0))


def diverges(change: Float[Array, ""]) -> Bool[Array, ""]:
    """True for a change of energy that is too large, or not a number."""
    return ~(change <= _LARGEST_ERROR)


def first_average(step: float):
    """The state of dual averaging for the logarithm of a step: its latest value, its mean, and three more numbers."""
    log_step = jnp.asarray(math.log(step), float)
    _, _, *others = _begin_average(log_step)
    return log_step, log_step, *others


def number_of_steps(angle: Float[Array, ""], average, adapting: Bool[Array, ""], most: int) -> Int[Array, ""]:
    """How many steps make up the angle: of the latest length while it adapts, of the mean length afterwards."""
    latest, mean, *_ = average
    step = jnp.exp(jnp.where(adapting, latest, mean))
    return jnp.ceil(jnp.clip(angle / step, 1, most)).astype(int)


def where(condition: Bool[Array, ""], new, old):
    """`jnp.where` for all arrays of two trees."""
    return jax.tree.map(partial(jnp.where, condition), new, old)


def _drawn(key, like):
    """The next key, a momentum and two uniform numbers."""
    key, first, second = jax.random.split(key, 3)
    return key, jax.random.normal(first, like.shape), jax.random.uniform(second, (2,))
