"""One good path among useless ones: accuracies by the number of heads, and two minima."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention.compiling import quick_jit
from statmech_attention.theory.descent.trust_region import exact_step, minimise


@cache
def useless_heads(depth: int) -> Callable:
    """Solver for one good path among heads**depth, all others noise of their own: U is diagonal in few groups.

    Returns a function of load, heads, P / N_0, temperature, squared signal and start: accuracies of network
    and limit, U of the good path, the action, and all levels of U.
    """
    # Logarithms of U: readout, good and useless heads above, then groups of paths, each the sum of factors so far.
    above = np.array([[1, 0, 0], [1, 1, 0], [1, 0, 1]], float)
    if depth == 2:
        above = np.zeros((7, 7))
        above[:3, :3] = [[1, 0, 0], [1, 1, 0], [1, 0, 1]]
        above[3:5, :2] = above[5:, [0, 2]] = 1
        above[3:, 3:] = np.eye(4)
    leaves = 2 * depth
    levels = lambda point: jnp.exp(jnp.asarray(above) @ point)  # noqa: E731

    def counts(heads):
        ones, more = jnp.ones_like(heads), heads - 1
        return jnp.stack([ones, ones, more] + [ones, more, more, more**2] * (depth - 1))

    def inverse_trace(u, heads, gamma, heat, _):
        """1 / g of (I2), by Newton's method, and c g."""
        h, many = heads ** -float(depth), counts(heads)[-leaves:]

        def newton(_, x):
            part = u / (1 + gamma * h * u / x)
            slope = 1 - gamma * (h / x) ** 2 * jnp.sum(many * part**2)
            return x - (x - heat - h * jnp.sum(many * part)) / slope

        x = jax.lax.stop_gradient(jax.lax.fori_loop(0, 40, newton, heat + h * jnp.sum(many * u)))
        return newton(0, newton(0, x)), gamma * h

    def strength(u, *numbers):
        x, c = inverse_trace(u, *numbers)
        return x, numbers[-1] * c / x * u[0] / (1 + c / x * u[0])  # q of (I4)

    def misfit(u, *numbers):
        x, q = strength(u, *numbers)
        return 1 / x / (1 + q)

    def action(point, load, heads, gamma, heat, squared_signal):
        u, numbers = levels(point)[-leaves:], (heads, gamma, heat, squared_signal)
        x, c = inverse_trace(u, *numbers)
        volume = jnp.log(x) + heat / x - 1 + jnp.sum(counts(heads)[-leaves:] * jnp.log1p(c / x * u)) / gamma
        entropy = jnp.sum(counts(heads) * (jnp.exp(point) - point))
        return entropy + load * (volume + misfit(u, *numbers))

    def one_network(start, load, *numbers):
        def derivatives(point):
            of_point = lambda point: action(point, load, *numbers)  # noqa: E731
            return *jax.value_and_grad(of_point)(point), jax.hessian(of_point)(point)

        def right(u):
            (_, q), c = strength(u, *numbers), inverse_trace(u, *numbers)[1]
            fall = jax.jvp(lambda u: misfit(u, *numbers), (u,), (u**2,))[1]
            return jax.scipy.stats.norm.cdf(q / (1 + q) / jnp.sqrt(-c * fall))

        minimum = minimise(derivatives, exact_step, start, jnp.asarray(1e-8), jnp.asarray(300))
        u = levels(minimum.point)
        accuracies = right(u[-leaves:]), right(jnp.ones(leaves))
        return *accuracies, u[-leaves], minimum.value, u, minimum.outcome

    function = quick_jit()(jax.vmap(one_network))

    def run(load, heads, gamma, heat, squared_signal=4.0, start=None):
        numbers = (load, heads, gamma, heat, squared_signal)
        numbers = np.broadcast_arrays(*(np.asarray(number, float) for number in numbers))
        begin = np.broadcast_to(np.zeros(len(above)) if start is None else start, (numbers[0].size, len(above)))
        *results, ended = (np.asarray(array) for array in function(begin, *(array.ravel() for array in numbers)))
        assert np.all(ended == 0)
        return [array.reshape((*numbers[0].shape, *array.shape[1:])) for array in results]

    return run


def accuracies(depth: int, *, load: float, heads: np.ndarray, ratio: float, temperature: float):
    """Accuracies at the minimum reached from the prior and at the lower one of two starts, by number of heads."""
    condensed = {1: [0, 4.0, -0.5], 2: [0, 2.5, -0.5, 2.5, -0.5, -0.5, -0.5]}[depth]
    prior, other = (useless_heads(depth)(load, heads, ratio, temperature, start=point) for point in (None, condensed))
    return prior[0], np.where(other[3] < prior[3], other[0], prior[0])
