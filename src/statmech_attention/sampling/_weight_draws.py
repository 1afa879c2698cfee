"""Arguments, starts and records that the two samplers of weights share."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array, Float

from statmech_attention.layers.chains import Chain
from statmech_attention.layers.kind import Narrow
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.network import (
    Weights,
    forward_paths,
    path_vectors,
    sample_weights,
    weights_order_parameters,
)
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.sampling._arguments import checked, whole_widths
from statmech_attention.sampling._chains import run
from statmech_attention.sampling.diagnostics import dataset, named_overlaps


class WeightPosterior(NamedTuple):
    """The posterior (8) of all weights, and the inputs to record outputs for; `test` is None where there are none.

    `flat` are the values of the inputs as a matrix: XLA needs ten times as long for products with an array of three axes, and
    for a matrix that is reshaped to one only inside of the program.
    """

    inputs: AttentionedInputs
    flat: Float[Array, "examples paths_features"]
    labels: Float[Array, "examples *outputs"]
    temperature: Float[Array, ""]
    test: AttentionedInputs | None
    variances: Float[Array, " arrays"]


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


def starts(start, key, chains: int, features: int, architecture: Architecture) -> Weights:
    """Weights to start from, a leading axis of chains: from the prior, given ones, or the last of earlier draws."""
    widths = tuple(int(width) for width in architecture.widths)
    drawn = scaled(_unit_weights(key, chains, features, architecture.chain, widths), architecture.stage_variances)
    if start is None:
        return drawn
    if isinstance(start, xr.Dataset):
        if "projection" not in start:
            raise ValueError("start: wanted draws with their weights, got none. Sample them with keep_weights=True.")
        last = start.isel(draw=-1)
        start = jax.tree.map(lambda part: jnp.asarray(part.values), weights_of(last, len(architecture.chain.layers)))
    if not isinstance(start, Weights):
        raise ValueError(f"start: wanted Weights, or draws with their weights, got {type(start).__name__}.")
    wanted, got = (jax.tree.map(jnp.shape, weights) for weights in (drawn, start))
    if wanted != got:
        raise ValueError(f"start: wanted weights of {chains} chains, shapes {wanted}, got {got}.")
    return start


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _unit_weights(key, chains: int, features: int, chain: Chain, widths: tuple[int, ...]) -> Weights:
    """Weights of every chain from a prior of variance 1."""
    draw = partial(sample_weights, layers=chain, width=widths, features=features)
    # One after the other: drawn side by side they take four times as long to compile.
    return jax.lax.map(lambda own: draw(own), jax.random.split(key, chains))


@partial(jax.jit, static_argnames="power")
def scaled(weights: Weights, variances, power: int = 1) -> Weights:
    """Every array times its standard deviation, or divided by it with a power of -1."""
    arrays, shape = jax.tree.flatten(weights)
    pairs = zip(variances, arrays, strict=True)
    return jax.tree.unflatten(shape, [variance ** (power / 2) * array for variance, array in pairs])


def flat_outputs(weights: Weights, posterior: WeightPosterior) -> Float[Array, "examples *outputs"]:
    """The outputs (5) on the training inputs, as `forward_paths`."""
    vectors = jnp.moveaxis(path_vectors(weights, posterior.inputs), -1, 1)
    return posterior.flat @ vectors.reshape(posterior.flat.shape[1], *vectors.shape[2:])


def record(weights: Weights, data: WeightPosterior, keep_weights: bool) -> dict:
    """Order parameters (13), outputs, and the weights where they are asked for."""
    found = named_overlaps(weights_order_parameters(weights, layers=data.inputs.layers), data.inputs.chain.stages)
    if data.test is not None:
        found["output"] = forward_paths(weights, data.test)
    if keep_weights:
        found |= named(weights)
    return found


def named(weights: Weights) -> dict:
    """Every array of weights under a name, as sites of NumPyro and as variables of the Dataset; in the order of their variances."""
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


def sampled(
    name: str, transition, data: WeightPosterior, start, key, architecture: Architecture, *, warn: bool, **options
) -> xr.Dataset:
    """The draws of a chain as a Dataset with its diagnostics."""
    found = run(transition, data, start, key, settings={"sampler": name}, **options)
    return dataset(found, name, architecture, float(data.temperature), warn)
