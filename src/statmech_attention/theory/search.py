"""The minima of the action (11) that a search from several starts finds, the lowest first."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from statmech_attention.layers.chains import Chain, order_parameters_on
from statmech_attention.theory.descent.minimum import ActionMinimum, minimise
from statmech_attention.theory.descent.trust_region import Outcome
from statmech_attention.theory.levels.paths import PathLevels, full_rank, order_parameters, point_of
from statmech_attention.theory.on_tokens import minima_on_tokens
from statmech_attention.theory.prepared import prepared
from statmech_attention.theory.problem import Problem, need_problem, warn_of_large_labels
from statmech_attention.theory.saddle_point import check_options, no_directions
from statmech_attention.theory.solution import Solution, raise_unless_converged, solution_of
from statmech_attention.theory.starts import Start, axes_of_outputs, order_of_heads, starts

_ROUGH = 1e-5  # tolerance of the search; the minima that differ are then solved with the tolerance asked for
_NARROW = 1e-3  # that of the narrower network, which is a start only
_SAME = 1e-3  # difference of order parameters that are one, relative to their diagonals


class _End(NamedTuple):
    """A minimum, the first start that reached it, and how many did."""

    reached: ActionMinimum
    start: str
    starts: int


def minima(
    problem: Problem,
    *,
    directions: int | None = None,
    settle: float | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 200,
    method: str = "auto",
) -> list[Solution]:
    r"""Find minima of the action (11), the lowest first.

    `solve` follows the branch of the prior, on which little is learned until it ends; another
    minimum can be lower. The search starts from the prior, from the minimum of a much narrower
    network, from points raised along directions that carry the labels, and from four random points
    that are always the same: ten to sixteen minimisations, and no more to compile than `solve`.
    Heads and outputs are put into an order of their own first, so that the list does not depend on
    how they are numbered.

    No search of this kind is sure to find the lowest minimum, and higher ones may be missing. On 320
    random problems of ten kinds, 151 with several minima, it missed the lowest that is known in none.
    The prior and a narrower network alone missed it in 17, `solve` in 105, and 64 random starts of
    separate code in 59. It took 5 to 14 times as long as `solve`, and 36 to 50 times along eight and
    nine paths. Nor did it miss one in 41 more problems: with four and six outputs, along 16 and 64
    paths, and by products with the Hessian. `python -m benchmarks.searches` makes the table again.

    On tokens the two starts are the prior and a much narrower network, and `settled` says whether more directions
    would change predictions. In 12 problems, six with two minima,
    the lower of their ends was the lowest that is known.

    Args:
        problem: a `Problem` with width and temperature.
        directions, settle, tolerance, max_steps, method: as in `solve`.

    Returns:
        A `Solution` for every minimum; `starts` says how many starts reached it, `start` the first
        of them. `log_evidence` of each counts its basin alone.

    Raises:
        NotConverged: no start led to a minimum.

    Source: ours; the page on the solvable model derives where two minima exist.
    """
    problem = need_problem(problem, "width", "temperature", tokens=True)
    check_options(tolerance, max_steps, method)
    if not problem.along_paths:
        options = {"tolerance": tolerance, "max_steps": max_steps, "directions": directions, "settle": settle}
        found = minima_on_tokens(problem, **options)
        raise_unless_converged(found[0])
        return found
    no_directions(directions=directions, settle=settle)
    warn_of_large_labels(problem)
    return search(problem, starts, tolerance, max_steps, method)


def search(
    problem: Problem,
    starts: Callable[[Problem, PathLevels], Sequence[Start]],
    tolerance: float = 1e-8,
    max_steps: int = 200,
    method: str = "auto",
) -> list[Solution]:
    """The minima that differ among those where these starts lead, in any numbering of the heads, the lowest first."""
    factors = full_rank(problem.architecture)
    overlap = np.asarray(order_parameters(jnp.zeros(factors.coordinates), factors)[0])
    order, axes = order_of_heads(problem, overlap), axes_of_outputs(problem, overlap)
    labels = (problem.labels.reshape(-1, len(axes)) @ axes).reshape(problem.labels.shape)
    ordered = problem.unchecked(attentioned=problem.attentioned.keep_heads(order), labels=labels)
    rough, polish = (_minimiser(version, method, max_steps) for version in (ordered, problem))
    ends = [_end(start, rough, max(tolerance, _ROUGH)) for start in starts(ordered, factors)]
    polished = []
    for end in _distinct(ends):
        there = _renumbered(end.reached.order_parameters, ordered.attentioned.chain, order, axes)
        polished.append(end._replace(reached=polish(point_of(there, factors), tolerance)))
    solutions = [solution_of(end.reached, problem, end.start, end.starts) for end in _distinct(polished)]
    if not solutions:
        raise_unless_converged(solution_of((polished or ends)[0].reached, problem))
    return sorted(solutions, key=lambda solution: float(solution.excess))


def _minimiser(problem: Problem, method: str, max_steps: int) -> Callable[..., ActionMinimum]:
    """A function of a start, a tolerance and a weight of the labels, which minimises this problem's action."""
    action, how = prepared(problem, method)

    def minimiser(point, tolerance: float, weight: float = 1.0) -> ActionMinimum:
        weighted = replace(action, weight=jnp.asarray(weight * np.asarray(action.weight)))
        return minimise(weighted, point, tolerance, max_steps, how)

    return minimiser


def _end(start: Start, minimise: Callable[..., ActionMinimum], tolerance: float) -> _End:
    """Where a start leads."""
    point = jnp.asarray(start.point)
    if start.weight != 1:
        point = minimise(point, max(tolerance, _NARROW), start.weight).minimum.point
    return _End(minimise(point, tolerance), start.name, 1)


def _distinct(ends: Sequence[_End]) -> list[_End]:
    """The ends that converged and differ, each with the number of all starts that led there."""
    different = list[_End]()
    for end in ends:
        if end.reached.minimum.outcome != Outcome.CONVERGED:
            continue
        for place, other in enumerate(different):
            if same(end.reached, other.reached):
                different[place] = other._replace(starts=other.starts + end.starts)
                break
        else:
            different.append(end)
    return different


def same(minimum: Any, other: Any) -> bool:
    """Whether two minima, or solutions, are one: by their order parameters, or on tokens by their actions."""
    if isinstance(minimum, Solution) and minimum.directions is not None:
        return bool(abs(float(minimum.excess - other.excess)) < _SAME * (1 + abs(float(other.excess))))
    first, second = (np.asarray(end.order_parameters[0]) for end in (minimum, other))
    size = np.sqrt(np.diag(first))
    return bool(np.max(np.abs(first - second) / np.outer(size, size)) < _SAME)


def _renumbered(overlaps, chain: Chain, order, axes) -> tuple:
    """Order parameters of a network with its heads in this order and outputs along axes, as those of the network."""
    _, parts = chain.keep([np.argsort(heads).tolist() for heads in order])
    turned = [_turned(np.asarray(overlap), axes) for overlap in overlaps]
    return order_parameters_on(turned, chain, parts)


def _turned(overlap, axes):
    """An order parameter, in which outputs are numbered fastest, from axes of the outputs back to the outputs."""
    if len(axes) == 1:
        return overlap
    split = overlap.reshape(*overlap.shape[:-2], overlap.shape[-2] // len(axes), len(axes), -1, len(axes))
    return np.einsum("cs,...asbt,dt->...acbd", axes, split, axes, optimize=True).reshape(overlap.shape)
