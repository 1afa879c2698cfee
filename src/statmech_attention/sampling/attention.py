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
from statmech_attention.sampling._arguments import Chains, run_options
from statmech_attention.sampling._bartlett import bartlett, chain_potential
from statmech_attention.sampling._chains import nuts, run
from statmech_attention.sampling.diagnostics import dataset, named_overlaps
from statmech_attention.theory import Problem, gp_order_parameters, predict
from statmech_attention.theory.coordinates import layer_shares, logarithms, order_one, order_parameters, stacked
from statmech_attention.theory.evidence import label_nats
from statmech_attention.theory.problem import need_examples, need_problem

_POINT = "point of the order parameters"


def attention_posterior(
    problem_of: Callable[[Any], Problem],
    theta: Mapping[str, Float[Array, "chains *shape"]],
    *,
    log_prior: Callable[[Any], Any],
    key: Key,
    test_of: Callable[[Any], Any] | None = None,
    chains: Chains = Chains(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws from $p(\theta, U | D)$ by NUTS.

    Args:
        problem_of: as in `learn_attention`.
        theta: float64 arrays by name, with a leading axis of chains, to start from.
        log_prior: $\ln p(\theta)$ up to a constant, of one chain's arrays.
        key: a JAX random key.
        test_of: a function that JAX can trace, from $\theta$ to test inputs along the paths; the
            result then has their outputs given the draws.
        chains: number of chains and draws, and options: `Chains`.

    Returns:
        Dataset as that of `posterior`, with the draws of each array of `theta` under its name.

    Raises:
        ValueError: `problem_of` gives no `Problem`; arrays of another number of chains.
    """
    options, key = run_options(chains, warmup=500), checks.key("key", key)
    checks.function("problem_of", problem_of)
    checks.function("log_prior", log_prior)
    if test_of is not None:
        checks.function("test_of", test_of)
    theta = {
        name: checks.array(name, array, " ".join(["chains", *["entries"] * (checks.axes(array) - 1)]), double=True)
        for name, array in checks.mapping("theta", theta).items()
    }
    if not theta or any(array.shape[:1] != (chains.count,) for array in theta.values()):
        raise ValueError(
            f"theta: wanted a leading axis of {chains.count} chains, got {jax.tree.map(jnp.shape, theta)}."
        )
    first = need_problem(problem_of({name: array[0] for name, array in theta.items()}), "width", "temperature")
    need_examples(first, "attention that is learned")
    infinite = not all(map(np.isfinite, first.width))
    factors = None if infinite else bartlett(first.architecture)
    widths = stacked(first.architecture.stage_widths)
    # Coordinates of variance about one under the prior.
    scale = (
        None
        if factors is None
        else 1 / jnp.sqrt(layer_shares(widths, factors) * jnp.where(logarithms(factors), 2.0, 1.0))
    )

    def overlaps_at(position, problem):
        if factors is None:
            return gp_order_parameters(problem.layers, variance=problem.variance)
        return order_parameters(scale * position[_POINT], factors)

    def split(position):
        return {name: array for name, array in position.items() if name != _POINT}

    def potential(position, data, static):
        own = split(position)
        problem = problem_of(own)
        nats = label_nats(
            problem.attentioned,
            problem.labels,
            problem.temperature,
            problem.variance,
            overlaps_at(position, problem)[0],
        )
        total = 0.5 * nats - log_prior(own)
        if factors is None:
            return total
        point = scale * position[_POINT]
        return total + chain_potential(point, widths, factors) + order_one(point, factors)

    def record(position, data, static):
        own = split(position)
        problem = problem_of(own)
        overlaps = overlaps_at(position, problem)
        found = own | named_overlaps(overlaps, first.attentioned.chain.stages)
        if test_of is not None:
            given = predict(problem, test_of(own), overlaps[0])
            found |= {"output": given.mean, "output_variance": given.variance}
        return found

    starts = dict(theta)
    if factors is not None:
        starts[_POINT] = jnp.zeros((chains.count, factors.coordinates))
    transition = nuts(potential, record, None, warmup=options["warmup"], step_size=0.1)
    found = run(transition, jnp.zeros(()), starts, key, **options, settings={"sampler": "attention"})
    temperature = float("nan") if isinstance(first.temperature, jax.Array) else first.temperature
    return dataset(found, "attention", first.architecture, temperature, chains.warn)
