r"""Particles that are annealed from the prior to the posterior, and what they say of the evidence.

In networks with fewer neurons than partial paths the posterior is curved and has distant parts,
around which no Gaussian fits. There standard normal numbers $z$, as many as effective weights, are
drawn from the prior and taken through the laws $e^{-|z|^2 / 2 - \beta V(z)}$, $V = P E / 2$, from
$\beta = 0$ to 1. Each step weighs the particles, $p(Y)$ is the product of the mean weights, draws
them anew by their weights, and moves each by a few Hamiltonian trajectories (Del Moral, Doucet and
Jasra 2006). All starts at the prior, so that no mode has to be known. But where a mode of little
prior weight wins late and at once, as in a transition of first order, few particles or none are in
it, and replicates that all miss it agree.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float

from statmech_attention.compiling import map_factorisations
from statmech_attention.sampling._bartlett import normal_count, order_parameters_of_normals
from statmech_attention.sampling._hamiltonian import Point, evaluated, moved
from statmech_attention.theory.descent.energies import PairEnergy
from statmech_attention.theory.levels.paths import PathLevels
from statmech_attention.theory.outputs import CrossKernels, output

_KEPT = 0.85  # share of the particles that one step's weights are worth
_TRAJECTORIES = 3  # of every particle at each step
_ACCEPTANCE = 0.75  # of a trajectory, that the angle of a leap aims for
_ANGLE, _RATE = 0.5, 2.0  # the first one, and how fast it adapts
_MOST_LEAPS = 12  # of a trajectory
_HALVINGS = 40  # of the interval in which the next inverse temperature lies
_LEAST = 1e-12  # by which it rises at least


class Swarm(NamedTuple):
    """All particles of all replicates at one inverse temperature, and each replicate's log evidence so far."""

    key: Any
    beta: Float[Array, ""]
    points: Point
    evidence: Float[Array, " replicates"]
    angle: Float[Array, ""]


@partial(jax.jit, static_argnames=("widths", "replicates", "particles"))
def annealed(
    key,
    energy: PairEnergy,
    factors: PathLevels,
    kernels: CrossKernels | None,
    *,
    widths,
    replicates: int,
    particles: int,
):
    """By replicate the logarithm of the evidence's integral, and means over its particles."""

    def potential(point, _):
        return 0.5 * energy.held(order_parameters_of_normals(point, widths, factors)[0])

    def observed(point):
        overlap = order_parameters_of_normals(point, widths, factors)[0]
        given = {"order_parameter": overlap}
        return given if kernels is None else given | {"output": output(overlap, energy, kernels).mean}

    at = partial(evaluated, potential, None)
    key, first = jax.random.split(key)
    positions = jax.random.normal(first, (replicates * particles, normal_count(widths, factors)))
    points, angle = map_factorisations(at, positions), jnp.full((), _ANGLE)
    begin = Swarm(key, jnp.zeros(()), points, jnp.zeros(replicates), angle)
    end = jax.lax.while_loop(lambda swarm: swarm.beta < 1, partial(_step, at=at), begin)
    values = map_factorisations(observed, end.points.position)
    means = jax.tree.map(lambda leaf: leaf.reshape(replicates, particles, *leaf.shape[1:]).mean(axis=1), values)
    return end.evidence, means


def _step(swarm: Swarm, at) -> Swarm:
    """Weigh, draw anew, move."""
    replicates = len(swarm.evidence)
    key, luck, *moves = jax.random.split(swarm.key, 2 + _TRAJECTORIES)
    values = swarm.points.value.reshape(replicates, -1)
    beta = _next(swarm.beta, values)
    logs = (swarm.beta - beta) * values
    evidence = swarm.evidence + logsumexp(logs, axis=1) - jnp.log(values.shape[1])
    chosen = jax.vmap(_drawn)(jax.random.uniform(luck, (replicates,)), logs)
    chosen = (chosen + values.shape[1] * jnp.arange(replicates)[:, None]).reshape(-1)
    points, angle = jax.tree.map(lambda leaf: leaf[chosen], swarm.points), swarm.angle
    for move in moves:
        keys = jax.random.split(move, len(chosen))
        points, chances = map_factorisations(partial(_moved, at=at, beta=beta, angle=angle), (keys, points))
        angle = jnp.clip(angle * jnp.exp(_RATE * (chances.mean() - _ACCEPTANCE)), 1e-4, 1.5)
    return Swarm(key, beta, points, evidence, angle)


def _next(beta, values: Float[Array, "replicates particles"]):
    """The next inverse temperature: the weights of all particles together are worth a given share of them."""

    def share(rise):
        logs = -rise * values.reshape(-1)
        return jnp.exp(2 * logsumexp(logs) - logsumexp(2 * logs)) / logs.size

    def halve(_, ends):
        low, high = ends
        middle = jnp.where(low > 0, jnp.sqrt(low * high), 1e-3 * high)
        enough = share(middle) >= _KEPT
        return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

    most = 1 - beta
    low, _ = jax.lax.fori_loop(0, _HALVINGS, halve, (jnp.zeros(()), most))
    rise = jnp.where(share(most) >= _KEPT, most, jnp.maximum(low, _LEAST))
    return jnp.where(rise >= most, 1.0, beta + rise)


def _drawn(uniform, logs: Float[Array, " particles"]):
    """Numbers of the particles drawn by their weights, each as often as expected up to one."""
    sums = jnp.cumsum(jnp.exp(logs - logsumexp(logs)))
    places = (jnp.arange(len(logs)) + uniform) / len(logs)
    return jnp.minimum(jnp.searchsorted(sums, places), len(logs) - 1)


def _moved(key_and_point, at, beta, angle):
    """A particle after a trajectory of random length, and the chance to accept it."""
    key, point = key_and_point
    push, length, luck = jax.random.split(key, 3)
    leaps = jax.random.randint(length, (), 1, jnp.ceil(jnp.minimum(jnp.pi / 2 / angle, _MOST_LEAPS)).astype(int) + 1)
    point, chance, _ = moved(push, luck, point, at, beta, angle, leaps)
    return point, chance
