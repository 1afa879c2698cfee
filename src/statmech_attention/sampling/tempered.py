r"""The posterior of the order parameters of narrow networks, by chains that exchange states with the prior.

In networks with fewer neurons than partial paths at low temperature the posterior is a thin, curved set, parts of which lie far from
each other, and the chains of `posterior` around one mode do not visit all of it. Here they run on standard normal numbers, as many
as there are effective weights, and on a ladder from the prior to the posterior.
"""

import math
from functools import lru_cache

import numpy as np
import xarray as xr
from jax.typing import ArrayLike

from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.sampling._arguments import Chains, checked, run_options, whole_widths
from statmech_attention.sampling._bartlett import (
    bartlett,
    normal_count,
    order_parameter_of_normals,
    order_parameters_of_normals,
)
from statmech_attention.sampling._chains import run
from statmech_attention.sampling._density import label_energy, posterior_density
from statmech_attention.sampling._tempering import tempering
from statmech_attention.sampling.diagnostics import dataset, named_overlaps
from statmech_attention.sampling.order_parameters import with_outputs
from statmech_attention.theory.problem import Problem

_TURN = 0.5 * math.pi  # of a trajectory: under the prior it forgets where it was


def tempered_posterior(
    problem: Problem,
    *,
    key: Key,
    rungs: int = 8,
    test: AttentionedInputs | ArrayLike | None = None,
    chains: Chains = Chains(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws from the same law as `posterior`, for narrow networks whose chains do not mix there.

    Each chain is a ladder of `rungs` densities $e^{-|z|^2 / 2 - \beta P E(U(z)) / 2}$ from $\beta = 1$ to the prior, $\beta = 0$. An iteration
    moves all of them and offers neighbours an exchange; the rung $\beta = 1$ is kept. The numbers $z$ are as many as there are effective
    weights, $\sum_l N_l d_l$ for layers of heads, where $d_l$ counts no more than $N_{l+1}$ rows from above: use it where $N$ is small.

    Args:
        problem: as in `posterior`.
        key: a JAX random key.
        rungs: densities of a ladder, at least 2.
        test: as in `posterior`.
        chains: as in `posterior`; each chain is a ladder of its own.

    Returns:
        Dataset as that of `posterior`; `steps` are those of all rungs together, and `exchanged` is the mean chance of an exchange.

    Raises:
        ValueError: as for `posterior`, or fewer than two rungs.

    Source: Geyer (1991) for the exchange; Syed et al. (2022) for the order of the exchanges and the rungs' places.
    """
    problem, test = checked(problem, test, key)
    architecture = problem.architecture
    factors, widths = bartlett(architecture), whole_widths(architecture)
    options = run_options(chains, warmup=300)
    rungs = checks.whole("rungs", rungs, 2)

    data = posterior_density(problem)
    found = run(
        tempering(*_functions(widths), rungs, _TURN),
        ((data, factors), int(options["warmup"])),
        np.zeros((chains.count, normal_count(widths, factors))),
        key,
        **options,
        settings={"sampler": "order parameters, tempered", "rungs": rungs},
    )
    found = with_outputs(found, data, problem, test)
    return dataset(found, "order parameters, tempered", architecture, problem.temperature, chains.warn)


@lru_cache(maxsize=64)
def _functions(widths: tuple[int, ...]):
    """The energy and the record of the ladder; the same ones for the same widths, so that they are compiled once."""

    def energy(point, data):
        density, factors = data
        return 0.5 * label_energy(order_parameter_of_normals(point, widths, factors), density)

    def record(point, data):
        return named_overlaps(order_parameters_of_normals(point, widths, data[1]), data[1].stages)

    return energy, record
