"""Gaussians at the modes of the posterior density that a search finds, the heaviest first."""

import jax
import jax.numpy as jnp
import numpy as np

from statmech_attention.sampling._density import Laplace, Posterior, laplace
from statmech_attention.theory import Problem, Solution, minima
from statmech_attention.theory.levels.paths import PathLevels, full_rank, point_of
from statmech_attention.theory.starts import Start, starts

_SAME = 1e-2  # difference of two coordinates that are one
_PRECISE, _ROUGH, _ROUGHER = 1e-6, 1e-2, 1.0  # distances to a mode, in units of the posterior's width


def gaussians_at_modes(problem: Problem, data: Posterior, known: list[Solution] | None = None) -> Laplace:
    """Gaussians at the modes that differ, each array with a leading axis; `known` are the minima, if they are.

    The density has its modes near the minima of the action. With fewer neurons than partial paths
    it has other coordinates, in which the search of `minima` is made again.
    """
    modes = list[Laplace]()
    for start in _starts(problem, data.action.levels, known):
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


def _starts(problem: Problem, factors: PathLevels, known: list[Solution] | None) -> list[Start]:
    if factors.ranks != full_rank(problem.architecture).ranks:
        return starts(problem, factors)
    known = minima(problem) if known is None else known
    return [Start(solution.start, np.asarray(point_of(solution.order_parameters, factors))) for solution in known]


def _known(mode: Laplace, modes: list[Laplace]) -> bool:
    return any(np.max(np.abs(np.asarray(mode.mode) - np.asarray(other.mode))) <= _SAME for other in modes)
