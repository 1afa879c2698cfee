"""The saddle point: order parameters that minimise the action (11), for one network or a whole sweep.

Small problems take Newton steps with the exact Hessian, large ones conjugate gradients with exact
Hessian-vector products; both within a trust region, in the good coordinates.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.minimum import ActionMinimum, minimise
from statmech_attention.theory.levels.paths import full_rank, point_of
from statmech_attention.theory.prepared import METHODS, prepared
from statmech_attention.theory.problem import Problem, need_problem, warn_of_large_labels
from statmech_attention.theory.solution import Solution, raise_unless_converged


def solve(
    problem: Problem,
    *,
    start: Solution | Sequence[ArrayLike] | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 200,
    method: str = "auto",
    throw: bool = True,
) -> Solution:
    r"""$U = \mathrm{argmin}\, S$, $S(U) = \mathcal L(U) + \alpha E(U)$, $\alpha = P / N$: equation (11).

    The minimum on the prior's branch: where the action has several, `minima` looks for the lowest.
    Labels and inputs are meant to be of the scale that `Problem` states.

    Under `jax.jit`, `jax.vmap` and `jax.grad` write `throw=False` and look at `converged`: nothing
    can be raised there. Derivatives in inputs, labels, temperature, widths and variances come from
    the implicit function theorem, see `theory.descent.minimum`. They are NaN if the solve did not converge;
    there are none in a head's value dimension.

    Args:
        problem: a `Problem` with width and temperature.
        start: a `Solution` of a neighbouring width or temperature, or order parameters, to start
            from; the Gaussian-process limit if None. The result has no derivatives in it.
        tolerance: largest gradient entry, in the good coordinates, of a converged solve. The action
            is in units of the largest width: order parameters of heads of dimension $d$ have an
            error of about `tolerance` $N_{max} / d$.
        max_steps: trial steps before giving up.
        method: "dense" for the exact Hessian, "products" for Hessian-vector products only, "auto"
            for the cheaper.
        throw: raise if the solve does not converge; if False the `Solution` carries the outcome.

    Raises:
        NotConverged: the tolerance was not reached; the exception says why and carries the
            solution.

    Source: Tiberi et al. (2024), equations (11), (12), (32); the coordinates and the Newton steps
    are ours.
    """
    problem = need_problem(problem, "width", "temperature")
    check_options(tolerance, max_steps, method)
    warn_of_large_labels(problem)
    factors = full_rank(problem.architecture)
    point = jnp.zeros(factors.coordinates)
    if start is not None:
        point = point_of(start.order_parameters if isinstance(start, Solution) else start, factors, "start")
    action, dense = prepared(problem, method)
    minimum = minimise(action, point, tolerance, max_steps, dense)
    return _checked(solution_of(minimum, problem, "prior" if start is None else "given"), throw)


def solve_sweep(
    problem: Problem,
    *,
    widths: Sequence[ArrayLike | Sequence[ArrayLike]],
    temperatures: Sequence[ArrayLike] | Array | np.ndarray,
    tolerance: float = 1e-8,
    max_steps: int = 200,
    method: str = "auto",
    throw: bool = True,
) -> Solution:
    """`solve` for every pair of a width and a temperature, each width warm-started from the next larger one.

    Args:
        problem: a `Problem`; its width and temperature do not matter.
        widths: widths in any order, each a number or $(N_1, .., N_{L+1})$.
        temperatures: temperatures in any order.
        tolerance, max_steps, method, throw: as in `solve`.

    Returns:
        A `Solution` with leading axes (widths, temperatures), in the order given.
    """
    problem = need_problem(problem)
    check_options(tolerance, max_steps, method)
    for name, numbers in (("widths", widths), ("temperatures", temperatures)):
        if isinstance(numbers, (int, float)) or not len(numbers):
            raise ValueError(f"{name}: wanted a list of at least one number, got {numbers!r}.")
    architectures = [Architecture.of(problem.layers, width, problem.variance) for width in widths]
    columns = jnp.array([checks.positive("temperatures", temperature) for temperature in temperatures], float)
    first = problem.replace(width=architectures[0].widths, temperature=temperatures[0])
    action, dense = prepared(first, method)
    minima = _from_wide_to_narrow(action, columns, architectures, (tolerance, max_steps), dense)
    rows = zip(*(architecture.widths for architecture in architectures), strict=True)
    width = tuple(jnp.array(layer, float)[:, None] for layer in rows)
    batch = {"width": width, "temperature": columns, "variance": problem.variance, "count": problem.count}
    shape = (len(architectures), len(columns))
    batch = jax.tree.map(lambda number: jnp.broadcast_to(jnp.asarray(number, float), shape), batch)
    return _checked(solution_of(minima, problem.unchecked(**batch)), throw)


def _from_wide_to_narrow(
    action: Action,
    temperatures: Float[Array, " temperatures"],
    architectures: list,
    options: tuple[float, int],
    dense: bool,
) -> ActionMinimum:
    """The minima at all widths, each started on the line in $\\ln N$ through those at the two next larger ones."""
    widest = [architecture.widest for architecture in architectures]
    order, known = list(range(len(widest))), checks.concrete(*widest)
    if known:  # traced widths have no order: each starts from the one before
        order.sort(key=widest.__getitem__, reverse=True)
    minima: dict[int, ActionMinimum] = {}  # by place among the widths, in the order of solving
    for place in order:
        points = jnp.zeros((len(temperatures), action.factors.coordinates))
        if minima:
            near, *farther = reversed(minima)
            points = minima[near].minimum.point
            if known and farther and widest[place] < widest[near] < widest[farther[0]] < np.inf:
                share = np.log(widest[near] / widest[place]) / np.log(widest[farther[0]] / widest[near])
                points = points + share * (points - minima[farther[0]].minimum.point)
        there = Action.of(action.energy, architectures[place], action.factors)
        row = [
            minimise(there.at_temperature(temperature), point, *options, dense)
            for temperature, point in zip(temperatures, points, strict=True)
        ]
        minima[place] = _stacked(row)
    return _stacked([minima[place] for place in range(len(widest))])


def _stacked(minima: list) -> ActionMinimum:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *minima)


def check_options(tolerance, max_steps, method) -> None:
    checks.positive("tolerance", tolerance)
    if checks.concrete(max_steps):
        checks.whole("max_steps", max_steps)
    checks.choice("method", method, METHODS)


def solution_of(minimum: ActionMinimum, problem: Problem, start: str = "prior", starts: int = 1) -> Solution:
    """The minimum together with the problem that it solves."""
    least = minimum.minimum
    energy = minimum.nats / problem.examples
    reached = (least.value, energy, minimum.entropy, least.gradient_norm, least.steps, least.outcome)
    return Solution(problem, minimum.order_parameters, *reached, start, starts)


def _checked(solution: Solution, throw: bool) -> Solution:
    """The solution; raise unless it converged, if `throw`."""
    if throw:
        raise_unless_converged(solution)
    return solution
