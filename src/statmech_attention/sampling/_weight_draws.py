"""What the two samplers of weights share: their arguments, where they start, what they keep of a draw."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import xarray as xr
from jaxtyping import Array, Float

from statmech_attention import _checks
from statmech_attention._architecture import Architecture, architecture
from statmech_attention.kernels import check_pair
from statmech_attention.network import Weights, forward_paths, sample_weights, weights_order_parameters
from statmech_attention.paths import AttentionedInputs, as_attentioned
from statmech_attention.sampling._chains import check_counts, run
from statmech_attention.sampling._dataset import dataset


class WeightPosterior(NamedTuple):
    """The posterior (8) of all weights, and the inputs to record outputs for; `test` is None where there are none."""

    inputs: AttentionedInputs
    labels: Float[Array, " examples"]
    temperature: Float[Array, ""]
    test: AttentionedInputs | None


def prepared(attentioned, labels, test, *, width, temperature, variance, heads, counts):
    """The posterior and the architecture, all arguments checked."""
    inputs = as_attentioned("attentioned", attentioned, heads)
    labels = _checks.labels(labels, inputs.values.shape[0])
    temperature = _checks.positive("temperature", temperature)
    layout = architecture(inputs.heads, width, variance)
    for number in layout.widths:
        if not _checks.whole(number, 1):
            raise ValueError(f"width: wanted whole numbers of at least 1 to sample weights, got {number}.")
    check_counts(**counts)
    if test is not None:
        test = as_attentioned("test", test, None if isinstance(test, AttentionedInputs) else inputs.heads)
        check_pair(inputs, test, "test")
    return WeightPosterior(inputs, labels, jnp.asarray(temperature, float), test), layout


def starts(start, key, chains: int, features: int, layout: Architecture) -> Weights:
    """Weights to start from, a leading axis of chains: from the prior, given ones, or the last of earlier draws."""
    size = {"heads": layout.heads, "width": layout.widths, "features": features, "variance": layout.variances}
    drawn = jax.vmap(lambda k: sample_weights(k, **size))(jax.random.split(key, chains))
    if start is None:
        return drawn
    if isinstance(start, xr.Dataset):
        if "projection" not in start:
            raise ValueError("start: wanted draws with their weights, got none. Sample them with keep_weights=True.")
        last = start.isel(draw=-1)
        values = tuple(jnp.asarray(last[f"values_{layer}"].values) for layer in range(1, len(layout.heads) + 1))
        start = Weights(jnp.asarray(last["projection"].values), values, jnp.asarray(last["readout"].values))
    wanted, got = (jax.tree.map(jnp.shape, weights) for weights in (drawn, start))
    if wanted != got:
        raise ValueError(f"start: wanted weights of {chains} chains, shapes {wanted}, got {got}.")
    return start


def record(weights: Weights, data: WeightPosterior, keep_weights: bool) -> dict:
    """Order parameters (13), outputs, and the weights where they are asked for."""
    overlaps = weights_order_parameters(weights)
    found = {"order_parameter": overlaps[0]}
    found |= {f"order_parameter_{layer}": overlap for layer, overlap in enumerate(overlaps[1:], start=2)}
    if data.test is not None:
        found["output"] = forward_paths(weights, data.test)
    if keep_weights:
        found |= {"projection": weights.projection, "readout": weights.readout}
        found |= {f"values_{layer}": values for layer, values in enumerate(weights.values, start=1)}
    return found


def sampled(
    transition, everything, start, key, *, name: str, layout: Architecture, quiet: bool, **options
) -> xr.Dataset:
    """The draws of a chain as a Dataset with its diagnostics."""
    data = everything if isinstance(everything, WeightPosterior) else everything[0]
    found = run(transition, everything, start, key, settings={"sampler": name}, **options)
    return dataset(found, name, layout, float(data.temperature), quiet)
