"""The theory at finite width without paths: solutions for networks of any number of them, on tokens."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

import numpy as np

from statmech_attention import checks
from statmech_attention.theory.levels.features import Lowest, Point, carried, excess_action, lowest, prior_point
from statmech_attention.theory.levels.ranking import Features, Ranked, ranked_features
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.starts import NARROWER
from statmech_attention.theory.token_solution import NotSettled, TokenSolution, inputs_of, numbers_of

_FEWEST = 16  # features of every level at first
_NOTHING = 1e-9  # of what labels feel: nothing is left out


class Options(TypedDict, total=False):
    """Options of `solve_without_paths` for every solve of a sweep."""

    directions: int
    change: float
    start: TokenSolution | str
    tolerance: float
    max_steps: int
    throw: bool


def solve_without_paths(
    problem: Problem,
    *,
    directions: int = 128,
    change: float = 0.02,
    start: TokenSolution | str = "prior",
    tolerance: float = 1e-6,
    max_steps: int = 1000,
    throw: bool = True,
) -> TokenSolution:
    r"""Minimise the action (11) for any number of paths, in so many directions of every level.

    Directions are features of the backward signals, see `theory.levels.ranking`: those that labels feel
    most. Their order parameters are free, with all their correlations; the rest stays at its prior.
    Beginning with 16, their number doubles until leave-one-out predictions settle. With as many as
    a level has nothing is left out, and the result is that of `solve`.

    Args:
        problem: a `Problem` of `token_inputs`, with width and temperature.
        directions: the largest number of directions of a level; time grows with its cube.
        change: stop when a doubling changes predictions by less than this share of their size, rms.
        start: a `TokenSolution` of the same inputs and variances within the network at another
            width, temperature or for other labels; "prior"; or "narrow", the minimum of a network
            narrower by 20, followed back, as `minima` has it.
        tolerance: largest gradient entry of a converged solve, in units in which the entropy's
            Hessian is one at infinite width.
        max_steps: steps of each minimisation.
        throw: raise if predictions do not settle or a minimisation does not converge; if False the
            solution says so.

    Returns:
        `TokenSolution`; of starts that it tries its action is the lowest.

    Raises:
        NotSettled: more directions would change predictions, or the gradient is too large.

    Source: ours; with directions as in (K5).
    """
    problem = need_problem(problem, "width", "temperature", tokens=True)
    ranked = _ranked(problem, checks.whole("directions", directions), start)
    solution = start if isinstance(start, TokenSolution) else None
    for number, count in enumerate(_counts(ranked, directions, solution)):
        features = ranked.first(count, inputs_of(problem))
        points = _starts(solution, problem, features, start, (tolerance, max_steps))
        last, solution = solution, _lowest_of(points, problem, ranked, features, (tolerance, max_steps), count)
        whole = count >= ranked.most and solution.left_out <= _NOTHING * ranked.total
        apart = 0.0 if whole else _change(last, solution) if last is not None and number else np.inf
        settled = apart <= change and solution.gradient_norm <= tolerance
        solution = replace(solution, change=apart, settled=settled)
        if settled or whole:
            break
    assert solution is not None
    if throw and not solution.settled:
        raise NotSettled(_why(solution, change, tolerance), solution)
    return solution


def sweep_without_paths(problem: Problem, *, widths: Sequence, **options: Unpack[Options]) -> list[TokenSolution]:
    """`solve_without_paths` from wide to narrow, each started with the one before; in the order given."""
    problem = need_problem(problem, "temperature", tokens=True)
    order = sorted(range(len(widths)), key=lambda index: -float(np.max(np.asarray(widths[index]))))
    solutions: dict[int, TokenSolution] = {}
    for index in order:
        solutions[index] = solve_without_paths(problem.replace(width=widths[index]), **options)
        options["start"] = solutions[index]
    return [solutions[index] for index in range(len(widths))]


def _ranked(problem: Problem, most: int, start) -> Ranked:
    """New features, or those of the start, which are as good for another width."""
    inputs, variances = inputs_of(problem), problem.architecture.variances
    if isinstance(start, TokenSolution):
        known = start.problem.architecture.variances
        if inputs_of(start.problem) is not inputs or known[1:-1] != variances[1:-1]:
            raise ValueError(
                "start: wanted a solution of the same inputs and variances of the values. Start from 'prior'."
            )
        return start.ranked
    checks.choice("start", start, ("prior", "narrow"))
    return ranked_features(inputs, np.asarray(problem.labels), float(problem.temperature), variances, most)


def _lowest_of(points: list[Point], problem: Problem, ranked, features, options, count: int) -> TokenSolution:
    """The lowest minimum from these points, not yet settled; at infinite width the first of them."""
    numbers = numbers_of(problem)
    best = Lowest(points[0], 0.0, 0.0, 0)
    if np.isfinite(float(problem.architecture.unit)):
        ends = [lowest(point, numbers, features, *options) for point in points]
        best = min(ends, key=lambda end: end.action)
    regression = excess_action(best.point, numbers, features)[1]
    return TokenSolution(
        problem=problem,
        directions=count,
        action=best.action,
        gradient_norm=best.gradient_norm,
        steps=best.steps,
        change=np.inf,
        left_out=ranked.left_out(count),
        settled=False,
        regression=regression,
        ranked=ranked,
        features=features,
        point=best.point,
    )


def followed(solution: TokenSolution, problem: Problem) -> TokenSolution:
    """The minimum of the same inputs at other numbers, in the directions of `solution`, and from there."""
    ranked, features = solution.ranked, solution.features
    return _lowest_of([solution.point], problem, ranked, features, (1e-6, 1000), solution.directions)


def _change(last: TokenSolution, solution: TokenSolution) -> float:
    """By how much left-out predictions differ, relative to their size, rms."""
    before, after = last.left_out_predictions, solution.left_out_predictions
    return float(np.sqrt(np.mean((after - before) ** 2) / np.mean(after**2)))


def _counts(ranked: Ranked, most: int, solution) -> list[int]:
    """Numbers of features that are tried."""
    most = min(most, ranked.most)
    first = min(_FEWEST if solution is None else max(_FEWEST, solution.directions // 2), most)
    counts = [first]
    while counts[-1] < most:
        counts.append(min(2 * counts[-1], most))
    return counts


def _starts(solution, problem: Problem, features: Features, start, options) -> list[Point]:
    """Points to start from: the last solution, or that of a narrower network, or the prior."""
    numbers = numbers_of(problem)
    outputs = numbers.labels.shape[1]
    prior = prior_point(features, numbers)
    if solution is not None:
        passed = [level.passed for level in solution.ranked.levels]
        earlier = [solution] if solution is start or not isinstance(start, TokenSolution) else [solution, start]
        same = [solved.point for solved in earlier if solved.features.size == features.size]
        if solution is start and same:
            return same
        return [*same, carried(solution.point, solution.features, features, passed, outputs)]
    if start == "narrow":
        narrow = numbers._replace(unit=numbers.unit / NARROWER)
        return [lowest(prior, narrow, features, *options).point]
    return [prior]


def _why(solution: TokenSolution, change: float, tolerance: float) -> str:
    gradient, directions = solution.gradient_norm, solution.directions
    if gradient > tolerance:
        return f"The minimum was not reached: gradient {gradient:.1e} of {tolerance:.1e}. Allow more max_steps."
    return (
        f"Predictions have not settled with {directions} directions a level: the last doubling changed them by "
        f"{solution.change:.2g} of their size, {change:g} was asked for. Allow more directions; throw=False returns "
        "these."
    )
