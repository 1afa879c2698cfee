r"""The posterior (8) of all weights, sampled by NUTS: the paper's way, against which theory is judged.

The network is evaluated in path form, (5): queries and keys are fixed, so attention acts on the inputs once and for all.
"""

import math
import os
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import xarray as xr

from statmech_attention.arguments import Attentioned, Drawn, Layers, Number, Numbers, PerLayer, Whole
from statmech_attention.checks import Key
from statmech_attention.model.network import Weights, forward_paths
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.sampling import _weight_draws
from statmech_attention.sampling._chains import nuts
from statmech_attention.sampling._weight_draws import WeightPosterior, flat_outputs, scaled


def weights_model(
    attentioned: AttentionedInputs, labels: Numbers | None, *, temperature: Number, variance: PerLayer, shapes: Weights
) -> None:
    r"""NumPyro model of (1) to (4) in path form: weights $\sim \mathcal N(0, \sigma_l^2)$, $y_\mu \sim \mathcal N(f(x_\mu), T)$.

    The sites are standard normal and scaled here, so that the sampler sees all layers on one scale.

    Args:
        attentioned: training inputs.
        labels: $Y$, `(examples,)` or `(examples, outputs)`; None to draw them.
        temperature: $T$, the variance of a label given the output: (8).
        variance: $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$, one for every array.
        shapes: `Weights` with the shape of every array in its place.
    """

    def normal(name, shape):
        return numpyro.sample(name, dist.Normal(0.0, 1.0).expand(shape).to_event(len(shape)))

    sites = {name: normal(name, shape) for name, shape in _weight_draws.named(shapes).items()}
    white = _weight_draws.weights_of(sites, len(shapes.values))
    outputs = forward_paths(scaled(white, variance), attentioned)
    numpyro.sample("labels", dist.Normal(outputs, jnp.sqrt(temperature)).to_event(outputs.ndim), obs=labels)


def weights_posterior(
    attentioned: Attentioned,
    labels: Numbers,
    *,
    width: PerLayer,
    temperature: Number,
    variance: PerLayer = 1.0,
    layers: Layers | None = None,
    key: Key,
    draws: Whole = 1000,
    chains: Whole = 4,
    warmup: Whole = 500,
    thinning: Whole = 1,
    chain_method: str = "auto",
    attentioned_test: Attentioned | None = None,
    start: Drawn | None = None,
    keep_weights: bool = False,
    checkpoint: str | os.PathLike | None = None,
    progress: bool | None = None,
    warn: bool = True,
) -> xr.Dataset:
    r"""Draws from $p(\Theta | D) \propto e^{-\frac{1}{2T} \sum_\mu (f(x_\mu) - y_\mu)^2 - \sum_l |\Theta_l|^2 / 2\sigma_l^2}$, (8), by NUTS.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `layers`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`.
        width: $N$ or $(N_1, .., N_{L+1})$, whole numbers of at least 1.
        temperature: $T > 0$.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        layers: only for plain arrays, $(H_1, .., H_L)$, or layers of other kinds among them.
        key: a JAX random key.
        draws: draws a chain that are kept, at least 4.
        chains: chains side by side, at least 2, so that they can be compared.
        warmup: iterations in which step size and masses adapt.
        thinning: iterations a draw.
        chain_method: as for `posterior`.
        attentioned_test: inputs, in the form of `attentioned`, whose outputs are recorded.
        start: `Weights` with a leading axis of chains, or draws with their weights, whose last ones are taken; draws
            from the prior where None.
        keep_weights: keep the weights of every draw, which are many.
        checkpoint: as for `posterior`.
        progress: as for `posterior`.
        warn: as for `posterior`.

    Returns:
        Dataset as that of `posterior`, of weights: `order_parameter` is the bracket of (13), `output` is $f$ itself, and
        there is no `output_variance`; with `keep_weights`, `projection`, `values_1` .., `readout`.

    Raises:
        ValueError: as for `posterior`, or a start of the wrong shapes.

    Source: Tiberi et al. (2024), appendix F.
    """
    settings: dict[str, Any] = {"draws": draws, "warmup": warmup, "thinning": thinning, "chain_method": chain_method}
    about = {"width": width, "temperature": temperature, "variance": variance, "heads": layers, "key": key}
    data, architecture = _weight_draws.prepared(
        attentioned, labels, attentioned_test, **about, settings=settings | {"chains": chains}
    )
    start_key, chain_key = jax.random.split(key)
    first = _weight_draws.starts(start, start_key, chains, data.inputs.values.shape[-1], architecture)
    size = sum(leaf[0].size for leaf in jax.tree.leaves(first))
    chain = nuts(_potential, _record, keep_weights, warmup=warmup, step_size=0.1 * size**-0.25)
    unit = _weight_draws.named(scaled(first, architecture.stage_variances, -1))
    settings |= {"checkpoint": checkpoint, "progress": progress, "warn": warn}
    return _weight_draws.sampled("weights, NUTS", chain, data, unit, chain_key, architecture, **settings)


def _potential(position: dict, data: WeightPosterior, keep_weights: bool):
    """What NumPyro makes of `weights_model`, with the inputs as a matrix."""
    misfit = data.labels - flat_outputs(_weights(position, data), data)
    size = sum(site.size for site in position.values())
    squares = sum(jnp.sum(site**2) for site in position.values()) + jnp.sum(misfit**2) / data.temperature
    return 0.5 * (squares + size * math.log(2 * math.pi) + misfit.size * jnp.log(2 * math.pi * data.temperature))


def _record(position: dict, data: WeightPosterior, keep_weights: bool) -> dict:
    return _weight_draws.record(_weights(position, data), data, keep_weights)


def _weights(position: dict, data: WeightPosterior) -> Weights:
    return scaled(_weight_draws.weights_of(position, len(data.inputs.chain.layers)), data.variances)
