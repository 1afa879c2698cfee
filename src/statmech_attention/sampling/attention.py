r"""The posterior of learned attention, exactly: $\theta$ beside the order parameters.

Given the attention, the order parameters have the law of `posterior`, so together

    p(theta, U | D)  is proportional to  p(theta) p(U) exp(-P E(U, theta) / 2),

with $p(U)$ the Wishart chain: the law of queries and keys under the posterior (8) of all weights,
at any width, without a saddle point. At infinite width $U$ is known.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.sampling._bartlett import bartlett
from statmech_attention.sampling._chains import SamplerSettings, nuts, run, with_warmup
from statmech_attention.sampling.diagnostics import dataset, named_overlaps
from statmech_attention.theory import Problem, energy, gp_order_parameters, kernel_regression
from statmech_attention.theory.coordinates import half_entropy, order_one, order_parameters, prior_deviations
from statmech_attention.theory.problem import need_examples, need_problem

_POINT = "point of the order parameters"


def attention_posterior(
    problem_of: Callable[[Any], Problem],
    theta: Mapping[str, Float[Array, "chains *shape"]],
    *,
    log_prior: Callable[[Any], Any],
    key: Key,
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
        self.problem_of, self.log_prior, self.test_of, self.first = problem_of, log_prior, test_of, first
        self.factors = bartlett(first.architecture) if all(map(np.isfinite, first.width)) else None
        if self.factors is not None:
            self.widths = jnp.array(first.architecture.stage_widths, float)
            self.scale = prior_deviations(self.widths, self.factors)

    def starts(self, theta: dict, chains: int) -> dict:
        if self.factors is None:
            return theta
        return {**theta, _POINT: jnp.zeros((chains, self.factors.coordinates))}

    def potential(self, position, data, static):
        theta, problem, overlaps = self._parts(position)
        total = 0.5 * problem.examples * energy(problem, overlaps[0]) - self.log_prior(theta)
        if self.factors is None:
            return total
        point = self.scale * position[_POINT]
        return total + half_entropy(point, self.widths, self.factors) + order_one(point, self.factors)

    def record(self, position, data, static):
        theta, problem, overlaps = self._parts(position)
        record = theta | named_overlaps(overlaps, self.first.attentioned.chain.stages)
        if self.test_of is not None:
            given = kernel_regression(problem, overlaps[0]).predict(self.test_of(theta))
            record |= {"output": given.mean, "output_variance": given.variance}
        return record

    def _parts(self, position):
        """$\\theta$, its problem, and the order parameters."""
        theta = {name: array for name, array in position.items() if name != _POINT}
        problem = self.problem_of(theta)
        if self.factors is None:
            return theta, problem, gp_order_parameters(layers=problem.layers, variance=problem.variance)
        return theta, problem, order_parameters(self.scale * position[_POINT], self.factors)
