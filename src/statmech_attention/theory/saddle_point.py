"""The saddle point: order parameters that minimise the action (11), for one network or a whole sweep.

Small problems of paths take Newton steps with the exact Hessian; large ones, and whole models on tokens, go down by
gradients, or by exact Hessian-vector products where numbers are traced; all in the good coordinates.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.descent.labels import Labels
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.minimum import ActionMinimum, minimise
from statmech_attention.theory.levels.paths import full_rank, point_of
from statmech_attention.theory.on_tokens import solved_on_tokens, sweep_on_tokens
from statmech_attention.theory.prepared import METHODS, prepared
from statmech_attention.theory.problem import Problem, need_problem, warn_of_large_labels
from statmech_attention.theory.solution import Solution, checked, solution_of


def solve(
    problem: Problem,
    *,
    energy: Labels | None = None,
    start: Solution | Sequence[ArrayLike] | None = None,
    directions: int | None = None,
    settle: float | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 200,
    method: str = "auto",
    throw: bool = True,
) -> Solution:
    r"""$U = \mathrm{argmin}\, S$, $S(U) = \mathcal L(U) + \alpha E(U)$, $\alpha = P / N$: equation (11).

    The minimum on the prior's branch: where the action has several, `minima` looks for the lowest.
    Labels and inputs are meant to be of the scale that `Problem` states.

    On `token_inputs` paths may be too many to count. There the order parameters of so many directions of
    every level are free, those that labels feel most, and the rest stays at its prior, see
    `theory.levels.ranking`. From 16 their number doubles until leave-one-out predictions settle. With as
    many as a level has nothing is left out, and the result is that along all paths. Beyond 3000 tokens of all
    examples a `projection` takes the place of pairs of tokens. Its components double from 32 up to 256 until
    predictions settle, too, and `problem` of the result has what it sees.

    Under `jax.jit`, `jax.vmap` and `jax.grad` write `throw=False` and look at `converged`: nothing
    can be raised there. Derivatives in inputs, labels, temperature, widths and variances come from
    the implicit function theorem, see `theory.descent.minimum`. They are NaN if the solve did not
    converge; there are none in a head's value dimension. On tokens write `start=solution`: its directions
    are held, and there are none in the inputs but `Solution.attention_slopes`.

    Args:
        problem: a `Problem` with width and temperature.
        energy: what labels are, in place of the problem's, as in `Problem`.
        start: a `Solution` of a neighbouring width or temperature, or order parameters, to start
            from; the Gaussian-process limit if None. The result has no derivatives in it.
        directions: on tokens, the largest number of directions of a level, 128 by default; time grows with
            its cube.
        settle: on tokens, stop when a doubling changes left-out predictions by at most this share of their
            size, rms; 0.02 by default. Predictions of new inputs change by up to a few times as much.
        tolerance: largest gradient entry, in the good coordinates, of a converged solve. The action
            is in units of the largest width: order parameters of heads of dimension $d$ have an
            error of about `tolerance` $N_{max} / d$.
        max_steps: trial steps before giving up, or five times as many gradients.
        method: "dense" for the exact Hessian, "products" for Hessian-vector products, "gradients" for
            gradients only, "auto" for the cheapest. Tokens take gradients, or products where numbers are traced.
        throw: raise if the solve does not converge or settle; if False the `Solution` carries the outcome.

    Raises:
        NotConverged: the tolerance was not reached, or more directions would change predictions; the
            exception says why and carries the solution.

    Source: Tiberi et al. (2024), equations (11), (12), (32); the coordinates, the Newton steps and the
    directions, (K5), are ours.
    """
    problem = need_problem(problem, "width", "temperature", tokens=True)
    problem = problem if energy is None else problem.replace(energy=energy)
    check_options(tolerance, max_steps, method)
    checks.flag("throw", throw)
    if not problem.along_paths:
        options: dict[str, Any] = {"tolerance": tolerance, "max_steps": max_steps}
        options |= {"directions": directions, "settle": settle}
        return checked(solved_on_tokens(problem, start, **options), throw)
    no_directions(directions=directions, settle=settle)
    warn_of_large_labels(problem)
    factors = full_rank(problem.architecture)
    point = jnp.zeros(factors.coordinates)
    if isinstance(start, Solution) and start.directions is None:
        start = start.order_parameters
    if start is not None:
        point = point_of(start, factors, "start")
    action, method = prepared(problem, method)
    minimum = minimise(action, point, tolerance, max_steps, method)
    return checked(solution_of(minimum, problem, "prior" if start is None else "given"), throw)


def solve_sweep(
    problem: Problem,
    *,
    widths: Sequence[ArrayLike | Sequence[ArrayLike]],
    temperatures: Sequence[ArrayLike] | Array | np.ndarray,
    directions: int | None = None,
    settle: float | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 200,
    method: str = "auto",
    throw: bool = True,
) -> Solution:
    """`solve` for every pair of a width and a temperature, each width warm-started from the next larger one.

    On tokens all have the directions with which the narrowest and coldest network settles.

    Args:
        problem: a `Problem`; its width and temperature do not matter.
        widths: widths in any order, each a number or $(N_1, .., N_{L+1})$.
        temperatures: temperatures in any order.
        directions, settle, tolerance, max_steps, method, throw: as in `solve`.

    Returns:
        A `Solution` with leading axes (widths, temperatures), in the order given.
    """
    problem = need_problem(problem, tokens=True)
    check_options(tolerance, max_steps, method)
    for name, numbers in (("widths", widths), ("temperatures", temperatures)):
        if not len(checks.several(name, numbers, "at least one number")) or getattr(numbers, "ndim", 1) > 2:
            raise ValueError(f"{name}: wanted a list of at least one number, got {numbers!r:.40}.")
    architectures = [Architecture.of(problem.layers, width, problem.variance) for width in widths]
    columns = jnp.array([checks.positive("temperatures", temperature) for temperature in temperatures], float)
    shared = None
    if not problem.along_paths:
        options = {"tolerance": tolerance, "max_steps": max_steps, "directions": directions, "settle": settle}
        coldest = sweep_on_tokens(problem, architectures, columns, **options)
        action, shared, method = coldest.landscape, coldest.directions, "gradients"
        problem = problem.replace(attentioned=coldest.problem.attentioned)
    else:
        no_directions(directions=directions, settle=settle)
        action, method = prepared(problem.replace(width=architectures[0].widths, temperature=temperatures[0]), method)
    minima = _from_wide_to_narrow(action, columns, architectures, (tolerance, max_steps), method)
    rows = zip(*(architecture.widths for architecture in architectures), strict=True)
    width = tuple(jnp.array(layer, float)[:, None] for layer in rows)
    batch = {"width": width, "temperature": columns, "variance": problem.variance, "count": problem.count}
    shape = (len(architectures), len(columns))
    batch = jax.tree.map(lambda number: jnp.broadcast_to(jnp.asarray(number, float), shape), batch)
    return checked(solution_of(minima, problem.unchecked(**batch), directions=shared), throw)


def _from_wide_to_narrow(
    action: Action,
    temperatures: Float[Array, " temperatures"],
    architectures: list,
    options: tuple[float, int],
    method: str,
) -> ActionMinimum:
    """The minima at all widths, each started on the line in $\\ln N$ through those at the two next larger ones."""
    widest = [architecture.widest for architecture in architectures]
    order, known = list(range(len(widest))), checks.concrete(*widest)
    if known:  # traced widths have no order: each starts from the one before
        order.sort(key=widest.__getitem__, reverse=True)
    minima: dict[int, ActionMinimum] = {}  # by place among the widths, in the order of solving
    for place in order:
        points = jnp.zeros((len(temperatures), action.levels.coordinates))
        if minima:
            near, *farther = reversed(minima)
            points = minima[near].minimum.point
            if known and farther and widest[place] < widest[near] < widest[farther[0]] < np.inf:
                share = np.log(widest[near] / widest[place]) / np.log(widest[farther[0]] / widest[near])
                points = points + share * (points - minima[farther[0]].minimum.point)
        there = Action.of(action.energy, architectures[place], action.levels)
        row = [
            minimise(there.at_temperature(temperature), point, *options, method)
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


def no_directions(**options) -> None:
    """Refuse what only tokens have."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name}: wanted for token_inputs alone; along paths nothing is left out. Leave it out.")
