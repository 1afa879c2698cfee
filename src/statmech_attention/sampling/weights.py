"""The posterior (8) of all weights by NUTS, as in the paper.

The network is evaluated in path form, (5), so that attention acts on the inputs once and for all.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import xarray as xr
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.layers import Chain, Narrow
from statmech_attention.model import AttentionedInputs, Weights, forward_paths, sample_weights, weights_order_parameters
from statmech_attention.model.network import path_vectors, scaled
from statmech_attention.sampling._chains import SamplerSettings, checked, nuts, run, whole_widths, with_warmup
from statmech_attention.sampling.diagnostics import dataset, named_overlaps
from statmech_attention.theory import Problem


class WeightPosterior(NamedTuple):
    """The posterior (8) of all weights, and the inputs to record outputs for, or None.

    `flat` are the inputs as a matrix: XLA takes ten times as long for products with an array of
    three axes, or one reshaped within the program.
    """

    inputs: AttentionedInputs
    flat: Float[Array, "examples paths_features"]
    labels: Float[Array, "examples *outputs"]
    temperature: Float[Array, ""]
    test: AttentionedInputs | None
    variances: Float[Array, " arrays"]


def weights_posterior(
    problem: Problem,
    *,
    key: checks.Key,
    test: AttentionedInputs | ArrayLike | None = None,
    keep_weights: bool = False,
    settings: SamplerSettings = SamplerSettings(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws by NUTS from (8),
    $p(\Theta | D) \propto e^{-\frac{1}{2T} \sum_\mu (f(x_\mu) - y_\mu)^2 - \sum_l |\Theta_l|^2 / 2\sigma_l^2}$.

    Args:
        problem, settings: as in `posterior`.
        key: a JAX random key.
        test: inputs, in the form of the training inputs, whose outputs are recorded.
        keep_weights: record the weights of every draw.

    Returns:
        Dataset as that of `posterior`, of weights: `order_parameter` is the bracket of (13),
        `output` is $f$ itself, without `output_variance`; with `keep_weights`, `projection`,
        `values_1` .., `readout`.

    Source: Tiberi et al. (2024), appendix F.
    """
    settings, keep_weights = with_warmup(settings, 500), checks.flag("keep_weights", keep_weights)
    data, architecture = prepared(problem, test, key)
    start_key, chain_key = jax.random.split(key)
    sizes = data.inputs.values.shape[-1], architecture.chain, tuple(map(int, architecture.widths))
    starts = named(_prior_weights(start_key, settings.chains, *sizes))
    size = sum(leaf[0].size for leaf in jax.tree.leaves(starts))
    chain = nuts(_potential, _record, keep_weights, warmup=settings.warmup, step_size=0.1 * size**-0.25)
    draws = run(chain, data, starts, chain_key, settings)
    return dataset(draws, "weights, NUTS", architecture, problem.temperature, settings.warn)


def _potential(position: dict, data: WeightPosterior, keep_weights: bool):
    """$-\\ln p$ of standard normal sites and labels, all constants included."""
    vectors = jnp.moveaxis(path_vectors(_weights(position, data), data.inputs), -1, 1)
    misfit = data.labels - data.flat @ vectors.reshape(data.flat.shape[1], *vectors.shape[2:])
    size = sum(site.size for site in position.values())
    squares = sum(jnp.sum(site**2) for site in position.values()) + jnp.sum(misfit**2) / data.temperature
    return 0.5 * (squares + size * math.log(2 * math.pi) + misfit.size * jnp.log(2 * math.pi * data.temperature))


def _record(position: dict, data: WeightPosterior, keep_weights: bool) -> dict:
    """Order parameters (13), outputs, and on request the weights."""
    weights = _weights(position, data)
    record = named_overlaps(weights_order_parameters(weights, layers=data.inputs.layers), data.inputs.chain.stages)
    if data.test is not None:
        record["output"] = forward_paths(weights, data.test)
    return record | named(weights) if keep_weights else record


def _weights(position: dict, data: WeightPosterior) -> Weights:
    return scaled(weights_of(position, len(data.inputs.chain.layers)), data.variances)


def prepared(problem, test, key):
    """The posterior and the architecture, all arguments checked."""
    problem, test = checked(problem, test, key)
    architecture = problem.architecture
    whole_widths(architecture)
    temperature = jnp.asarray(problem.temperature, float)
    variances = jnp.asarray(architecture.stage_variances, float)
    inputs = problem.attentioned
    flat = inputs.values.reshape(len(inputs.values), -1)
    return WeightPosterior(inputs, flat, problem.labels, temperature, test, variances), architecture


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _prior_weights(key, chains: int, features: int, chain: Chain, widths: tuple[int, ...]) -> Weights:
    """Weights of every chain from a prior of variance 1."""
    draw = partial(sample_weights, layers=chain, width=widths, features=features)
    # One after the other: drawn side by side they take four times as long to compile.
    return jax.lax.map(lambda chain_key: draw(key=chain_key), jax.random.split(key, chains))


def named(weights: Weights) -> dict:
    """Every array of weights under its name in the Dataset, in the order of their variances."""
    values: dict[str, Array] = {}
    for layer, value in enumerate(weights.values, start=1):
        parts = value._asdict() if isinstance(value, Narrow) else {"values": value}
        values |= {f"{name}_{layer}": part for name, part in parts.items()}
    return {"projection": weights.projection, **values, "readout": weights.readout}


def weights_of(parts, layers: int) -> Weights:
    """The inverse of `named`."""

    def of(layer: int):
        arrays = [parts[name] for field in Narrow._fields if (name := f"{field}_{layer}") in parts]
        return Narrow(*arrays) if len(arrays) > 1 else arrays[0]

    values = tuple(of(layer) for layer in range(1, layers + 1))
    return Weights(parts["projection"], values, parts["readout"])
