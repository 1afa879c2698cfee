r"""The posterior (8) of all weights, by NUTS, the paper's way, and by exact Gibbs sampling.

The network is evaluated in path form, (5), so that attention acts on the inputs once and for all.
The output is linear in the weights of one layer with the others fixed: $f = f_0 + \Phi \theta$,
with $f_0 \ne 0$ only beside a skip connection. So each layer has a Gaussian posterior given the
others, which Gibbs sampling draws from without rejection and without step sizes; in narrow heads
$V^{(h)}$ and $O^{(h)}$ are drawn in turn.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import xarray as xr
from jax.scipy.linalg import cho_solve
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.layers import Chain, Narrow
from statmech_attention.model import AttentionedInputs, Weights, forward_paths, sample_weights, weights_order_parameters
from statmech_attention.model.architecture import Architecture
from statmech_attention.model.network import path_vectors
from statmech_attention.sampling._arguments import Chains, checked, run_options, whole_widths
from statmech_attention.sampling._chains import Transition, nuts, run
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


@checks.flags
def weights_posterior(
    problem: Problem,
    *,
    key: Key,
    test: AttentionedInputs | ArrayLike | None = None,
    start: Weights | xr.Dataset | None = None,
    keep_weights: bool = False,
    chains: Chains = Chains(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws by NUTS from (8),
    $p(\Theta | D) \propto e^{-\frac{1}{2T} \sum_\mu (f(x_\mu) - y_\mu)^2 - \sum_l |\Theta_l|^2 / 2\sigma_l^2}$.

    Args:
        problem, chains: as in `posterior`.
        key: a JAX random key.
        test: inputs, in the form of the training inputs, whose outputs are recorded.
        start: `Weights` with a leading axis of chains, or earlier draws with weights, whose last
            ones are taken; if None, draws from the prior.
        keep_weights: record the weights of every draw.

    Returns:
        Dataset as that of `posterior`, of weights: `order_parameter` is the bracket of (13),
        `output` is $f$ itself, without `output_variance`; with `keep_weights`, `projection`,
        `values_1` .., `readout`.

    Raises:
        ValueError: as `posterior`, or a start of the wrong shapes.

    Source: Tiberi et al. (2024), appendix F.
    """
    options = run_options(chains, warmup=500)
    data, architecture = prepared(problem, test, key)
    start_key, chain_key = jax.random.split(key)
    first = starts(start, start_key, chains.count, data.inputs.values.shape[-1], architecture)
    size = sum(leaf[0].size for leaf in jax.tree.leaves(first))
    chain = nuts(_potential, _record, keep_weights, warmup=options["warmup"], step_size=0.1 * size**-0.25)
    unit = named(scaled(first, architecture.stage_variances, -1))
    return sampled("weights, NUTS", chain, data, unit, chain_key, architecture, warn=chains.warn, **options)


def _potential(position: dict, data: WeightPosterior, keep_weights: bool):
    """$-\\ln p$ of standard normal sites and labels, all constants included."""
    misfit = data.labels - flat_outputs(_weights(position, data), data)
    size = sum(site.size for site in position.values())
    squares = sum(jnp.sum(site**2) for site in position.values()) + jnp.sum(misfit**2) / data.temperature
    return 0.5 * (squares + size * math.log(2 * math.pi) + misfit.size * jnp.log(2 * math.pi * data.temperature))


def _record(position: dict, data: WeightPosterior, keep_weights: bool) -> dict:
    return record(_weights(position, data), data, keep_weights)


def _weights(position: dict, data: WeightPosterior) -> Weights:
    return scaled(weights_of(position, len(data.inputs.chain.layers)), data.variances)


@checks.flags
def gibbs_posterior(
    problem: Problem,
    *,
    key: Key,
    test: AttentionedInputs | ArrayLike | None = None,
    start: Weights | xr.Dataset | None = None,
    keep_weights: bool = False,
    chains: Chains = Chains(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws from (8), one layer at a time:
    $\theta = \theta_0 + \sigma^2 \Phi^\top (\sigma^2 \Phi \Phi^\top + T I)^{-1} (Y - \Phi \theta_0 - \epsilon)$.

    With $\theta_0$ from the layer's prior and $\epsilon \sim \mathcal N(0, T I)$, $\theta$ is a
    draw from its posterior given the other layers. A sweep over all layers costs $P^2$ operations
    per weight. Low temperatures tie the layers together, and an independent draw then takes many
    sweeps.

    Args:
        problem: as in `posterior`.
        key: a JAX random key.
        test, start, keep_weights: as in `weights_posterior`.
        chains: as in `posterior`; an iteration is a sweep.

    Returns:
        Dataset as that of `weights_posterior`, without the numbers of NUTS.

    Raises:
        ValueError: as `weights_posterior`.

    Source: Matheron's rule; Doucet, "A note on efficient conditional simulation of Gaussian
    distributions" (2010).
    """
    options = run_options(chains, warmup=500)
    data, architecture = prepared(problem, test, key)
    start_key, chain_key = jax.random.split(key)
    first = starts(start, start_key, chains.count, data.inputs.values.shape[-1], architecture)
    chain = Transition(_gibbs_begin, _gibbs_sweep, _gibbs_record_all if keep_weights else _gibbs_record)
    return sampled("weights, Gibbs", chain, data, first, chain_key, architecture, warn=chains.warn, **options)


def _gibbs_begin(key, weights: Weights, data):
    return key, weights


def _gibbs_sweep(state, posterior: WeightPosterior):
    """Draw V0, then every layer's values, $V$ before $O$, then the readout."""
    key, weights = state
    blocks = named(weights)
    key, *keys = jax.random.split(key, len(blocks) + 1)
    for name, own_key, variance in zip(blocks, keys, posterior.variances, strict=True):

        def place(block, blocks=blocks, name=name):
            return weights_of({**blocks, name: block}, len(weights.values))

        blocks = {**blocks, name: _gibbs_draw(place, blocks[name], own_key, posterior, variance)}
    return (key, weights_of(blocks, len(weights.values))), {}


def _gibbs_draw(place, block, key, posterior: WeightPosterior, variance):
    """A draw of one block of weights given all others; `place` puts a block into its place."""
    prior_key, noise_key = jax.random.split(key)

    def output(values):
        return forward_paths(place(values), posterior.inputs)

    # Beside a skip the output has a part without this block.
    missing = (posterior.labels - output(jnp.zeros_like(block))).reshape(-1)
    features = jax.jacrev(output)(block).reshape(missing.size, -1)
    drawn = jnp.sqrt(variance) * jax.random.normal(prior_key, block.shape)
    noise = jnp.sqrt(posterior.temperature) * jax.random.normal(noise_key, missing.shape)
    gram = variance * features @ features.T + posterior.temperature * jnp.eye(noise.shape[0])
    solved = cho_solve((jnp.linalg.cholesky(gram), True), missing - features @ drawn.reshape(-1) - noise)
    return drawn + variance * (solved @ features).reshape(block.shape)


def _gibbs_record(state, data):
    return record(state[1], data, False)


def _gibbs_record_all(state, data):
    return record(state[1], data, True)


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
    """Weights to start from, with an axis of chains: of the prior, given, or the last of given draws."""
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
    """Order parameters (13), outputs, and on request the weights."""
    found = named_overlaps(weights_order_parameters(weights, layers=data.inputs.layers), data.inputs.chain.stages)
    if data.test is not None:
        found["output"] = forward_paths(weights, data.test)
    if keep_weights:
        found |= named(weights)
    return found


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


def sampled(
    name: str, transition, data: WeightPosterior, start, key, architecture: Architecture, *, warn: bool, **options
) -> xr.Dataset:
    """The draws of a chain as a Dataset with its diagnostics."""
    found = run(transition, data, start, key, settings={"sampler": name}, **options)
    return dataset(found, name, architecture, float(data.temperature), warn)
