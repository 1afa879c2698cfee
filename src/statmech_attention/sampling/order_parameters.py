"""The posterior of the order parameters at any finite width, exactly: the Wishart chain times $e^{-P E(U)/2}$.

Hamiltonian Monte Carlo runs on a few coordinates, whatever the width: 14 for two layers of two
heads. They are the good coordinates of the action, whitened by the Hessian at the mode, so that a
few steps make an almost independent draw.

In networks with fewer neurons than partial paths the posterior at low temperature is a thin, curved
set with distant parts, which these chains do not all visit. There chains run on standard normal
numbers, as many as effective weights, and on a ladder from the prior to the posterior.
"""

import math
from functools import lru_cache
from typing import Any

import jax
import numpy as np
import xarray as xr
from jax.typing import ArrayLike

from statmech_attention import checks
from statmech_attention.model import AttentionedInputs, TokenInputs
from statmech_attention.sampling._bartlett import bartlett, normal_count, order_parameters_of_normals
from statmech_attention.sampling._chains import SamplerSettings, checked, run, whole_widths, with_warmup
from statmech_attention.sampling._density import Laplace, posterior_density
from statmech_attention.sampling._hamiltonian import hamiltonian
from statmech_attention.sampling._modes import density_on_tokens, gaussians_at_modes
from statmech_attention.sampling._outputs import outputs
from statmech_attention.sampling._tempering import tempering
from statmech_attention.sampling.diagnostics import dataset, named_overlaps
from statmech_attention.theory import Problem
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.levels.paths import PathLevels
from statmech_attention.theory.levels.paths import order_parameters as order_parameters_at
from statmech_attention.theory.outputs import by_output, cross_kernels, outputs_at
from statmech_attention.theory.prepared import all_pairs
from statmech_attention.theory.saddle_point import no_directions


def posterior(
    problem: Problem,
    *,
    key: checks.Key,
    test: AttentionedInputs | TokenInputs | ArrayLike | None = None,
    directions: int | None = None,
    settle: float | None = None,
    settings: SamplerSettings = SamplerSettings(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws from the posterior of the order parameters,
    $p(U^{(1)}, .., U^{(L+1)} | D) \propto \prod_l \mathcal W_{d_l}(U^{(l)}; N_l, \Sigma_l / N_l)\, e^{-P E(U) / 2}$.

    The law of the order parameters (13) under the posterior (8) of all weights, at any width; the
    saddle point (11) is its limit. Given $U$ the output is Gaussian with mean (9) and variance
    (30). Networks with fewer neurons than paths at low temperature need `tempered_posterior`.

    Where the density has several modes (see `minima`), chains start from them in turn, the heaviest
    first, and R-hat tells whether they cross. If they do not, `importance` weighs the modes.

    On tokens it is the posterior in the directions of the lowest minimum, as in `importance`; in place of
    `order_parameter` a draw has `kernel`, $K$ of all pairs (example, output) in training.

    Args:
        problem: a `Problem` with a temperature and, along paths, whole widths of at least 1.
        key: a JAX random key.
        test: test inputs, in the form of the training inputs; the result then has their outputs
            given the draws.
        directions, settle: on tokens, as in `solve`.
        settings: numbers of draws and chains, and options: `SamplerSettings`.

    Returns:
        Dataset with dimensions `chain` and `draw` first: `order_parameter`, $U$,
        `(path, other_path)`, and `order_parameter_2` .. of the layers above; with `test`, `output`,
        (9), and `output_variance`, (30), `(example,)` or `(example, unit)`; `lp`, $\ln p$ up
        to a constant; `n_steps` per iteration; `acceptance_rate`; `diverging`. Attributes are
        `modes`, how many were found, and `warning`, empty if the chains mixed by `sampling.r_hat`
        and `sampling.effective_size` of order parameter and output.

    Source: the Wishart chain and this way to sample it are ours; the limit is Tiberi et al. (2024),
    equation (11).
    """
    problem, test = checked(problem, test, key, tokens=True)
    settings, name, given = with_warmup(settings, 300), "order parameters", None
    if problem.along_paths:
        no_directions(directions=directions, settle=settle)
        density = posterior_density(problem, bartlett(problem.architecture))
        gaussians = gaussians_at_modes(problem, density)
    else:
        lowest, density, gaussians = density_on_tokens(problem, directions, settle)
        name, given = "order parameters on tokens", outputs_at(lowest, test)
    gaussian, modes = jax.tree.map(lambda leaf: leaf[0], gaussians), len(gaussians.mode)
    ends = np.linalg.solve(gaussian.root, (gaussians.mode - gaussian.mode).T).T
    starts = ends[np.arange(settings.chains) % modes]
    data = (density.action, gaussian, given), settings.warmup
    draws = run(hamiltonian(_whitened, _record), data, starts, key, settings)
    return _dataset(draws, name, density.action.energy, problem, test, settings, modes=modes)


def _dataset(draws: dict, sampler: str, energy, problem: Problem, test, settings: SamplerSettings, **about):
    """The draws, and where there are test inputs mean and variance of the output given each of them."""
    named, inputs = ("output", "output_variance"), problem.attentioned
    if test is not None and "output" not in draws:  # along paths
        overlaps, kernels = draws["order_parameter"], cross_kernels(inputs, test, problem.variance)
        given = outputs(overlaps.reshape(-1, *overlaps.shape[2:]), energy, kernels)
        each = zip(named, given, strict=True)
        draws |= {name: np.asarray(values).reshape(*overlaps.shape[:2], -1) for name, values in each}
    draws |= {name: by_output(draws[name], inputs) for name in named if name in draws}
    return dataset(draws, sampler, problem.architecture, problem.temperature, settings.warn, **about)


def _whitened(position, data: tuple[Action, Laplace, Any]):
    action, gaussian, _ = data
    return action.potential(gaussian.mode + gaussian.root @ position)


def _record(position, data: tuple[Action, Laplace, Any]) -> dict:
    """Order parameters along paths; on tokens the kernel, and what `outputs` give."""
    action, gaussian, outputs = data
    point = gaussian.mode + gaussian.root @ position
    if isinstance(action.levels, PathLevels):
        return named_overlaps(order_parameters_at(point, action.levels), action.levels.chain.stages)
    recorded = {"kernel": action.energy.kernel(action.overlap(point))}
    if outputs is None:
        return recorded
    mean, variance = outputs(point, action)
    return recorded | {"output": mean, "output_variance": variance}


_TURN = 0.5 * math.pi  # of a trajectory: under the prior it forgets where it was


def tempered_posterior(
    problem: Problem,
    *,
    key: checks.Key,
    rungs: int = 8,
    test: AttentionedInputs | ArrayLike | None = None,
    settings: SamplerSettings = SamplerSettings(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws from the same law as `posterior`, for narrow networks whose chains do not mix there.

    Each chain is a ladder of `rungs` densities $e^{-|z|^2 / 2 - \beta P E(U(z)) / 2}$ from
    $\beta = 1$ to the prior, $\beta = 0$. An iteration moves all of them and offers neighbours an
    exchange; the rung $\beta = 1$ is recorded. There are as many $z$ as effective weights, at most
    $\sum_l N_l d_l$ for layers of heads: use it for small $N$.

    Args:
        problem, test: as in `posterior`.
        key: a JAX random key.
        rungs: number of densities, at least 2.
        settings: as in `posterior`; each chain is a ladder of its own.

    Returns:
        Dataset as that of `posterior`; `n_steps` are of all rungs together, `exchanged` is the mean
        chance of an exchange.

    Source: Geyer (1991) for the exchange; Syed et al. (2022) for the order of the exchanges and the
    rungs' places.
    """
    problem, test = checked(problem, test, key)
    factors, widths = bartlett(problem.architecture), whole_widths(problem.architecture)
    settings, energy = with_warmup(settings, 300), all_pairs(problem)
    ladder = tempering(*_functions(widths), checks.whole("rungs", rungs, 2), _TURN)
    starts = np.zeros((settings.chains, normal_count(widths, factors)))
    draws = run(ladder, ((energy, factors), settings.warmup), starts, key, settings)
    return _dataset(draws, "order parameters, tempered", energy, problem, test, settings)


@lru_cache(maxsize=64)
def _functions(widths: tuple[int, ...]):
    """The energy and the record of the ladder; cached by widths, so that they are compiled once."""

    def energy(point, data):
        labels, factors = data
        return 0.5 * labels.held(order_parameters_of_normals(point, widths, factors)[0])

    def record(point, data):
        return named_overlaps(order_parameters_of_normals(point, widths, data[1]), data[1].chain.stages)

    return energy, record
