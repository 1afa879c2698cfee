r"""The posterior (8) of all weights, sampled by NUTS: the paper's way, against which theory is judged.

The network is evaluated in path form, (5): queries and keys are fixed, so attention acts on the inputs once and for all.
"""

import math

import jax
import jax.numpy as jnp
import xarray as xr
from jax.typing import ArrayLike

from statmech_attention.checks import Key
from statmech_attention.model.network import Weights
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.sampling import _weight_draws
from statmech_attention.sampling._arguments import Chains, run_options
from statmech_attention.sampling._chains import nuts
from statmech_attention.sampling._weight_draws import WeightPosterior, flat_outputs, scaled
from statmech_attention.theory.problem import Problem


def weights_posterior(
    problem: Problem,
    *,
    key: Key,
    test: AttentionedInputs | ArrayLike | None = None,
    start: Weights | xr.Dataset | None = None,
    keep_weights: bool = False,
    chains: Chains = Chains(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws from $p(\Theta | D) \propto e^{-\frac{1}{2T} \sum_\mu (f(x_\mu) - y_\mu)^2 - \sum_l |\Theta_l|^2 / 2\sigma_l^2}$, (8), by NUTS.

    Args:
        problem: as in `posterior`.
        key: a JAX random key.
        test: inputs, in the form of the training inputs, whose outputs are recorded.
        start: `Weights` with a leading axis of chains, or draws with their weights, the last of which are taken; draws
            from the prior where None.
        keep_weights: keep the weights of every draw, which are many.
        chains: as in `posterior`.

    Returns:
        Dataset as that of `posterior`, of weights: `order_parameter` is the bracket of (13), `output` is $f$ itself, and
        there is no `output_variance`; with `keep_weights`, `projection`, `values_1` .., `readout`.

    Raises:
        ValueError: as for `posterior`, or a start of the wrong shapes.

    Source: Tiberi et al. (2024), appendix F.
    """
    options = run_options(chains, warmup=500)
    data, architecture = _weight_draws.prepared(problem, test, key)
    start_key, chain_key = jax.random.split(key)
    first = _weight_draws.starts(start, start_key, chains.count, data.inputs.values.shape[-1], architecture)
    size = sum(leaf[0].size for leaf in jax.tree.leaves(first))
    chain = nuts(_potential, _record, keep_weights, warmup=options["warmup"], step_size=0.1 * size**-0.25)
    unit = _weight_draws.named(scaled(first, architecture.stage_variances, -1))
    options |= {"warn": chains.warn}
    return _weight_draws.sampled("weights, NUTS", chain, data, unit, chain_key, architecture, **options)


def _potential(position: dict, data: WeightPosterior, keep_weights: bool):
    """$-\\ln p$ of standard normal sites and labels, all constants included."""
    misfit = data.labels - flat_outputs(_weights(position, data), data)
    size = sum(site.size for site in position.values())
    squares = sum(jnp.sum(site**2) for site in position.values()) + jnp.sum(misfit**2) / data.temperature
    return 0.5 * (squares + size * math.log(2 * math.pi) + misfit.size * jnp.log(2 * math.pi * data.temperature))


def _record(position: dict, data: WeightPosterior, keep_weights: bool) -> dict:
    return _weight_draws.record(_weights(position, data), data, keep_weights)


def _weights(position: dict, data: WeightPosterior) -> Weights:
    return scaled(_weight_draws.weights_of(position, len(data.inputs.chain.layers)), data.variances)
