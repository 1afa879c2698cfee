"""The minimisers that are compared: ours, Adam, L-BFGS, and SciPy's BFGS, all on the same action.

Each is made once for a problem and then called with a width. The others stop once the action is within `MARGIN` of the
minimum, which they are told; ours goes on until the largest gradient entry is 1e-8. Without a goal (NaN) they use all the
evaluations they have.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import scipy.optimize

import statmech_attention as sma
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.coordinates import full_rank
from statmech_attention.theory.derivatives import action_of, problem_of
from statmech_attention.theory.kernels import reduced

MARGIN = 1e-6
RATES = (0.3, 0.1, 0.03, 0.01)


class Run(NamedTuple):
    """What a minimiser did: evaluations of the action (or trial steps), the action and largest gradient entry it reached."""

    evaluations: int
    action: float
    gradient: float


def make(name: str, attentioned, labels, temperature: float):
    """A function of (width, action to reach, most evaluations) that returns a `Run`.

    Args:
        name: "dense", "products" or "auto" for ours; "L-BFGS", "BFGS", "Adam" or "Adam, plain coordinates".
        attentioned: `AttentionedInputs`.
        labels: `(examples,)`.
        temperature: $T$.
    """
    if name in ("dense", "products", "auto"):
        return _ours(name, attentioned, labels, temperature)
    problem_at, action, size = _action(attentioned, labels, temperature, plain=name.endswith("plain coordinates"))
    if name == "BFGS":
        return _scipy(problem_at, action, size)
    minimise = _lbfgs(action, size) if name == "L-BFGS" else _adam(action, size)
    return lambda width, goal, most: minimise(problem_at(width), goal + MARGIN, most)


def _ours(method: str, attentioned, labels, temperature):
    def minimise(width, goal, most):
        found = sma.solve(
            attentioned, labels, width=width, temperature=temperature, method=method, max_steps=most, throw=False
        )
        return Run(int(found.steps), float(found.action), float(found.gradient_norm))

    return minimise


def _action(attentioned, labels, temperature, plain: bool):
    """The problem at a width, the action of (coordinates, problem), and the number of coordinates."""
    factors, data = full_rank(Architecture.of(attentioned.heads, 1.0)), reduced(attentioned, labels)

    def problem_at(width):
        return problem_of(data, attentioned, temperature, Architecture.of(attentioned.heads, width))

    def action(point, problem):
        point = _good_coordinates(point, factors.chain) if plain else point
        return action_of(point, problem, factors)

    return problem_at, action, factors.coordinates


def _good_coordinates(point, chain):
    """From Cholesky factors of every U^(l) by itself (diagonals in logarithms) to the coordinates of the package."""
    factors, start = [], 0
    for size in chain.partial_paths:
        below = np.tril_indices(size, -1)
        factor = jnp.diag(jnp.exp(point[start : start + size]))
        start += size
        factors.append(factor.at[below].set(point[start : start + len(below[0])]))
        start += len(below[0])
    parts = []
    for layer, factor in enumerate(factors):
        if layer < len(chain.layers):
            above = jnp.kron(jnp.eye(chain.heads[layer]), factors[layer + 1])
            factor = jax.scipy.linalg.solve_triangular(above, factor, lower=True)
        parts += [jnp.log(jnp.diagonal(factor)), factor[np.tril_indices(factor.shape[0], -1)]]
    return jnp.concatenate(parts)


def _adam(action, size: int):
    """Adam; as in the paper the learning rate is that with the lowest energy, here action, over ten first steps."""

    @jax.jit
    def minimise(problem, goal, most, rate):
        optimiser = optax.adam(rate)

        def body(state):
            point, memory, count, _, _ = state
            value, gradient = jax.value_and_grad(action)(point, problem)
            step, memory = optimiser.update(gradient, memory, point)
            return optax.apply_updates(point, step), memory, count + 1, value, jnp.max(jnp.abs(gradient))

        first = (
            jnp.zeros(size),
            optimiser.init(jnp.zeros(size)),
            jnp.asarray(0),
            jnp.asarray(jnp.inf),
            jnp.asarray(jnp.inf),
        )
        return jax.lax.while_loop(lambda s: ~(s[3] <= goal) & (s[2] < most), body, first)[2:]

    def with_best_rate(problem, goal, most):
        trials = [float(minimise(problem, -np.inf, 10, rate)[1]) for rate in RATES]
        best = RATES[int(np.nanargmin(trials))]
        count, value, gradient = minimise(problem, goal, most, best)
        return Run(int(count) + 10 * len(RATES), float(value), float(gradient))

    return with_best_rate


def _lbfgs(action, size: int):
    """Optax's L-BFGS with its default line search."""
    optimiser = optax.lbfgs()

    @jax.jit
    def minimise(problem, goal, most):
        def function(point):
            return action(point, problem)

        evaluate = optax.value_and_grad_from_state(function)

        def body(state):
            point, memory, count, _, _ = state
            value, gradient = evaluate(point, state=memory)
            step, memory = optimiser.update(gradient, memory, point, value=value, grad=gradient, value_fn=function)
            count = count + optax.tree.get(memory, "info").num_linesearch_steps
            gradient = optax.tree.get(memory, "grad")
            return (
                optax.apply_updates(point, step),
                memory,
                count,
                optax.tree.get(memory, "value"),
                jnp.max(jnp.abs(gradient)),
            )

        first = (
            jnp.zeros(size),
            optimiser.init(jnp.zeros(size)),
            jnp.asarray(1),
            jnp.asarray(jnp.inf),
            jnp.asarray(jnp.inf),
        )
        return jax.lax.while_loop(lambda s: ~(s[3] <= goal) & (s[2] < most), body, first)[2:]

    def run(problem, goal, most):
        count, value, gradient = minimise(problem, goal, most)
        return Run(int(count), float(value), float(gradient))

    return run


def _scipy(problem_at, action, size: int):
    """SciPy's BFGS on the compiled value and gradient."""
    evaluate = jax.jit(jax.value_and_grad(action))

    def minimise(width, goal, most):
        problem, best = problem_at(width), [0, np.inf, np.inf]

        def function(point):
            value, gradient = evaluate(jnp.asarray(point), problem)
            best[0] += 1
            if value < best[1]:
                best[1:] = float(value), float(jnp.max(jnp.abs(gradient)))
            return float(value), np.asarray(gradient)

        def stop(_):
            if best[1] <= goal + MARGIN or best[0] >= most:
                raise StopIteration

        scipy.optimize.minimize(
            function, np.zeros(size), jac=True, method="BFGS", callback=stop, options={"gtol": 1e-8}
        )
        return Run(*best)

    return minimise
