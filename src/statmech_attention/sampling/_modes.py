"""Gaussians at the modes of the posterior density that a search finds, the heaviest first."""

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention.sampling._density import Laplace, Posterior, laplace
from statmech_attention.theory import Problem, Solution, minima
from statmech_attention.theory.levels.levels import Levels
from statmech_attention.theory.levels.paths import full_rank, point_of
from statmech_attention.theory.starts import Start, starts

_SAME = 1e-2  # difference of two coordinates that are one
_PRECISE, _ROUGH, _ROUGHER = 1e-6, 1e-2, 1.0  # distances to a mode, in units of the posterior's width
_MOST = 2000  # coordinates on tokens, of which the Hessian is formed


def gaussians_at_modes(problem: Problem, data: Posterior, known: list[Solution] | None = None) -> Laplace:
    """Gaussians at the modes that differ along paths, each array with a leading axis; `known` are the minima, if so.

    The density has its modes near the minima of the action. With fewer neurons than partial paths
    it has other coordinates, in which the search of `minima` is made again.
    """
    factors = data.action.levels
    if factors.shapes != full_rank(problem.architecture).shapes:
        return _from_starts(data, starts(problem, factors))
    ends = [(one.start, point_of(one.order_parameters, factors)) for one in known or minima(problem)]
    return _from_starts(data, [Start(name, np.asarray(point)) for name, point in ends])


def density_on_tokens(problem: Problem, directions, settle) -> tuple[Solution, Posterior, Laplace]:
    """The lowest minimum, the density in its directions, and Gaussians at the modes near it and near the prior."""
    lowest = minima(problem, directions=directions, settle=settle)[0]
    _check(problem, lowest.landscape.levels)
    density, point = Posterior(lowest.landscape, None), np.asarray(lowest.point)
    return lowest, density, _from_starts(density, [Start(lowest.start, point), Start("prior", 0 * point)])


def _from_starts(data: Posterior, starts: list[Start]) -> Laplace:
    modes = list[Laplace]()
    for start in starts:
        point = jnp.asarray(start.point)
        if start.weight != 1:
            point = laplace(data, point, start.weight, _ROUGHER)[0].mode
        mode, converged = laplace(data, point, 1.0, _ROUGH)  # nearly always one that is known
        if modes and (not converged or _known(mode, modes)):
            continue
        mode, converged = laplace(data, mode.mode, 1.0, _PRECISE)
        if not modes or (converged and not _known(mode, modes)):
            modes.append(mode)
    modes.sort(key=lambda mode: float(mode.potential - mode.logdet))
    return jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *modes)


def _known(mode: Laplace, modes: list[Laplace]) -> bool:
    return any(np.max(np.abs(np.asarray(mode.mode) - np.asarray(other.mode))) <= _SAME for other in modes)


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
