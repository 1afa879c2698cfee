r"""Temperature and prior variances at the maximum of the theory's evidence.

The labels determine only the variances that the kernel depends on. In a chain of heads that is the
product $\sigma_0^2 \sigma_1^2 \cdots \sigma_a^2$; a layer beside a skip adds its variance, since
only the heads carry it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from statmech_attention import checks
from statmech_attention.theory.evidence import log_evidence
from statmech_attention.theory.on_tokens import followed
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.saddle_point import solve
from statmech_attention.theory.search import minima
from statmech_attention.theory.solution import NotConverged, Solution, raise_unless_converged

_STEEPEST = 1e-5  # nats for a factor of e, where the search ends
_STEEPEST_LEFT = 1e-2  # what it may end with where rounding hides further gain
_LOWER = 1e-6  # of the action, by which another minimum is lower
_ROUNDS = 8  # of searches
_SAME = 1e-3  # of a logarithm, with directions found anew
RANGES = {"temperature": (1e-4, 1e2), "variance": (1e-4, 1e4)}


@dataclass(frozen=True, repr=False)
class EvidenceMaximum:
    r"""Numbers chosen by the evidence, and the theory there.

    Attributes:
        solution: the `Solution` at these numbers, its `start` and `starts` as `minima` has them.
        log_evidence: $\ln p(Y)$ of the solution, to leading order in $N$.
        slopes: its derivative in the logarithm of each chosen number, by the names "temperature",
            "variance[0]", ..; the other variances stay as given.
        at_bound: the chosen numbers at an end of their range, outside of which the evidence would rise.
    """

    solution: Solution
    log_evidence: float
    slopes: dict[str, float]
    at_bound: tuple[str, ...]

    @property
    def temperature(self) -> float:
        """$T$."""
        return self.solution.problem.temperature

    @property
    def variance(self) -> tuple[float, ...]:
        r"""$(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$."""
        return self.solution.problem.variance

    def __repr__(self) -> str:
        variance = ", ".join(f"{number:.4g}" for number in self.variance)
        bound = f", at a bound: {', '.join(self.at_bound)}" if self.at_bound else ""
        numbers = f"temperature={self.temperature:.4g}, variance=({variance}), log_evidence={self.log_evidence:.6g}"
        return f"EvidenceMaximum({numbers}{bound})"


def maximise_evidence(
    problem: Problem,
    *,
    chosen: str | Sequence[str] = tuple(RANGES),
    directions: int | None = None,
    settle: float | None = None,
    tolerance: float = 1e-8,
    max_steps: int = 100,
) -> EvidenceMaximum:
    r"""$\mathrm{argmax}_{T, \sigma^2} \ln p(Y)$, the evidence of the saddle point (11) to leading order in $N$.

    SciPy's L-BFGS-B in the logarithms with exact gradients; every trial is a saddle point, started
    from the last one, and the first from the lowest minimum. Where the action has a lower minimum
    at the end, the search goes on from there. On tokens directions are held during a search, and found
    anew at its end until the numbers stay. Only a local maximum is found: if in doubt, compare
    starts, or a grid by `solve_sweep`. The first call compiles for some seconds; then a trial costs a saddle
    point that is near the last one, and there are about thirty of them.

    Args:
        problem: a `Problem` with a width. The search starts at its temperature, 0.1 if it has none,
            and at its variances, or at the end of their ranges. It chooses $\sigma_0^2$, for the product, and
            along paths the variances of layers beside a skip, $T$ between 1e-4 and 1e2, variances between 1e-4 and 1e4.
        chosen: "temperature", "variance", or both, which is the default; the other stays as given.
        directions, settle, tolerance: as in `solve`.
        max_steps: steps of the search.

    Raises:
        ValueError: `chosen` has no name, or another one.
        NotConverged: a saddle point was not reached, or the search ended on a slope.

    Source: MacKay, "Bayesian interpolation" (1992), for the choice by evidence; the gradient is
    ours.
    """
    from scipy.optimize import minimize  # takes longer to import than the whole theory

    problem = need_problem(problem, "width", tokens=True)
    tokens = not problem.along_paths
    free = (0,) if tokens else _free_variances(problem.architecture)
    problem, names, logs, bounds = searched(problem, chosen, free)
    fewer = problem if tokens else problem.reduce()
    start: dict[str, Any] = {"directions": directions, "settle": settle, "tolerance": tolerance}
    trials = [minima(fewer, **start)[0]]
    if tokens:
        problem = fewer = fewer.replace(attentioned=trials[0].problem.attentioned)

    def loss(logs):
        there = at_logs(fewer, names, logs)
        if tokens:
            solution = followed(trials[-1], there, tolerance)
        else:
            solution = solve(there, start=trials[-1], tolerance=tolerance, throw=False)
        raise_unless_converged(solution)
        trials.append(solution)
        slopes = solution.slopes()
        known = _named(slopes["temperature"], slopes["variance"])
        return -float(log_evidence(solution)), -np.exp(logs) * np.array([known[name] for name in names], float)

    options = {"maxiter": checks.whole("max_steps", max_steps), "gtol": _STEEPEST, "ftol": 1e-15}
    for _ in range(_ROUNDS):
        last, logs = logs, minimize(loss, logs, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        end = loss(logs)
        lowest = minima(at_logs(fewer, names, logs), **start)[0]
        stay = np.max(np.abs(logs - last)) < _SAME if tokens else lowest.excess > trials[-1].excess - _LOWER
        if stay:
            if abs(lowest.excess - trials[-1].excess) < _LOWER:  # it is the same one, and known by its starts
                trials[-1] = replace(trials[-1], start=lowest.start, starts=lowest.starts)
            break
        trials.append(lowest)
    return _maximum_at(logs, end, bounds, problem, names, trials)


def _maximum_at(logs, end, bounds, problem: Problem, names, trials: list[Solution]) -> EvidenceMaximum:
    """The maximum where the search ended; raise `NotConverged` if that is on a slope within the ranges."""
    top, slopes = -end[0], -end[1]
    solution = replace(trials[-1], problem=at_logs(problem, names, logs))
    low = np.isclose(logs, bounds[:, 0], rtol=0, atol=1e-9)
    high = np.isclose(logs, bounds[:, 1], rtol=0, atol=1e-9)
    steepest = np.max(np.abs(np.where((low & (slopes < 0)) | (high & (slopes > 0)), 0.0, slopes)))
    if steepest > _STEEPEST_LEFT:
        raise NotConverged(
            f"The maximum of the evidence was not reached in {len(trials)} trials: slope {steepest:.1e} nats for a "
            f"factor of e at T = {solution.problem.temperature:g}. Raise max_steps, or start from there. "
            "The .solution of this exception is the theory there.",
            solution,
        )
    at_bound = tuple(name for name, ends in zip(names, low | high, strict=True) if ends)
    return EvidenceMaximum(solution, top, dict(zip(names, slopes.tolist(), strict=True)), at_bound)


def searched(problem: Problem, chosen: str | Sequence[str], free: Sequence[int]):
    """The search in hand: the problem where it begins, names of its numbers, their logarithms there, and their ranges.

    Of the variances those in the `free` places can be chosen, by the names "variance[0]", ..
    """
    kinds = (chosen,) if isinstance(chosen, str) else tuple(checks.several("chosen", chosen, "words"))
    if not kinds:
        raise ValueError('chosen: wanted "temperature", "variance" or both, got none. To choose nothing, use solve.')
    kinds = tuple(checks.choice("chosen", kind, tuple(RANGES)) for kind in kinds)
    problem = problem if problem.temperature is not None else problem.replace(temperature=0.1)
    numbers = {"temperature": problem.temperature} if "temperature" in kinds else {}
    if "variance" in kinds:
        numbers |= {f"variance[{place}]": problem.variance[place] for place in free}
    bounds = np.log([RANGES[name.partition("[")[0]] for name in numbers])
    logs = np.clip(np.log(list(numbers.values())), *bounds.T)
    return at_logs(problem, list(numbers), logs), list(numbers), logs, bounds


def at_logs(problem: Problem, names: Sequence[str], logs) -> Problem:
    """The problem with the numbers of these names and logarithms."""
    given = dict(zip(names, np.exp(logs), strict=True))
    temperature, *variance = (_named(problem.temperature, problem.variance) | given).values()
    return problem.replace(temperature=temperature, variance=tuple(variance))


def _named(temperature, variances) -> dict[str, Any]:
    """Numbers by their names, "temperature", "variance[0]", .."""
    return {"temperature": temperature} | {f"variance[{place}]": number for place, number in enumerate(variances)}


def _free_variances(architecture) -> tuple[int, ...]:
    """Places of the variances that the labels determine: the first, and those of layers beside a skip."""
    layers = enumerate(architecture.chain.kinds, start=1)
    beside = [place for place, kind in layers if not np.allclose(kind.mixing(2.0), 2 * np.asarray(kind.mixing(1.0)))]
    return (0, *(place for place in beside if architecture.chain.kinds[place - 1].value_matrices))
