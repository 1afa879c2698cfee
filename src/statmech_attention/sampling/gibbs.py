r"""The posterior (8) of all weights by exact Gibbs sampling: an independent check of the other two samplers.

The output is linear in the weights of one layer while the others stay: $f = \Phi \theta$, and beside a skip connection
$f = f_0 + \Phi \theta$. So each layer, all its heads together, has a Gaussian posterior given the rest, and is drawn from it
without rejection and without step sizes. Of narrow heads $V^{(h)}$ and $O^{(h)}$ are drawn one after the other.
"""

import jax
import jax.numpy as jnp
import xarray as xr
from jax.scipy.linalg import cho_solve
from jax.typing import ArrayLike

from statmech_attention.checks import Key
from statmech_attention.model.network import Weights, forward_paths
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.sampling import _weight_draws
from statmech_attention.sampling._arguments import Chains, run_options
from statmech_attention.sampling._chains import Transition
from statmech_attention.sampling._weight_draws import WeightPosterior
from statmech_attention.theory.problem import Problem


def gibbs_posterior(
    problem: Problem,
    *,
    key: Key,
    test: AttentionedInputs | ArrayLike | None = None,
    start: Weights | xr.Dataset | None = None,
    keep_weights: bool = False,
    chains: Chains = Chains(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws from (8), one layer at a time: $\theta = \theta_0 + \sigma^2 \Phi^\top (\sigma^2 \Phi \Phi^\top + T I)^{-1} (Y - \Phi \theta_0 - \epsilon)$.

    $\theta_0$ is a draw from the layer's prior and $\epsilon \sim \mathcal N(0, T I)$; then $\theta$ is a draw from its posterior given
    the other layers. A sweep over all layers costs $P^2$ operations a weight. Low temperatures tie the layers together,
    and many sweeps then make one independent draw.

    Args:
        problem: as in `posterior`.
        key: a JAX random key.
        test: as in `weights_posterior`.
        start: as in `weights_posterior`.
        keep_weights: as in `weights_posterior`.
        chains: as in `posterior`; an iteration is a sweep.

    Returns:
        Dataset as that of `weights_posterior`, without what belongs to NUTS.

    Raises:
        ValueError: as for `weights_posterior`.

    Source: conditioning a draw from the prior is Matheron's rule; Doucet, "A note on efficient conditional simulation of
    Gaussian distributions" (2010).
    """
    options = run_options(chains, warmup=500)
    data, architecture = _weight_draws.prepared(problem, test, key)
    start_key, chain_key = jax.random.split(key)
    first = _weight_draws.starts(start, start_key, chains.count, data.inputs.values.shape[-1], architecture)
    chain = Transition(_begin, _sweep, _record_all if keep_weights else _record)
    options |= {"warn": chains.warn}
    return _weight_draws.sampled("weights, Gibbs", chain, data, first, chain_key, architecture, **options)


def _begin(key, weights: Weights, data):
    return key, weights


def _sweep(state, posterior: WeightPosterior):
    """Draw V0, then every layer's values, $V$ before $O$, then the readout."""
    key, weights = state
    blocks = _weight_draws.named(weights)
    key, *keys = jax.random.split(key, len(blocks) + 1)
    for name, own_key, variance in zip(blocks, keys, posterior.variances, strict=True):

        def place(block, blocks=blocks, name=name):
            return _weight_draws.weights_of({**blocks, name: block}, len(weights.values))

        blocks = {**blocks, name: _draw(place, blocks[name], own_key, posterior, variance)}
    return (key, _weight_draws.weights_of(blocks, len(weights.values))), {}


def _draw(place, block, key, posterior: WeightPosterior, variance):
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


def _record(state, data):
    return _weight_draws.record(state[1], data, False)


def _record_all(state, data):
    return _weight_draws.record(state[1], data, True)
