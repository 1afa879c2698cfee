r"""Temperature and prior variances at the maximum of the theory's evidence.

The labels determine only the variances that the kernel depends on: in a chain of heads the product
$\sigma_0^2 \sigma_1^2 \cdots \sigma_a^2$; a layer beside a skip adds its own, since only the heads
carry it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention import checks
from statmech_attention.theory.evidence import log_evidence
from statmech_attention.theory.minima import minima
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.saddle_point import solve
from statmech_attention.theory.solution import NotConverged, Solution, raise_unless_converged

CHOSEN = ("temperature", "variance")
_STEEPEST = 1e-5  # nats for a factor of e, where the search ends
_STEEPEST_LEFT = 1e-2  # what it may end with where rounding hides further gain
_LOWER = 1e-6  # of the action, by which another minimum is lower
_RANGES = {"temperature": (1e-4, 1e2), "variance": (1e-4, 1e4)}


@dataclass(frozen=True, repr=False)
class Fit:
    r"""Numbers chosen by the evidence, and the theory there.

    Attributes:
        solution: the `Solution` at these numbers.
        temperature: $T$.
        variance: $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        log_evidence: $\ln p(Y)$ of the solution, to leading order in $N$.
        slopes: its derivative in the logarithm of each chosen number, by the names "temperature",
            "variance[0]", ..
        at_bound: the chosen numbers at an end of their range, beyond which the evidence would rise.
        held: places of the variances that stay as given, since $\sigma_0^2$ stands for their
            product, since the labels do not depend on them, or since they were not to be chosen.
        trials: number of saddle points that the search took.
    """

    solution: Solution
    temperature: float
    variance: tuple[float, ...]
    log_evidence: float
    slopes: dict[str, float]
    at_bound: tuple[str, ...]
    held: tuple[int, ...]
    trials: int

    def __repr__(self) -> str:
        variance = ", ".join(f"{number:.4g}" for number in self.variance)
        bound = f", at a bound: {', '.join(self.at_bound)}" if self.at_bound else ""
        return (
            f"Fit(temperature={self.temperature:.4g}, variance=({variance}), log_evidence={self.log_evidence:.6g}, "
            f"{self.trials} trials{bound})"
        )


def fit(
    problem: Problem,
    *,
    chosen: Sequence[str] = CHOSEN,
    tolerance: float = 1e-8,
    max_steps: int = 100,
) -> Fit:
    r"""$\mathrm{argmax}_{T, \sigma^2} \ln p(Y)$, the evidence of the saddle point (11) to leading order in $N$.

    SciPy's L-BFGS-B in the logarithms with exact gradients; every trial is a saddle point, started
    from the last one. Where the action has a lower minimum at the end, the search goes on from
    there. Only a local maximum is found: if in doubt, compare starts, or a grid by `solve_sweep`.

    Args:
        problem: a `Problem` with a width. The search starts at its temperature, 0.1 if it has none,
            and at its variances. It chooses $\sigma_0^2$, for the product, and the variances of
            layers beside a skip, $T$ between 1e-4 and 1e2, variances between 1e-4 and 1e4.
        chosen: "temperature", "variance", or both; the other stays as given.
        tolerance: as in `solve`.
        max_steps: steps of the search.

    Raises:
        ValueError: as `solve`; nothing to choose, a start outside of these ranges, traced numbers.
        NotConverged: a saddle point was not reached, or the search ended on a slope.

    Source: MacKay, "Bayesian interpolation" (1992), for the choice by evidence; the gradient is
    ours.
    """
    problem = need_problem(problem, "width")
    problem = problem if problem.temperature is not None else problem.replace(temperature=0.1)
    names, start, ranges = _search(problem, chosen)
    for name, number, (low, high) in zip(names, start, ranges, strict=True):
        if not low <= number <= high:
            raise ValueError(f"{name}: wanted a start between {low:g} and {high:g}, got {number:g}.")
    from scipy.optimize import minimize  # takes longer to import than the whole theory

    fewer = problem.reduce()
    trials: list[Solution] = []

    def value(logs):
        at = trials[-1] if trials else None
        solution = solve(_at(fewer, names, jnp.exp(logs)), start=at, tolerance=tolerance, throw=False)
        return log_evidence(solution), solution

    def loss(logs):
        (top, solution), slopes = jax.value_and_grad(value, has_aux=True)(jnp.asarray(logs))
        raise_unless_converged(solution)
        trials.append(solution)
        return -float(top), -np.asarray(slopes)

    logs = np.log(start)
    options = {"maxiter": checks.whole("max_steps", max_steps), "gtol": _STEEPEST, "ftol": 1e-15}
    bounds = np.log(ranges)
    while True:
        logs = minimize(loss, logs, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        end = loss(logs)
        lowest = minima(_at(fewer, names, np.exp(logs).tolist()), tolerance=tolerance)[0]
        if lowest.action > trials[-1].action - _LOWER:
            return _fit_at(logs, end, problem, names, bounds, trials)
        trials.append(lowest)


def _fit_at(logs, end, problem: Problem, names, bounds, trials: list[Solution]) -> Fit:
    """The fit where the search ended; raise `NotConverged` if it ended on a slope."""
    top, slopes = (-one for one in end)
    chosen = _at(problem, names, [float(number) for number in np.exp(logs)])
    solution = replace(trials[-1], problem=chosen)
    low, high = (np.isclose(logs, side, rtol=0, atol=1e-9) for side in bounds.T)
    free = np.where((low & (slopes < 0)) | (high & (slopes > 0)), 0.0, slopes)
    if np.max(np.abs(free)) > _STEEPEST_LEFT:
        raise NotConverged(
            f"The maximum of the evidence was not reached in {len(trials)} trials: slope {np.max(np.abs(free)):.1e} "
            f"nats for a factor of e at T = {chosen.temperature:g}. Raise max_steps, or start from there. "
            "The .solution of this exception is the theory there.",
            solution,
        )
    at_bound = tuple(name for name, one in zip(names, low | high, strict=True) if one)
    held = tuple(place for place in range(len(chosen.variance)) if f"variance[{place}]" not in names)
    by_name = {name: float(slope) for name, slope in zip(names, slopes, strict=True)}
    return Fit(solution, chosen.temperature, chosen.variance, top, by_name, at_bound, held, len(trials))


def _search(problem: Problem, chosen: Sequence[str]) -> tuple[list[str], np.ndarray, list[tuple[float, float]]]:
    """Names of the numbers to choose, where their search starts, and their ranges."""
    if not checks.concrete(*jax.tree.leaves(problem)):
        raise ValueError(
            "problem: wanted known numbers, got traced ones: a search cannot run inside a JAX transformation. "
            "Differentiate log_evidence(solve(problem, throw=False)) there."
        )
    kinds = [checks.choice("chosen", one, CHOSEN) for one in ([chosen] if isinstance(chosen, str) else chosen)]
    if not kinds:
        raise ValueError(f"chosen: wanted some of {', '.join(CHOSEN)}, got none.")
    places = _free_variances(problem.architecture) if "variance" in kinds else ()
    names = ["temperature"] * ("temperature" in kinds) + [f"variance[{place}]" for place in places]
    start = [problem.temperature] * ("temperature" in kinds) + [problem.variance[place] for place in places]
    return names, np.array(start, float), [_RANGES[name.partition("[")[0]] for name in names]


def _at(problem: Problem, names, numbers) -> Problem:
    """The problem with these numbers, by name."""
    given = dict(zip(names, numbers, strict=True))
    variance = tuple(given.get(f"variance[{place}]", one) for place, one in enumerate(problem.variance))
    return problem.replace(temperature=given.get("temperature", problem.temperature), variance=variance)


def _free_variances(architecture) -> tuple[int, ...]:
    """Places of the variances that the labels determine: the first, and those of no whole layer."""
    layers = enumerate(architecture.chain.kinds, start=1)
    own = [place for place, kind in layers if not np.allclose(kind.mixing(2.0), 2 * np.asarray(kind.mixing(1.0)))]
    return (0, *(place for place in own if architecture.chain.kinds[place - 1].value_matrices))
