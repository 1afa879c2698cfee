"""The saddle point: order parameters that minimise the action (11), for one network or a whole sweep.

Small problems take Newton steps with the exact Hessian, large ones conjugate gradients with exact
Hessian-vector products; both within a trust region, in the good coordinates.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from statmech_attention import checks
from statmech_attention.compiling import announced, quick_jit
from statmech_attention.installed import progress_bar
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.coordinates import Factors, full_rank, stacked
from statmech_attention.theory.derivatives import ActionProblem, action_problem, width_numbers
from statmech_attention.theory.inverse import point_of
from statmech_attention.theory.minimum import ActionMinimum, minimise_action
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.solution import Solution, raise_unless_converged

_LARGEST_BATCHED = 2**17  # entries of the inputs; a batch waits for its slowest member, which costs more than it saves


@checks.flags
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

    Under `jax.jit`, `jax.vmap` and `jax.grad` write `throw=False` and look at `converged`: nothing
    can be raised there. Derivatives in inputs, labels, temperature, widths and variances come from
    the implicit function theorem, see `theory.minimum`. They are NaN if the solve did not converge;
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
        ValueError: no `Problem`, one without width or temperature, float32, a start of the wrong
            size.
        NotConverged: the tolerance was not reached; the exception says why and carries the
            solution.

    Source: Tiberi et al. (2024), equations (11), (12), (32); the coordinates and the Newton steps
    are ours.
    """
    problem, tolerance = need_problem(problem, "width", "temperature"), checks.positive("tolerance", tolerance)
    _check_options(max_steps, method)
    factors = full_rank(problem.architecture)
    point = _start(start, factors)
    action, dense = action_problem(problem, method)
    with announced("the solver", problem.attentioned.values.shape, problem.layers, dense):
        found = minimise_action(action, point, tolerance, max_steps, factors, dense)
    solution = solution_of(found, problem, action.temperature, tuple(jnp.asarray(one, float) for one in problem.width))
    if throw:
        raise_unless_converged(solution)
    return solution


@checks.flags
def solve_sweep(
    problem: Problem,
    *,
    widths: Sequence[ArrayLike | Sequence[ArrayLike]],
    temperatures: ArrayLike | Sequence[ArrayLike],
    tolerance: float = 1e-8,
    max_steps: int = 200,
    method: str = "auto",
    throw: bool = True,
    progress: bool | None = None,
) -> Solution:
    """`solve` for every pair of a width and a temperature, each width warm-started from the next larger one.

    Args:
        problem: a `Problem`; its own width and temperature do not matter.
        widths: widths in any order, each a number or $(N_1, .., N_{L+1})$.
        temperatures: temperatures in any order.
        tolerance, max_steps, method, throw: as in `solve`.
        progress: show a bar; if None, on a terminal only.

    Returns:
        A `Solution` with leading axes (widths, temperatures), in the order given.

    Raises:
        ValueError: as `solve`, or an empty list.
        NotConverged: as `solve`.
    """
    problem = need_problem(problem)
    widths = checks.listed("widths", widths, "widths")
    temperatures = checks.listed("temperatures", temperatures, "temperatures")
    tolerance = checks.positive("tolerance", tolerance)
    _check_options(max_steps, method)
    architectures = [Architecture.of(problem.layers, width, problem.variance) for width in widths]
    heat = stacked([checks.positive("temperatures", temperature) for temperature in temperatures])
    first = problem.replace(width=architectures[0].widths, temperature=temperatures[0])
    action, dense = action_problem(first, method)
    count = first.examples * first.attentioned.chain.outputs
    factors = full_rank(architectures[0])  # widths do not enter, so that another one never recompiles

    points = np.zeros((len(temperatures), factors.coordinates))
    found: list = [None] * len(widths)
    track: list[tuple] = []
    widest = [architecture.widest for architecture in architectures]
    # Traced widths have no order: each starts from the one before.
    by_width = (
        sorted(range(len(widths)), key=widest.__getitem__, reverse=True)
        if checks.concrete(*widest)
        else range(len(widths))
    )
    for index in progress_bar(by_width, "widths", progress):
        alpha, shares, finite = width_numbers(count, architectures[index])
        at_width = action._replace(temperature=heat, alpha=alpha, shares=shares, finite=finite)
        points = _extrapolated(track, architectures[index].widest, points)
        found[index] = _minimise_batch(at_width, points, tolerance, max_steps, factors, dense)
        track.append((architectures[index].widest, found[index].minimum.point))
    shape = (len(widths), len(temperatures))
    each = zip(*(architecture.widths for architecture in architectures), strict=True)
    width = tuple(_spread(stacked(one), shape[::-1]).T for one in each)
    solution = solution_of(_stacked(found), problem, _spread(heat, shape), width)
    if throw:
        raise_unless_converged(solution)
    return solution


def _minimise_batch(
    problem: ActionProblem, starts, tolerance, max_steps, factors: Factors, dense: bool
) -> ActionMinimum:
    """Minimise at all temperatures: a small problem in one compiled loop, a large one after another."""
    options = (tolerance, max_steps, factors, dense)
    if not dense or problem.inputs.size > _LARGEST_BATCHED:
        each = zip(problem.temperature, starts, strict=True)
        return _stacked([minimise_action(problem._replace(temperature=one), start, *options) for one, start in each])
    return _minimise_together(problem, starts, *options)


@quick_jit(static=("dense",))
def _minimise_together(problem, starts, tolerance, max_steps, factors: Factors, dense: bool):
    axes: Any = ActionProblem._make(0 if name == "temperature" else None for name in ActionProblem._fields)
    return jax.vmap(lambda one, start: minimise_action(one, start, tolerance, max_steps, factors, dense), (axes, 0))(
        problem, starts
    )


def _stacked(found: list) -> ActionMinimum:
    known = checks.concrete(*jax.tree.leaves(found))
    stack = (lambda *leaves: jnp.asarray(np.stack(leaves))) if known else (lambda *leaves: jnp.stack(leaves))
    return jax.tree.map(stack, *found)


def _spread(numbers, shape: tuple[int, ...]):
    """Numbers broadcast to a shape; known ones compile nothing."""
    return (np if checks.concrete(numbers) else jnp).broadcast_to(numbers, shape)


def _extrapolated(track: list, width, points):
    """Start at a width: on the line in ln N through the two next larger widths, or at the next larger one."""
    if not track:
        return points
    (*_, (near, point)) = track
    far, other = track[-2] if len(track) > 1 else (near, point)
    if not checks.concrete(near, far, width) or not near < far < np.inf:
        return point
    point, other = (np.asarray(one) if checks.concrete(one) else one for one in (point, other))
    return point + (point - other) * (np.log(near / width) / np.log(far / near))


def _check_options(max_steps, method) -> None:
    if checks.concrete(max_steps):
        checks.whole("max_steps", max_steps)
    checks.choice("method", method, ("auto", "dense", "products"))


def _start(start, factors: Factors):
    if start is None:
        return np.zeros(factors.coordinates)
    try:
        return point_of(start.order_parameters if isinstance(start, Solution) else start, factors)
    except ValueError as error:  # by the name that it has here
        raise ValueError(str(error).replace("order_parameters", "start")) from None


def solution_of(found: ActionMinimum, problem: Problem, temperature, width) -> Solution:
    """The minimum together with the problem that it solves, at this temperature and width."""
    minimum = found.minimum
    variance = tuple(_spread(jnp.asarray(number, float), temperature.shape) for number in problem.variance)
    count = None if problem.count is None else _spread(jnp.asarray(problem.count, float), temperature.shape)
    return Solution(
        found.order_parameters,
        minimum.value,
        found.energy,
        found.entropy,
        minimum.gradient_norm,
        minimum.steps,
        minimum.outcome,
        problem.attentioned,
        problem.labels,
        *jax.tree.map(jnp.asarray, (temperature, width, variance, count)),
    )
