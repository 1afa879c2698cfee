"""The log evidence by annealed importance sampling of a network's weights: separate code, without order parameters.

Networks drawn from the prior are reweighted and moved by Hamiltonian dynamics while the likelihood is switched on.
What the weights multiply at the input is integrated out.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

LEAPS, MOVES = 8, 3  # steps of a trajectory, and trajectories at each temperature


def log_evidence(problem, heads, *, key, networks=1000, kept=0.95):
    """ln p(Y) of layers of so many heads, by so many networks; `kept` is the share that is effective after a step."""
    width, count = int(problem.width[0]), sum(heads) * int(problem.width[0]) ** 2 + int(problem.width[0])
    inputs = jnp.asarray(problem.attentioned.values) / np.sqrt(problem.attentioned.values.shape[2] * np.prod(heads))
    given = partial(log_likelihood, heads=heads, width=width, inputs=inputs, labels=problem.labels)
    given = partial(given, temperature=problem.temperature)
    state = jax.random.normal(key, (networks, count))
    likelihoods, power, size, total, number = jax.jit(jax.vmap(given)), 0.0, 0.2, 0.0, 0
    move = jax.jit(partial(moved, given))
    while power < 1:
        logs = np.asarray(likelihoods(state))
        step = next_step(logs, 1 - power, kept)
        power = min(power + step, 1.0)
        total += logs.max() * step + np.log(np.mean(np.exp(step * (logs - logs.max()))))
        shares = np.exp(step * (logs - logs.max()))
        places = (np.random.default_rng(number).uniform() + np.arange(networks)) / networks
        state = state[np.searchsorted(np.cumsum(shares / shares.sum()), places).clip(0, networks - 1)]
        for _ in range(MOVES):
            number += 1
            state, accepted = move(jax.random.fold_in(key, number), state, power, size)
            size = min(size * float(jnp.exp(0.3 * (accepted - 0.8))), 1.0)
    return total


def log_likelihood(weights, *, heads, width, inputs, labels, temperature):
    """ln p(Y | weights above the first layer); paths have their first head slowest."""
    readout, rest = weights[:width], weights[width:]
    vectors = readout[None]
    for count in heads[::-1]:
        values, rest = rest[: count * width**2].reshape(count, width, width), rest[count * width**2 :]
        vectors = jnp.einsum("pn,hnm->hpm", vectors, values).reshape(-1, width) / np.sqrt(width)
    seen = jnp.einsum("epi,pn->ein", inputs, vectors).reshape(len(labels), -1) / np.sqrt(width)
    factor = jnp.linalg.cholesky(seen @ seen.T + temperature * jnp.eye(len(labels)))
    solved = jax.scipy.linalg.solve_triangular(factor, labels, lower=True)
    return -0.5 * solved @ solved - jnp.log(jnp.diag(factor)).sum() - 0.5 * len(labels) * np.log(2 * np.pi)


def next_step(logs, most, kept):
    """The largest change of the power of the likelihood that keeps this share of the networks effective."""

    def share(step):
        weights = np.exp(step * (logs - logs.max()))
        return weights.sum() ** 2 / (weights**2).sum() / len(logs)

    low, high = 0.0, most
    for _ in range(60 if share(most) < kept else 0):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) > kept else (low, middle)
    return high


def moved(given, key, state, power, size):
    """One trajectory of every network at a power of the likelihood, accepted or not, and the mean acceptance."""

    def potential(state):
        return 0.5 * state @ state - power * given(state)

    def one(key, state, size):
        first, second = jax.random.split(key)
        momentum = jax.random.normal(first, state.shape)
        before = potential(state) + 0.5 * momentum @ momentum

        def leap(_, at):
            place, momentum = at
            place = place + 0.5 * size * momentum
            momentum = momentum - size * jax.grad(potential)(place)
            return place + 0.5 * size * momentum, momentum

        place, momentum = jax.lax.fori_loop(0, LEAPS, leap, (state, momentum))
        chance = jnp.exp(jnp.minimum(before - potential(place) - 0.5 * momentum @ momentum, 0.0))
        return jnp.where(jax.random.uniform(second) < chance, place, state), chance

    first, second = jax.random.split(key)
    sizes = size * jnp.exp(0.3 * jax.random.normal(first, (len(state),)))
    state, chances = jax.vmap(one)(jax.random.split(second, len(state)), state, sizes)
    return state, jnp.mean(jnp.nan_to_num(chances))
