"""Annealed particles on a normal, whose evidence and variance are known."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention.sampling import _annealing
from statmech_attention.sampling._hamiltonian import evaluated

REPLICATES, PARTICLES, STIFFNESS = 20, 1000, 15.0


def test_evidence_and_variance_of_a_normal_are_exact():
    """The potential $15 z^2 / 2$ beside the prior's $z^2 / 2$: the evidence is 1/4, the variance 1/16."""
    at = partial(evaluated, lambda position, _: 0.5 * STIFFNESS * position @ position, None)
    key, first = jax.random.split(jax.random.key(0))
    points = jax.vmap(at)(jax.random.normal(first, (REPLICATES * PARTICLES, 1)))
    begin = _annealing.Swarm(key, jnp.zeros(()), points, jnp.zeros(REPLICATES), jnp.asarray(0.5))
    step = jax.jit(partial(_annealing._step, at=at))
    swarm, steps = begin, 0
    while swarm.beta < 1:
        swarm, steps = step(swarm), steps + 1
    squares = np.mean(np.asarray(swarm.points.position).reshape(REPLICATES, PARTICLES) ** 2, axis=1)
    for found, wanted in ((squares, 1 / (1 + STIFFNESS)), (np.exp(swarm.evidence), (1 + STIFFNESS) ** -0.5)):
        error = np.std(found, ddof=1) / np.sqrt(REPLICATES)
        assert abs(np.mean(found) - wanted) < 4 * error < 0.05 * wanted
    assert steps > 2
