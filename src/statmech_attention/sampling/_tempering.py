r"""A ladder of chains from the prior to the posterior, which exchange their points.

A rung has $-\ln p(z) = |z|^2 / 2 + \beta V(z)$: the posterior at $\beta = 1$, the prior at
$\beta = 0$, where every iteration makes a new independent point. Neighbours exchange their points
with probability $\min(1, e^{(\beta - \beta')(V - V')})$, even and odd pairs in turn, which leaves
all laws exact, so that separate parts of the posterior are joined through the prior (Geyer 1991).
Warm-up places the rungs for equal rejection (Syed et al. 2022).
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from statmech_attention.compiling import map_factorisations
from statmech_attention.sampling._chains import Transition
from statmech_attention.sampling._hamiltonian import (
    SPREAD,
    Point,
    diverges,
    evaluated,
    first_average,
    moved,
    number_of_steps,
    update_average,
    where,
)

_ACCEPTANCE = 0.8  # of a trajectory, that the step aims for
_STEP = 0.2  # an angle, to begin with
_MOST_STEPS = 50
_POWER = 4  # of the first ladder's rungs


class Rung(NamedTuple):
    """The chain at one inverse temperature; a ladder has a dimension of rungs before all others."""

    beta: Float[Array, "*rungs"]
    point: Point
    average: Any


class Ladder(NamedTuple):
    """A ladder between two iterations, its rungs from the posterior to the prior."""

    key: Any
    rungs: Rung
    refused: Float[Array, " gaps"]
    iteration: Int[Array, ""]


@lru_cache(maxsize=64)
def tempering(energy: Callable, record: Callable, rungs: int, turn: float) -> Transition:
    """The ladder for the energy $V$ of (position, data), started from the prior; cached.

    Its data is a pair: the functions' data, and the number of iterations in which ladder and steps
    adapt.
    """

    def begin(key, position, data):
        key, subkey = jax.random.split(key)
        positions = jax.random.normal(subkey, (rungs, position.shape[0]))
        points = map_factorisations(partial(evaluated, energy, data[0]), positions)
        betas = (1 - jnp.arange(rungs) / (rungs - 1)) ** _POWER
        averages = jax.tree.map(lambda number: jnp.broadcast_to(number, rungs), first_average(_STEP))
        return Ladder(key, Rung(betas, points, averages), jnp.zeros(rungs - 1), jnp.zeros((), int))

    def advance(state: Ladder, data):
        data, warmup = data
        key, *move_keys, exchange_key = jax.random.split(state.key, rungs + 2)
        at, adapting = partial(evaluated, energy, data), state.iteration < warmup

        def move(key_and_rung):
            move_key, rung = key_and_rung
            return _move(move_key, rung, at, turn, adapting)

        after, numbers = map_factorisations(move, (jnp.stack(move_keys), state.rungs))
        order, chances = _exchange(exchange_key, after, state.iteration)
        points = jax.tree.map(lambda leaf: leaf[order], after.point)
        iteration, refused = state.iteration + 1, state.refused + 1 - chances
        # At an eighth, a quarter and a half of the warm-up the rungs are placed anew.
        anew = (iteration == warmup // 8) | (iteration == warmup // 4) | (iteration == warmup // 2)
        betas = jnp.where(anew, _even(after.beta, refused), after.beta)
        ladder = Ladder(key, Rung(betas, points, after.average), jnp.where(anew, 0.0, refused), iteration)
        posterior = {name: numbers[name][0] for name in ("diverging", "acceptance")}
        return ladder, {"steps": numbers["steps"].sum(), **posterior, "exchanged": chances.mean()}

    def keep(state: Ladder, data):
        posterior, *_ = state.rungs.point.position
        energy = state.rungs.point.value[0]
        return {"potential": 0.5 * posterior @ posterior + energy, **record(posterior, data[0])}

    return Transition(begin, jax.jit(advance), jax.jit(keep))


def _move(key, rung: Rung, at: Callable, turn: float, adapting):
    """A rung after a trajectory, and the numbers of the trajectory."""
    push_key, angle_key, luck_key = jax.random.split(key, 3)
    angle = turn * (1 + SPREAD * jax.random.uniform(angle_key, minval=-1.0))
    steps = number_of_steps(angle, rung.average, adapting, _MOST_STEPS)
    point, chance, change = moved(push_key, luck_key, rung.point, at, rung.beta, angle / steps, steps)
    average = where(adapting, update_average(_ACCEPTANCE - chance, rung.average), rung.average)
    return Rung(rung.beta, point, average), {"steps": steps, "diverging": diverges(change), "acceptance": chance}


def _exchange(key, rungs: Rung, iteration) -> tuple[Int[Array, " rungs"], Float[Array, " gaps"]]:
    """The order of the points after even or odd neighbours exchange them, and the chance of every pair."""
    chances = jnp.exp(jnp.minimum(jnp.diff(rungs.beta) * jnp.diff(rungs.point.value), 0.0))
    gaps = len(chances)
    offered = jnp.arange(gaps) % 2 == iteration % 2
    swapped = (offered & (jax.random.uniform(key, (gaps,)) < chances)).astype(int)
    return jnp.arange(gaps + 1) + jnp.pad(swapped, (0, 1)) - jnp.pad(swapped, (1, 0)), chances


def _even(betas: Float[Array, " rungs"], refused: Float[Array, " gaps"]) -> Float[Array, " rungs"]:
    """The rungs whose gaps refuse equally often, by linear interpolation of the refusals of these gaps."""
    total = jnp.concatenate([jnp.zeros(1), jnp.cumsum(refused + 1e-3 * (1 + refused.sum()))])
    return jnp.interp(jnp.linspace(0.0, 1.0, betas.shape[0]), total / total[-1], betas)
