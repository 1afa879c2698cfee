r"""Hamiltonian Monte Carlo for densities close to standard normals, alone or on a ladder.

With $-\ln p(y) = |y|^2 / 2 + V(y)$ the energy $|y|^2 / 2 + |r|^2 / 2 + V(y)$ has two parts. The
first rotates $(y, r)$ by an angle, exactly, and $V$ alone kicks $r$. A step is half a kick, a
rotation, half a kick: it preserves volume and is reversible, so that accepting or rejecting the
last point leaves the law exact. After a quarter turn a normal is independent of its start, in a
single step; the number of steps depends on the distance from a normal (Shahbaba et al. 2014).

A rung of the ladder has $-\ln p(z) = |z|^2 / 2 + \beta V(z)$: the posterior at $\beta = 1$, the
prior at $\beta = 0$, where every iteration makes a new independent point. Neighbours exchange their
points with probability $\min(1, e^{(\beta - \beta')(V - V')})$, even and odd pairs in turn, which
leaves all laws exact, so that separate parts of the posterior are joined through the prior (Geyer
1991). Warm-up places the rungs for equal rejection (Syed et al. 2022).
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from numpyro.infer.hmc_util import dual_averaging

from statmech_attention.compiling import map_factorisations
from statmech_attention.sampling._chains import Transition

_ACCEPTANCE = 0.85  # that the step aims for
_STEP = 0.4  # an angle, to begin with
_MOST_STEPS = 100
_SPREAD = 0.2  # of the angles around a quarter turn: no direction comes back to where it was every time
_LARGEST_ERROR = 1000.0  # of the energy, beyond which a trajectory diverges


class State(NamedTuple):
    """A chain between two iterations; potential and gradient are not yet known at iteration 0.

    Random numbers are drawn one iteration ahead: else the compiler repeats the draw wherever it is
    used.
    """

    key: Any
    momentum: Float[Array, " coordinates"]
    uniforms: Float[Array, "2"]
    position: Float[Array, " coordinates"]
    potential: Float[Array, ""]
    gradient: Float[Array, " coordinates"]
    iteration: Int[Array, ""]
    average: Any


@lru_cache(maxsize=64)
def hamiltonian(potential: Callable, record: Callable) -> Transition:
    """The chain of (position, data) functions, started from a standard normal around the position; cached.

    Its data is a pair: the functions' data, and the number of iterations in which the step adapts.
    """
    start_average, update_average = dual_averaging()

    def begin(key, position, data):
        key, spread, _ = _drawn(key, position)
        step, nothing = jnp.asarray(math.log(_STEP), float), jnp.zeros(())
        average = (step, step, *start_average(step)[2:])
        start = position + spread
        return State(*_drawn(key, position), start, nothing, jnp.zeros_like(start), jnp.zeros((), int), average)

    def advance(state: State, data):
        data, warmup = data
        adapting = state.iteration < warmup
        place, luck = state.uniforms
        angle = 0.5 * jnp.pi * (1 + _SPREAD * (2 * place - 1))
        step = jnp.exp(jnp.where(adapting, *state.average[:2]))
        steps = jnp.ceil(jnp.clip(angle / step, 1, _MOST_STEPS)).astype(int)
        position, momentum, end, start = _trajectory(potential, data, state, angle, steps)
        change = end[0] - start[0] + 0.5 * (momentum @ momentum - state.momentum @ state.momentum)
        change, chance = _chance(change)
        position, (height, slope) = _where(luck < chance, (position, end), (state.position, start))
        average = _where(adapting, update_average(_ACCEPTANCE - chance, state.average), state.average)
        numbers = {"steps": steps, "diverging": change > _LARGEST_ERROR, "acceptance": chance}
        key, momentum, uniforms = _drawn(state.key, position)
        return State(key, momentum, uniforms, position, height, slope, state.iteration + 1, average), numbers

    def keep(state, data):
        return {"potential": state.potential, **record(state.position, data[0])}

    return Transition(begin, jax.jit(advance), jax.jit(keep))


def _trajectory(potential: Callable, data, state: State, angle, steps):
    """End and last momentum of a trajectory, value and gradient of the potential at the end and at the start.

    At iteration 0 these are unknown at the start. A step 0 that does not move evaluates them there,
    so that the gradient is compiled in one place.
    """
    evaluate = jax.value_and_grad(lambda position: potential(position, data))

    def step(index, carry):
        *moving, start = carry
        part = jnp.where(index == 0, 0.0, angle / steps)
        moved = _leap(part, lambda position, known: known[1] - position, evaluate, *moving)
        return *moved, _where(index == 0, moved[2], start)

    known = state.potential, state.gradient
    first = jnp.where(state.iteration == 0, 0, 1)
    return jax.lax.fori_loop(first, steps + 1, step, (state.position, state.momentum, known, known))


def _leap(part, force: Callable, evaluate: Callable, position, momentum, known):
    """Half a kick, a rotation by the angle `part`, half a kick."""
    cosine, sine = jnp.cos(part), jnp.sin(part)
    momentum = momentum - 0.5 * part * force(position, known)
    position, momentum = cosine * position + sine * momentum, cosine * momentum - sine * position
    known = evaluate(position)
    return position, momentum - 0.5 * part * force(position, known), known


def _chance(change):
    """The change of energy, infinite where it is unknown, and the chance to accept it."""
    change = jnp.where(jnp.isnan(change), jnp.inf, change)
    return change, jnp.exp(-jnp.maximum(change, 0.0))


def _where(condition, new, old):
    return jax.tree.map(partial(jnp.where, condition), new, old)


def _drawn(key, like):
    """The next key, a momentum and two uniform numbers."""
    key, first, second = jax.random.split(key, 3)
    return key, jax.random.normal(first, like.shape), jax.random.uniform(second, (2,))


_RUNG_ACCEPTANCE = 0.8  # of a trajectory, that the step aims for
_RUNG_STEP = 0.2  # an angle, to begin with
_MOST_RUNG_STEPS = 50
_POWER = 4  # of the first ladder's rungs


class Ladder(NamedTuple):
    """A ladder between two iterations, its rungs from the posterior to the prior."""

    key: Any
    positions: Float[Array, "rungs numbers"]
    energies: Float[Array, " rungs"]
    gradients: Float[Array, "rungs numbers"]
    ladder: Float[Array, " rungs"]
    refused: Float[Array, " gaps"]
    iteration: Int[Array, ""]
    averages: Any


@lru_cache(maxsize=64)
def tempering(energy: Callable, record: Callable, rungs: int, turn: float) -> Transition:
    """The ladder for the energy $V$ of (point, data), started from the prior; cached.

    Its data is a pair: the functions' data, and the number of iterations in which ladder and steps
    adapt.
    """
    start_average, update_average = dual_averaging()
    first_ladder = (1 - jnp.arange(rungs) / (rungs - 1)) ** _POWER

    def begin(key, position, data):
        key, subkey = jax.random.split(key)
        positions = jax.random.normal(subkey, (rungs, position.shape[0]))
        energies, gradients = map_factorisations(lambda one: jax.value_and_grad(energy)(one, data[0]), positions)
        step = jnp.full(rungs, math.log(_RUNG_STEP))
        averages = (step, step, *(jnp.broadcast_to(one, rungs) for one in start_average(step[0])[2:]))
        none = jnp.zeros((), int)
        return Ladder(key, positions, energies, gradients, first_ladder, jnp.zeros(rungs - 1), none, averages)

    def advance(state: Ladder, data):
        data, warmup = data
        key, *keys = jax.random.split(state.key, rungs + 2)
        adapting = state.iteration < warmup
        log_steps = jnp.where(adapting, *state.averages[:2])
        each = (jnp.stack(keys[:rungs]), state.positions, state.energies, state.gradients, state.ladder, log_steps)
        *moved, chances, steps, changes = map_factorisations(lambda rung: _move(rung, energy, data, turn), each)
        averages = _where(
            adapting, jax.vmap(update_average)(_RUNG_ACCEPTANCE - chances, state.averages), state.averages
        )
        order, between = _exchange(keys[rungs], state, moved[1])
        state = _moved_ladder(state, between, warmup)._replace(key=key, averages=averages)
        state = state._replace(positions=moved[0][order], energies=moved[1][order], gradients=moved[2][order])
        numbers = {"steps": steps.sum(), "diverging": changes[0] > _LARGEST_ERROR, "acceptance": chances[0]}
        return state, numbers | {"exchanged": between.mean()}

    def keep(state, data):
        position = state.positions[0]
        return {"potential": 0.5 * position @ position + state.energies[0], **record(position, data[0])}

    return Transition(begin, jax.jit(advance), jax.jit(keep))


def _move(rung: tuple, energy: Callable, data, turn: float):
    """A trajectory of one rung: position, energy and gradient, chance, number of steps and change of energy."""
    key, position, value, gradient, beta, log_step = rung
    push_key, angle_key, luck_key = jax.random.split(key, 3)
    momentum = jax.random.normal(push_key, position.shape)
    angle = turn * (1 + _SPREAD * jax.random.uniform(angle_key, minval=-1.0))
    steps = jnp.ceil(jnp.clip(angle / jnp.exp(log_step), 1, _MOST_RUNG_STEPS)).astype(int)
    evaluate = jax.value_and_grad(lambda position: energy(position, data))

    def step(_, moving):
        return _leap(angle / steps, lambda position, known: beta * known[1], evaluate, *moving)

    def total(position, momentum, known):
        return beta * known[0] + 0.5 * (position @ position + momentum @ momentum)

    start = position, momentum, (value, gradient)
    end = jax.lax.fori_loop(0, steps, step, start)
    change, chance = _chance(total(*end) - total(*start))
    position, _, known = _where(jax.random.uniform(luck_key) < chance, end, start)
    return position, *known, chance, steps, change


def _exchange(key, state: Ladder, energies: Float[Array, " rungs"]):
    """The rungs' order after even or odd neighbours exchange, and the chance of every pair."""
    gaps = len(energies) - 1
    between = jnp.exp(jnp.minimum(jnp.diff(state.ladder) * jnp.diff(energies), 0.0))
    among = jnp.arange(gaps) % 2 == state.iteration % 2
    swapped = (among & (jax.random.uniform(key, (gaps,)) < between)).astype(int)
    return jnp.arange(gaps + 1) + jnp.pad(swapped, (0, 1)) - jnp.pad(swapped, (1, 0)), between


def _moved_ladder(state: Ladder, between: Float[Array, " gaps"], warmup) -> Ladder:
    """Count refusals; at an eighth, a quarter and a half of the warm-up place the rungs anew."""
    refused, now = state.refused + 1 - between, state.iteration + 1
    anew = (now == warmup // 8) | (now == warmup // 4) | (now == warmup // 2)
    ladder = jnp.where(anew, _even(state.ladder, refused), state.ladder)
    return state._replace(ladder=ladder, refused=jnp.where(anew, 0.0, refused), iteration=now)


def _even(ladder: Float[Array, " rungs"], refused: Float[Array, " gaps"]) -> Float[Array, " rungs"]:
    """The ladder whose gaps refuse equally often, by linear interpolation of the refusals of these gaps."""
    total = jnp.concatenate([jnp.zeros(1), jnp.cumsum(refused + 1e-3 * (1 + refused.sum()))])
    return jnp.interp(jnp.linspace(0.0, 1.0, ladder.shape[0]), total / total[-1], ladder)
