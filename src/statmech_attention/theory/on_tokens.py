"""The minimum on tokens, in more and more directions of every level until predictions settle."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.theory.descent.minimum import minimise
from statmech_attention.theory.doublings import Descents, action_in, change_between
from statmech_attention.theory.kernels.in_blocks import kernel_in_blocks
from statmech_attention.theory.kernels.projected import ProjectedInputs, kernel_of_components, projection
from statmech_attention.theory.levels.components import ranked_components
from statmech_attention.theory.levels.ranking import Ranked, no_features, ranked_features
from statmech_attention.theory.problem import Problem, warn_of_labels
from statmech_attention.theory.solution import Directions, Solution, solution_of

PAIRED = 3000  # rows up to which all pairs are kept: seven matrices of a level each have 72 MB then
_COMPONENTS = (32, 64, 128, 256)  # of the projections that are tried beyond
_FEWEST = 16  # features of every level at first
_MOST, _SETTLE = 128, 0.02  # what `solve` takes if nothing is asked for
_NOTHING = 1e-9  # of the trace: nothing is left out
_UNITS = 128  # of a gated block


def solved_on_tokens(
    problem: Problem, start=None, *, directions, settle, tolerance=1e-8, max_steps=200, narrow: bool = False
) -> Solution:
    """The minimum on the branch of the prior, of `start`, or of a much narrower network."""
    most = checks.whole("directions", _MOST if directions is None else directions)
    settle = _SETTLE if settle is None else checks.not_negative("settle", settle)
    few = problem.projected or len(problem.attentioned.weights) <= PAIRED
    if not few and _most_units(problem) <= _UNITS:
        same = {"tolerance": tolerance, "max_steps": max_steps, "narrow": narrow}
        return _through_projection(problem, start, directions=most, settle=settle, **same)
    known, options = _start(problem, start), (tolerance, max_steps)
    if not checks.concrete(problem.temperature, problem.labels, *problem.width, *problem.variance):
        if known is None:
            raise ValueError(
                "start: wanted a solution, whose directions are held where numbers are traced. Solve it first."
            )
        return followed(known, problem, *options)
    if not np.isfinite(float(problem.architecture.unit)):  # no layer and no head moves
        ranked = _without_features(problem)
        directions = Directions(ranked, ranked.first(1, problem.attentioned), 0, 0.0, True)
        return _lowest(problem, directions, None, options)
    _check_size(problem)
    known = known if known is not None and known.directions.count else None
    ranked = _ranked(problem, most, known)
    warn_of_labels(problem, problem.variance[0] * problem.variance[-1] * float(np.trace(ranked.kernel)))
    descents, counts = Descents(problem, ranked), _counts(ranked, most, known)
    if descents.products is not None and counts[-1] == ranked.most:
        counts = counts[-1:]  # which cost no more
    return descents.settled(counts, known, settle, options, narrow)


def _through_projection(problem: Problem, start, **known) -> Solution:
    """The minimum of what a projection sees, with as many components as predictions of infinite width need."""
    given = start.problem.attentioned if isinstance(start, Solution) else None
    if isinstance(given, ProjectedInputs) and len(given) == len(problem.attentioned):
        return solved_on_tokens(problem.replace(attentioned=given), start, **known)
    limit, last = problem.replace(width=np.inf).width, None
    for components in _COMPONENTS:
        network = projection(problem.attentioned, components, variance=problem.variance)
        seen = problem.replace(attentioned=network(problem.attentioned))
        there = solved_on_tokens(seen.replace(width=limit), **known)
        change = np.inf if last is None else change_between(last, there)
        last, whole = there, seen.attentioned.left_out < _NOTHING
        if whole or change <= known["settle"]:
            break
    solution = solved_on_tokens(seen, **known)
    change = max(0.0 if whole else change, solution.directions.change)
    settled = solution.directions.settled and change <= known["settle"]
    return replace(solution, directions=replace(solution.directions, change=change, settled=settled))


def _check_size(problem: Problem) -> None:
    """Refuse what does not fit into memory, and so many units of a block that the maps between features do not."""
    if problem.projected:
        checks.memory("problem", len(problem.labels), len(problem.labels), 8, "Write problem.reduce() first.")
    else:
        rows, remedy = len(problem.attentioned.weights), "A row is a token of a text: take fewer or shorter texts."
        checks.memory("problem", rows, rows, 2 * len(problem.layers) + 5, remedy)
    if (most := _most_units(problem)) > _UNITS:
        raise ValueError(
            f"layers: wanted Gated layers of at most {_UNITS} units at a finite width, got {most}, each a map between "
            "all directions. At infinite width any number fits: width=float('inf') and Gated(.., values=None)."
        )


def _most_units(problem: Problem) -> int:
    """The largest number of units of a gated block."""
    return max(layer.gates for layer in problem.attentioned.chain.layers)


def minima_on_tokens(problem: Problem, **options) -> list[Solution]:
    """The minima on the branches of the prior and of a much narrower network, the lowest first."""
    first = solved_on_tokens(problem, **options)
    if not first.directions.lower:
        return [replace(first, starts=2)]
    narrow = solved_on_tokens(problem, narrow=True, **options)
    narrow = replace(narrow, start="narrow", directions=replace(narrow.directions, lower=0.0))
    return sorted((first, narrow), key=lambda solution: float(solution.excess))


def sweep_on_tokens(problem: Problem, architectures, temperatures, **options) -> Solution:
    """The solution whose directions serve all these networks, that of the narrowest and coldest one."""
    narrowest = min(architectures, key=lambda architecture: architecture.widest)
    coldest = problem.replace(width=narrowest.widths, temperature=float(jnp.min(temperatures)))
    return solved_on_tokens(coldest, **options)


def _start(problem: Problem, start) -> Solution | None:
    """A solution to start from, checked."""
    if start is None:
        return None
    if not isinstance(start, Solution) or start.directions is None or start.excess.ndim:
        raise ValueError(
            f"start: wanted one Solution on tokens, got {type(start).__name__}. Leave it out for the prior."
        )
    known, wanted = start.problem.architecture.variances, problem.architecture.variances
    same = not checks.concrete(*known, *wanted) or known[1:-1] == wanted[1:-1]
    if start.problem.attentioned is not problem.attentioned or not same:
        raise ValueError("start: wanted a solution of the same inputs and variances of the values. Leave it out.")
    return start


def _ranked(problem: Problem, most: int, known: Solution | None) -> Ranked:
    """New features; or those of the start, which are as good for another width, unless more are asked for."""
    variances = problem.architecture.variances
    labels, temperature = problem.labels, problem.temperature
    if known is not None:
        ranked = known.directions.ranked
        if most <= ranked.asked or ranked.most < ranked.asked:
            return ranked
        labels, temperature = known.problem.labels, known.problem.temperature  # so that the first ones are the same
    found = problem.attentioned, np.asarray(labels), float(temperature), variances, most
    return ranked_components(*found, _missing(problem)) if problem.projected else ranked_features(*found)


def _without_features(problem: Problem) -> Ranked:
    """The kernel of infinite width."""
    inputs = problem.attentioned
    if problem.projected:
        beyond = None if problem.count is None else (_missing(problem), float(inputs.own))
        return no_features(inputs, np.asarray(kernel_of_components(inputs, inputs)), beyond)
    return no_features(inputs, kernel_in_blocks(inputs, inputs, (1.0, *problem.architecture.variances[1:])))


def _missing(problem: Problem) -> float:
    """The number of examples without a row."""
    return float(problem.examples - len(problem.labels))


def _counts(ranked: Ranked, most: int, known: Solution | None) -> list[int]:
    """Numbers of features that are tried."""
    most = max(1, min(most, ranked.most))
    first = min(_FEWEST if known is None else max(_FEWEST, known.directions.count // 2), most)
    counts = [first]
    while counts[-1] < most:
        counts.append(min(2 * counts[-1], most))
    return counts


def _lowest(problem: Problem, directions: Directions, point, options: tuple[float, int]) -> Solution:
    """The minimum from this point, the prior's if it is None, differentiable in the problem's numbers."""
    action = action_in(problem, directions.features)
    point = jnp.zeros(action.levels.coordinates) if point is None else point
    return solution_of(minimise(action, point, *options, "gradients"), problem, directions=directions)


def followed(known: Solution, problem: Problem, tolerance: float, max_steps: int = 200) -> Solution:
    """The minimum of the same inputs at other numbers, from a solution and in its directions; differentiable."""
    return replace(_lowest(problem, known.directions, known.point, (tolerance, max_steps)), start="given")
