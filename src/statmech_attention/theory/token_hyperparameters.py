"""Temperature and scale chosen by the evidence, without paths."""

from collections.abc import Sequence

import numpy as np

from statmech_attention.theory.hyperparameters import RANGES, at_logs, searched
from statmech_attention.theory.problem import Problem, need_problem
from statmech_attention.theory.token_solution import TokenSolution
from statmech_attention.theory.without_paths import followed, solve_without_paths

_ROUNDS = 5  # of new directions
_SAME = 1e-3  # of a logarithm
_STEEPEST = 1e-4  # nats for a factor of e


def maximise_evidence_without_paths(
    problem: Problem,
    *,
    chosen: str | Sequence[str] = tuple(RANGES),
    directions: int = 64,
    change: float = 0.02,
    throw: bool = True,
) -> TokenSolution:
    r"""$\mathrm{argmax}_{T, \sigma_0^2} \ln p(Y)$ of a problem of tokens, in the directions of `solve_without_paths`.

    SciPy's L-BFGS-B in the logarithms, with exact gradients in directions that are held, from the
    problem's temperature, 0.1 if it has none, and its $\sigma_0^2$. Directions are found anew at its
    end, until the numbers stay. Only a local maximum is found. At infinite width it is that of
    Gaussian-process regression.

    Args:
        problem: a `Problem` of `token_inputs` with a width.
        chosen: "temperature", between 1e-4 and 1e2, "variance", $\sigma_0^2$ between 1e-4 and 1e4,
            or both, which is the default; the other stays as given, and so do other variances.
        directions, change, throw: as in `solve_without_paths`.

    Returns:
        The `TokenSolution` at these numbers, which are those of its `problem`.

    Raises:
        ValueError: `chosen` has no name, or another one.
        NotSettled: as `solve_without_paths`.

    Source: MacKay, "Bayesian interpolation" (1992), for the choice by evidence.
    """
    from scipy.optimize import minimize  # takes longer to import than the whole theory

    problem, names, logs, bounds = searched(need_problem(problem, "width", tokens=True), chosen, (0,))
    search = {"method": "L-BFGS-B", "bounds": bounds, "options": {"gtol": _STEEPEST, "ftol": 1e-15}}
    for _ in range(_ROUNDS):
        start = at_logs(problem, names, logs)
        trials = [solve_without_paths(start, directions=directions, change=change, throw=False)]

        def loss(logs, trials=trials):
            trials.append(followed(trials[-1], at_logs(problem, names, logs)))
            slopes = trials[-1].evidence_slopes()
            steep = {"temperature": slopes["temperature"], "variance[0]": slopes["variance"][0]}
            return -trials[-1].log_evidence, -np.exp(logs) * [float(steep[name]) for name in names]

        last, logs = logs, minimize(loss, logs, jac=True, **search).x
        if np.max(np.abs(logs - last)) < _SAME:
            break
    return solve_without_paths(at_logs(problem, names, logs), directions=directions, change=change, throw=throw)
