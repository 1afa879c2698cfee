r"""The posterior of learned attention, exactly: $\theta$ beside the order parameters.

Given the attention, the order parameters have the law of `posterior`, so together

    p(theta, U | D)  is proportional to  p(theta) p(U) exp(-P E(U, theta) / 2),

with $p(U)$ the Wishart chain: the law of queries and keys under the posterior (8) of all weights,
at any width, without a saddle point. At infinite width $U$ is known.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.sampling._bartlett import bartlett
from statmech_attention.sampling._chains import SamplerSettings, nuts, run, with_warmup
from statmech_attention.sampling.diagnostics import dataset, named_overlaps
from statmech_attention.theory import Problem, kernel_regression
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.levels.levels import prior_deviations
from statmech_attention.theory.levels.paths import full_rank, order_parameters
from statmech_attention.theory.prepared import feature_energy
from statmech_attention.theory.problem import need_examples, need_problem

_POINT = "point of the order parameters"


def attention_posterior(
    problem_of: Callable[[Any], Problem],
    theta: Mapping[str, Float[Array, "chains *shape"]],
    *,
    log_prior: Callable[[Any], Any],
    key: checks.Key,
    test_of: Callable[[Any], Any] | None = None,
    settings: SamplerSettings = SamplerSettings(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws from $p(\theta, U | D)$ by NUTS.

    Args:
        problem_of: as in `learn_attention`.
        theta: float64 arrays by name, with a leading axis of chains, to start from.
        log_prior: $\ln p(\theta)$ up to a constant, of one chain's arrays.
        key: a JAX random key.
        test_of: a function that JAX can trace, from $\theta$ to test inputs along the paths; the
            result then has their outputs given the draws.
        settings: numbers of draws and chains, and options: `SamplerSettings`.

    Returns:
        Dataset as that of `posterior`, with the draws of each array of `theta` under its name.
    """
    settings, key = with_warmup(settings, 500), checks.key("key", key)
    checks.function("problem_of", problem_of, "of theta that gives a Problem")
    checks.function("log_prior", log_prior, "of theta that gives a number")
    if test_of is not None:
        checks.function("test_of", test_of, "of theta that gives test inputs")
    checks.instance("theta", theta, Mapping, instead="Give arrays by name, chains first.")
    theta = {name: jnp.asarray(array) for name, array in theta.items()}
    for name, array in theta.items():
        checks.need_double(f"theta[{name!r}]", array)
        checks.same(f"theta[{name!r}]", "the first axis", len(array), "settings.chains", settings.chains)
    first = need_problem(problem_of({name: array[0] for name, array in theta.items()}), "width", "temperature")
    need_examples(first, "attention that is learned")
    law = _Law(problem_of, log_prior, test_of, first)
    transition = nuts(law.potential, law.record, None, warmup=settings.warmup, step_size=0.1)
    draws = run(transition, jnp.zeros(()), law.starts(theta, settings.chains), key, settings)
    temperature = float("nan") if isinstance(first.temperature, jax.Array) else first.temperature
    return dataset(draws, "attention", first.architecture, temperature, settings.warn)


class _Law:
    r"""Minus the logarithm of $p(\theta, U | D)$, in coordinates of $U$ of variance about one under the prior."""

    def __init__(self, problem_of, log_prior, test_of, first: Problem):
        self.problem_of, self.log_prior, self.test_of = problem_of, log_prior, test_of
        architecture, self.finite = first.architecture, all(map(np.isfinite, first.width))
        self.factors = bartlett(architecture) if self.finite else full_rank(architecture)
        self.scale = prior_deviations(jnp.array(architecture.stage_widths, float), self.factors)

    def starts(self, theta: dict, chains: int) -> dict:
        return theta | ({_POINT: jnp.zeros((chains, self.factors.coordinates))} if self.finite else {})

    def potential(self, position, data, static):
        theta, _, action, point = self._parts(position)
        return action.potential(point) - self.log_prior(theta)

    def record(self, position, data, static):
        theta, problem, action, point = self._parts(position)
        overlaps = order_parameters(point, action.levels)
        record = theta | named_overlaps(overlaps, action.levels.chain.stages)
        if self.test_of is not None:
            given = kernel_regression(problem, overlaps[0]).predict(self.test_of(theta))
            record |= {"output": given.mean, "output_variance": given.variance}
        return record

    def _parts(self, position):
        """$\\theta$, its problem and action, and the point of the order parameters: zero, if they are known."""
        theta = {name: array for name, array in position.items() if name != _POINT}
        problem = self.problem_of(theta)
        factors = replace(self.factors, variances=problem.architecture.stage_variances)
        action = Action.of(feature_energy(problem, problem), problem.architecture, factors)
        return theta, problem, action, self.scale * position.get(_POINT, 0.0)
