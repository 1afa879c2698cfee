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
from statmech_attention.theory.coordinates import full_rank
from statmech_attention.theory.derivatives import action_problem
from statmech_attention.theory.minimum import minimise_action
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.saddle_point import solution_of
from statmech_attention.theory.solution import NotConverged, Solution, raise_unless_converged

CHOSEN = ("temperature", "variance")
_STEEPEST = 1e-5  # nats for a factor of e, where the search ends
_MAX_STEPS = 200  # of a saddle point
_STEEPEST_LEFT = 1e-2  # what it may end with where rounding hides further gain
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
    from the last one. Only a local maximum is found: if in doubt, compare starts, or a grid by
    `solve_sweep`.

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
    if problem.temperature is None:
        problem = problem.replace(temperature=0.1)
    if not checks.concrete(*jax.tree.leaves(problem)):
        raise ValueError(
            "problem: wanted known numbers, got traced ones: a search cannot run inside a JAX transformation. "
            "Differentiate solve(problem, throw=False).log_evidence() there."
        )
    architecture, heat = problem.architecture, problem.temperature
    from scipy.optimize import minimize  # takes longer to import than the whole theory

    names = checks.choices("chosen", chosen, CHOSEN)
    tolerance = checks.positive("tolerance", tolerance)
    checks.whole("max_steps", max_steps)
    places = _free_variances(architecture) if "variance" in names else ()
    labelled = ["temperature"] * ("temperature" in names) + [f"variance[{place}]" for place in places]
    start = np.array([heat] * ("temperature" in names) + [architecture.variances[place] for place in places])
    ranges = [_RANGES[name.partition("[")[0]] for name in labelled]
    for name, number, (low, high) in zip(labelled, start, ranges, strict=True):
        if not low <= number <= high:
            raise ValueError(f"{name}: wanted a start between {low:g} and {high:g}, got {number:g}.")

    evidence, bounds = _Evidence(problem, names, places, tolerance), np.log(ranges)

    def lacking(logs):
        value, slopes = evidence(logs)
        return -value, -slopes

    options = {"maxiter": int(max_steps), "gtol": _STEEPEST, "ftol": 1e-15}
    found = minimize(lacking, np.log(start), jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    top, slopes = evidence(found.x)
    heat, variances = evidence.last
    low, high = (np.isclose(found.x, side, rtol=0, atol=1e-9) for side in bounds.T)
    free = np.where((low & (slopes < 0)) | (high & (slopes > 0)), 0.0, slopes)
    if np.max(np.abs(free)) > _STEEPEST_LEFT:
        raise NotConverged(
            f"The maximum of the evidence was not reached in {found.nit} steps: slope "
            f"{np.max(np.abs(free)):.1e} nats for a factor of e at "
            f"T = {heat:g}. Raise max_steps, or start from there. The .solution of this exception is the theory there.",
            evidence.solution,
        )
    return Fit(
        evidence.solution,
        heat,
        variances,
        top,
        {name: float(slope) for name, slope in zip(labelled, slopes, strict=True)},
        tuple(name for name, one in zip(labelled, low | high, strict=True) if one),
        tuple(place for place in range(len(variances)) if place not in places),
        evidence.trials,
    )


class _Evidence:
    """The log evidence and its slopes in the logarithms of the chosen numbers; counts its trials."""

    def __init__(self, problem: Problem, names, places, tolerance):
        self.problem, self.names, self.places, self.tolerance = problem, names, places, tolerance
        self.action, self.dense = action_problem(problem, "auto")
        self.factors = full_rank(problem.architecture)
        self.point = np.zeros(self.factors.coordinates)
        self.trials = 0

    def numbers(self, logs):
        """Temperature and variances of a point of the search."""
        numbers = list(np.exp(logs) if checks.concrete(logs) else jnp.exp(logs))
        heat = numbers.pop(0) if "temperature" in self.names else self.problem.temperature
        chosen = dict(zip(self.places, numbers, strict=True))
        return heat, tuple(chosen.get(place, one) for place, one in enumerate(self.problem.variance))

    def __call__(self, logs):
        architecture, examples = self.problem.architecture, self.problem.examples
        unit = architecture.unit if np.isfinite(architecture.unit) else 0.0

        def value(logs):
            heat, variances = self.numbers(logs)
            scale = self.action.scale * (variances[0] / architecture.variances[0])
            action = self.action._replace(temperature=jnp.asarray(heat, float), scale=scale)
            # The first one is in the scale. What is not traced stays a Python float, as in `solve`, whose
            # program this is.
            _, *stages = replace(architecture, variances=variances).stage_variances
            factors = replace(self.factors, variances=(self.factors.variances[0], *stages))
            found = minimise_action(action, self.point, self.tolerance, _MAX_STEPS, factors, self.dense)
            return -0.5 * (unit * found.entropy + examples * found.energy), found

        (_, found), slopes = jax.value_and_grad(value, has_aux=True)(jnp.asarray(logs))
        heat, variances = self.numbers(logs)
        widths = tuple(jnp.asarray(number, float) for number in architecture.widths)
        problem = self.problem.replace(temperature=heat, variance=variances)
        self.solution = solution_of(found, problem, jnp.asarray(heat, float), widths)
        raise_unless_converged(self.solution)
        self.point, self.trials = found.minimum.point, self.trials + 1
        self.last = float(heat), tuple(map(float, variances))
        return float(self.solution.log_evidence()), np.asarray(slopes)


def _free_variances(architecture) -> tuple[int, ...]:
    """Places of the variances that the labels determine: the first, and those of no whole layer."""
    layers = enumerate(architecture.chain.kinds, start=1)
    own = [place for place, kind in layers if not np.allclose(kind.mixing(2.0), 2 * np.asarray(kind.mixing(1.0)))]
    return (0, *(place for place in own if architecture.chain.kinds[place - 1].value_matrices))
