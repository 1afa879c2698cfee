"""The posterior density on tokens, in the directions of the lowest minimum."""

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention.sampling._density import Laplace, Posterior, laplace
from statmech_attention.theory import Problem, Solution, minima
from statmech_attention.theory.levels.levels import Levels

_MOST = 2000  # coordinates, of which the Hessian is formed
_PRECISE = 1e-6  # distance to a mode, in units of the posterior's width
_SAME = 1e-2  # difference of two coordinates that are one


def density_on_tokens(problem: Problem, directions, settle) -> tuple[Solution, Posterior, Laplace]:
    """The lowest minimum, the density in its directions, and Gaussians at the modes near it and near the prior."""
    lowest = minima(problem, directions=directions, settle=settle)[0]
    action = lowest.landscape
    _check(problem, action.levels)
    density, modes = Posterior(action, None), list[Laplace]()
    for start in (lowest.point, jnp.zeros_like(lowest.point)):
        mode, converged = laplace(density, start, 1.0, _PRECISE)
        if not modes or (converged and np.max(np.abs(np.asarray(mode.mode - modes[0].mode))) > _SAME):
            modes.append(mode)
    return lowest, density, jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *modes)


def _check(problem: Problem, levels: Levels) -> None:
    """Refuse levels in which the law of the coordinates is not that of the good ones, and too many of them."""
    logs, widths = levels.logarithms, np.asarray(problem.architecture.stage_widths, float)[levels.stage]
    if not np.all(np.isfinite(widths)):
        raise ValueError("width: wanted a finite width, got infinity, where there is nothing to sample.")
    if np.any(widths[logs] <= levels.place[logs]):
        most = int(np.max(levels.place)) + 1
        raise ValueError(f"directions: wanted fewer columns than neurons, got {most}. Take fewer directions.")
    if levels.coordinates > _MOST:
        raise ValueError(f"directions: wanted at most {_MOST} coordinates, got {levels.coordinates}. Take fewer.")
