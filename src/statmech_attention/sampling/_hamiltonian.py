r"""Hamiltonian Monte Carlo for a density close to that of independent standard normals.

With $-\ln p(y) = |y|^2 / 2 + V(y)$ the energy $|y|^2 / 2 + |r|^2 / 2 + V(y)$ has two parts. The first turns $(y, r)$ by an angle, exactly,
and $V$ alone kicks $r$. A step is half a kick, a turn, half a kick: it keeps volumes and can be walked back, so that accepting
or rejecting the last point leaves the law exact. After a quarter turn a normal has forgotten where it was, in a single step;
how many steps there are is left to how far from a normal the density is (Shahbaba et al. 2014).
"""

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from numpyro.infer.hmc_util import dual_averaging

from statmech_attention.sampling._chains import Transition

_ACCEPTANCE = 0.85  # that the step aims for
_STEP = 0.4  # an angle, to begin with
_MOST_STEPS = 100
_SPREAD = 0.2  # of the angles around a quarter turn: no direction comes back to where it was every time
_LARGEST_ERROR = 1000.0  # of the energy, beyond which a trajectory diverges


class State(NamedTuple):
    """A chain between two iterations; what is known at the position is not yet known at iteration 0.

    What is random in the next iteration is drawn before it: else the compiler writes it out again wherever it is used.
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
    """The chain, which starts from a standard normal; the same one for the same arguments, so that it is compiled once.

    Its data is a pair: what the functions take, and for how many iterations the step adapts.
    """
    start_average, update_average = dual_averaging()

    def begin(key, position, data):
        key, start, _ = _drawn(key, position)
        step, nothing = jnp.asarray(math.log(_STEP), float), jnp.zeros(())
        average = (step, step, *start_average(step)[2:])
        return State(*_drawn(key, position), start, nothing, jnp.zeros_like(start), jnp.zeros((), int), average)

    def advance(state: State, data):
        data, warmup = data
        place, luck = state.uniforms
        angle = 0.5 * jnp.pi * (1 + _SPREAD * (2 * place - 1))
        now, mean, *_ = state.average
        step = jnp.exp(jnp.where(state.iteration < warmup, now, mean))
        steps = jnp.ceil(jnp.clip(angle / step, 1, _MOST_STEPS)).astype(int)

        def leap(index, carry):
            position, momentum, known, start = carry
            # Step 0 stays where it is, to learn what is known there: the gradient is compiled in one place.
            turn = jnp.where(index == 0, 0.0, angle / steps)
            momentum = momentum - 0.5 * turn * (known[1] - position)
            cosine, sine = jnp.cos(turn), jnp.sin(turn)
            position, momentum = cosine * position + sine * momentum, cosine * momentum - sine * position
            known = jax.value_and_grad(potential)(position, data)
            momentum = momentum - 0.5 * turn * (known[1] - position)
            return position, momentum, known, jax.tree.map(partial(jnp.where, index == 0), known, start)

        known = state.potential, state.gradient
        carry = state.position, state.momentum, known, known
        first = jnp.where(state.iteration == 0, 0, 1)
        position, momentum, end, start = jax.lax.fori_loop(first, steps + 1, leap, carry)
        change = end[0] - start[0] + 0.5 * (momentum @ momentum - state.momentum @ state.momentum)
        change = jnp.where(jnp.isnan(change), jnp.inf, change)
        chance = jnp.exp(-jnp.maximum(change, 0.0))
        taken = partial(jnp.where, luck < chance)
        position, known = jax.tree.map(taken, (position, end), (state.position, start))
        adapted = update_average(_ACCEPTANCE - chance, state.average)
        average = jax.tree.map(partial(jnp.where, state.iteration < warmup), adapted, state.average)
        numbers = {"steps": steps, "diverging": change > _LARGEST_ERROR, "acceptance": chance}
        own, momentum, uniforms = _drawn(state.key, position)
        height, slope = known
        return State(own, momentum, uniforms, position, height, slope, state.iteration + 1, average), numbers

    def keep(state, data):
        return {"potential": state.potential, **record(state.position, data[0])}

    return Transition(begin, jax.jit(advance), jax.jit(keep))


def _drawn(key, like):
    """The next key, a momentum and two uniform numbers."""
    key, first, second = jax.random.split(key, 3)
    return key, jax.random.normal(first, like.shape), jax.random.uniform(second, (2,))
