"""Two paths of the solvable model: the minima of many networks at once, and where there are two of them."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from attention_book.theory.solvable_model import SolvableModel
from statmech_attention.theory.levels.paths import least_entropy

_TOGETHER = 32  # networks that are solved at a time, so that the solver is compiled once


def two_paths(rho: float, s: float, gamma: float, load: float, T: float, examples: float = 400.0) -> SolvableModel:
    """The model of two paths with unit noise of correlation rho, and a signal s on the first; gamma is P / N_0."""
    noise, signal = jnp.eye(2) + rho * (1 - jnp.eye(2)), jnp.stack([s, 0.0 * s])
    features, width = examples / gamma, examples / load
    return SolvableModel(noise, signal, examples=examples, features=features, temperature=T, width=width)


def both_minima(rho, s, gamma, load, T, examples: float = 400.0) -> list[np.ndarray]:
    """U, action and accuracy of `two_paths` at two minima: from the prior, and from a narrower network's."""
    numbers = np.broadcast_arrays(*(np.asarray(one, float) for one in (rho, s, gamma, load, T)))
    rho, s, gamma, load, T = (one.ravel() for one in numbers)
    noise = np.eye(2) + rho[:, None, None] * (1 - np.eye(2))
    signal = s[:, None, None] * np.eye(4, 2) * [1, 0]  # on the first path; four directions as in `threshold`
    many = np.full(len(T), examples)
    wide, narrow = (np.stack([many, examples / gamma, examples / load / by], axis=1) for by in (1, 20))
    network = noise, signal, 0 * signal
    starts = _prior(len(T)), _minima(_prior(len(T)), *network, narrow, T)[0]
    each = [_minima(start, *network, wide, T) for start in starts]
    found = [np.stack(two, axis=1) for two in zip(*((U, *rest) for (U, _), *rest in each), strict=True)]
    return [one.reshape(*numbers[0].shape, *one.shape[1:]) for one in found]


def phase(U: Float[np.ndarray, "2 2"]) -> str:
    """What a network does with the second path."""
    correlation = U[0, 1] / np.sqrt(U[0, 0] * U[1, 1])
    if abs(correlation) > 0.5:
        return "subtracts it" if correlation < 0 else "adds it"
    return "switches it off" if U[1, 1] < U[0, 0] / 4 else "weighs both"


def edge(gamma, seed: int, tries: int = 64, steps: int = 25) -> Float[np.ndarray, "ratios 4"]:
    """1 - rho, s, load and T with two minima for each P / N_0, at the smallest rho that a random search finds."""
    rng, gamma = np.random.default_rng(seed), np.array(gamma)[:, None]
    best = np.tile(np.log([0.001, 0.15, 15.0, 0.1]), (len(gamma), 1))  # the signal in units of gamma^(-1/2)
    reach = np.full((len(gamma), 1, 1), 0.4)
    for _ in range(steps):
        step = reach * rng.normal(size=(len(gamma), tries, 4))
        step[..., 0] = np.abs(step[..., 0])  # towards less correlation
        step[:, 0] = 0.0
        away, strength, load, T = np.exp(np.moveaxis(best[:, None] + step, -1, 0))
        u = both_minima(1 - away, strength / gamma**0.5, gamma, load, T)[0][..., 0, 0]
        two = np.abs(np.log(u[..., 1] / u[..., 0])) > 0.02
        chosen = np.where(two, away, 0.0).argmax(axis=1)
        best = best + step[np.arange(len(gamma)), chosen]
        reach = reach * np.where(chosen > 0, 1, 0.75)[:, None, None]
    return np.exp(best) * gamma ** np.array([0, -0.5, 0, 0])


def threshold(model: SolvableModel, width: float = 10.0) -> float:
    """The correlation of the noise above which the second path is better than its constant, each at its best T."""
    grid, T = np.linspace(0, 0.95, 20), np.geomspace(0.01, 30, 16)
    first, second = np.asarray(model.noise).diagonal()
    across = np.array([[0, 1], [1, 0]]) * np.sqrt(first * second)
    noise = [np.diag([first, second]) + rho * across for rho in grid] + [np.diag([first, 0])]
    strength = np.asarray(model.signal)
    signal = [strength] * len(grid) + [strength * [1.0, 0.0]]  # the last network has a constant
    sizes = [[float(model.examples), float(model.features), width]] * len(noise)
    network = [np.repeat(one, len(T), axis=0) for one in (noise, signal, [model.offset] * len(noise), sizes)]
    accuracy = _minima(_prior(len(noise) * len(T)), *network, np.tile(T, len(noise)))[2]
    best = accuracy.reshape(len(noise), -1).max(axis=1)
    gain = best[:-1] - best[-1]
    up = int(np.nonzero(gain < 0)[0][-1])
    return float(np.interp(0, gain[up : up + 2], grid[up : up + 2]))


def _prior(count: int):
    """The order parameters of infinite width."""
    return np.broadcast_to(np.eye(2), (count, 2, 2)), np.ones(count)


@jax.jit
@jax.vmap
def _minimum(start, noise, signal, offset, sizes, T):
    """Order parameters, action and accuracy at the minimum that is reached from `start`."""
    numbers = dict(zip(("examples", "features", "width"), sizes, strict=True), temperature=T)
    model = SolvableModel(noise, signal, offset=offset, **numbers)
    found = model.solve(start=start, throw=False)
    return (
        found.order_parameters,
        found.minimum.value + least_entropy(model.architecture),
        model.predict(found.order_parameters[0]).accuracy,
    )


def _minima(start, *numbers):
    """`_minimum` of any number of networks."""
    count, given = len(numbers[-1]), (start, *numbers)
    rows = np.minimum(np.arange(count + -count % _TOGETHER), count - 1)  # the last fills up
    parts = [jax.tree.map(lambda one: np.asarray(one)[some], given) for some in rows.reshape(-1, _TOGETHER)]  # noqa: B023
    found = [_minimum(*part) for part in parts]
    return jax.tree.map(lambda *each: np.concatenate(each)[:count], *found)
