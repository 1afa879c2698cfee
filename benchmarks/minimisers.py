"""The minimisers that are compared: ours and its rivals, all on the same action.

The coordinates are the same unless said otherwise. Each minimiser is made once for a problem and
then called with a width. All stop once the largest entry of the gradient is at most `SMALL`; none
is given the minimum. The rivals get the kernels of the pairs of paths where ours keeps them.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import optimistix
import scipy.optimize

import statmech_attention as sma
from benchmarks import problems
from benchmarks.timing import twice
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.levels.paths import full_rank
from statmech_attention.theory.prepared import prepared

SMALL = 1e-8
OURS = ("auto", "dense", "products", "gradients")
RATES = (0.3, 0.1, 0.03, 0.01)


def measure(minimiser: str, problem: str, widths: list, temperature: float, most: int, **sizes) -> list[dict]:
    """Return the rows of a minimiser, one per width."""
    minimise = make(minimiser, *problems.make(problem, **sizes), temperature)
    rows = []
    for width in widths:
        times, run = twice(lambda width=width: minimise(float(width), most))
        about = {"minimiser": minimiser, "problem": problem, "width": width, "paths": int(np.prod(sizes["heads"]))}
        rows.append({**about, **times, **run._asdict()})
    return rows


class Run(NamedTuple):
    """Evaluations (or trial steps) of a minimiser; $S - S_0$ and largest gradient entry at its end."""

    evaluations: int
    action: float
    gradient: float


def make(name: str, attentioned, labels, temperature: float):
    """Return a function of (width, most evaluations) that returns a `Run`.

    The name is one of `OURS` or a key of `RIVALS`, perhaps with ", plain coordinates" after it.
    """
    if name in OURS:
        return partial(_ours, name, attentioned, labels, temperature)
    name, _, plain = name.partition(", ")
    factors = full_rank(Architecture.of(attentioned.layers, 1.0))
    problem = sma.Problem(attentioned, labels, width=1.0, temperature=temperature)

    def action(point, landscape):
        return landscape.value(_good_coordinates(point, factors.chain) if plain else point)

    rival = RIVALS[name](action, factors.coordinates)

    def minimise(width, most):
        count, value, gradient = rival(prepared(problem.replace(width=width), "auto")[0], most)
        return Run(int(count), float(value), float(gradient))

    return minimise


def _ours(method: str, attentioned, labels, temperature, width, most) -> Run:
    problem = sma.Problem(attentioned, labels, width=width, temperature=temperature)
    found = sma.solve(problem, method=method, tolerance=SMALL, max_steps=most, throw=False)
    return Run(int(found.steps), float(found.excess), float(found.gradient_norm))


def _good_coordinates(point, chain):
    """Turn Cholesky factors, diagonals in logarithms, into the coordinates of the package."""
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


def _descent(action, size: int, optimiser, advance):
    """Loop over steps of optax until the gradient is small."""

    def minimise(problem, most):
        def body(state):
            point, memory, count, _, _ = state
            return advance(optimiser, lambda x: action(x, problem), point, memory, count)

        nowhere = jnp.asarray(jnp.inf)
        first = (jnp.zeros(size), optimiser.init(jnp.zeros(size)), jnp.asarray(0), nowhere, nowhere)
        return jax.lax.while_loop(lambda s: ~(s[4] <= SMALL) & (s[2] < most), body, first)[2:]

    return minimise


def _adam(action, size: int):
    """Adam; as in the paper, with the rate whose first ten steps end lowest, here in action."""

    def advance(optimiser, function, point, memory, count):
        value, gradient = jax.value_and_grad(function)(point)
        step, memory = optimiser.update(gradient, memory, point)
        return optax.apply_updates(point, step), memory, count + 1, value, jnp.max(jnp.abs(gradient))

    @jax.jit
    def minimise(problem, most, rate):
        return _descent(action, size, optax.adam(rate), advance)(problem, most)

    def with_best_rate(problem, most):
        trials = [float(minimise(problem, 10, rate)[1]) for rate in RATES]
        count, value, gradient = minimise(problem, most, RATES[int(np.nanargmin(trials))])
        return count + 10 * len(RATES), value, gradient

    return with_best_rate


def _lbfgs(action, size: int):
    """Optax's L-BFGS with its default line search."""

    def advance(optimiser, function, point, memory, count):
        value, gradient = optax.value_and_grad_from_state(function)(point, state=memory)
        step, memory = optimiser.update(gradient, memory, point, value=value, grad=gradient, value_fn=function)
        count = count + optax.tree.get(memory, "info").num_linesearch_steps
        value, gradient = optax.tree.get(memory, "value"), optax.tree.get(memory, "grad")
        return optax.apply_updates(point, step), memory, count, value, jnp.max(jnp.abs(gradient))

    return jax.jit(_descent(action, size, optax.lbfgs(), advance))


def _optimistix(solver, action, size: int):
    """One of Optimistix, down to steps so small that the gradient is small too."""

    @partial(jax.jit, static_argnames="most")
    def minimise(problem, most):
        small = solver(rtol=0.0, atol=1e-12, norm=optimistix.max_norm)
        arrays, form = jax.tree.flatten(problem)  # it looks at each array of its arguments apart
        of_arrays = lambda point, arrays: action(point, jax.tree.unflatten(form, arrays))  # noqa: E731
        found = optimistix.minimise(of_arrays, small, jnp.zeros(size), arrays, max_steps=most, throw=False)
        value, gradient = jax.value_and_grad(action)(found.value, problem)
        return found.stats["num_steps"], value, jnp.max(jnp.abs(gradient))

    return minimise


def _scipy(method: str, action, size: int):
    """One of SciPy's on compiled derivatives, of the second order for Newton's."""
    evaluate = jax.jit(jax.value_and_grad(action))
    product = jax.jit(lambda x, v, problem: jax.jvp(jax.grad(lambda y: action(y, problem)), (x,), (v,))[1])

    def minimise(problem, most):
        best = Run(0, np.inf, np.inf)

        def function(point):
            nonlocal best
            value, gradient = evaluate(jnp.asarray(point), problem)
            largest = float(jnp.max(jnp.abs(gradient)))
            seen = best if best.gradient <= largest else Run(0, float(value), largest)
            best = seen._replace(evaluations=best.evaluations + 1)
            return float(value), np.asarray(gradient)

        def stop(*_):
            if best.gradient <= SMALL or best.evaluations >= most:
                raise StopIteration

        exact = {"hessp": lambda x, v: np.asarray(product(jnp.asarray(x), jnp.asarray(v), problem))}
        never = {"L-BFGS-B": {"ftol": 0, "gtol": 0, "maxcor": 30}, "BFGS": {"gtol": 0}, "Newton-CG": {"xtol": 0}}
        extra = exact if method == "Newton-CG" else {}
        options = {**never[method], "maxiter": int(most)}
        scipy.optimize.minimize(
            function, np.zeros(size), jac=True, method=method, callback=stop, options=options, **extra
        )
        return best

    return minimise


RIVALS = {
    "L-BFGS (optax)": _lbfgs,
    "L-BFGS (SciPy)": partial(_scipy, "L-BFGS-B"),
    "BFGS (SciPy)": partial(_scipy, "BFGS"),
    "Newton-CG (SciPy)": partial(_scipy, "Newton-CG"),
    "BFGS (Optimistix)": partial(_optimistix, optimistix.BFGS),
    "Adam": _adam,
}
