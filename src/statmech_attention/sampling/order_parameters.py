r"""The posterior of the order parameters at any finite width, exactly: the Wishart chain times $e^{-P E(U)/2}$.

Hamiltonian Monte Carlo runs on a few coordinates, whatever the width: 14 for two layers of two heads. They are the good
coordinates of the action, whitened by the Hessian at the mode, so that a few steps make an almost independent draw.
"""

import os
from typing import Any

import jax.numpy as jnp
import numpy as np
import xarray as xr

from statmech_attention.arguments import Attentioned, Layers, Number, Numbers, PerLayer, Whole
from statmech_attention.checks import Key
from statmech_attention.sampling._arguments import check_chains, checked
from statmech_attention.sampling._bartlett import bartlett
from statmech_attention.sampling._chains import run
from statmech_attention.sampling._density import Laplace, Posterior, laplace, posterior_density, potential
from statmech_attention.sampling._hamiltonian import hamiltonian
from statmech_attention.sampling._outputs import by_output, cross_kernels, outputs
from statmech_attention.sampling.diagnostics import dataset, named_overlaps
from statmech_attention.theory.coordinates import Factors
from statmech_attention.theory.coordinates import order_parameters as order_parameters_at


def posterior(
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
    warmup: Whole = 300,
    thinning: Whole = 1,
    chain_method: str = "auto",
    attentioned_test: Attentioned | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: bool | None = None,
    warn: bool = True,
) -> xr.Dataset:
    r"""Draws from $p(U^{(1)}, .., U^{(L+1)} | D) \propto \prod_l \mathcal W_{d_l}(U^{(l)}; N_l, \Sigma_l / N_l)\, e^{-P E(U) / 2}$.

    The law of the order parameters (13) under the posterior (8) of all weights, at any width; the saddle point (11)
    is its limit. Given $U$ the output is Gaussian with mean (9) and variance (30). Networks with fewer neurons than paths
    at low temperature need `tempered_posterior`.

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
        warmup: iterations a chain before the first draw is kept, in which the step size adapts.
        thinning: iterations a draw.
        chain_method: "parallel" for every chain in a thread of its own, "vectorized" for all of them in one program, "auto" for
            the faster one: the first on a CPU, the second elsewhere. The draws are the same up to rounding.
        attentioned_test: test inputs, in the form of `attentioned`; their outputs given the draws are then part of the result.
        checkpoint: a file to write the state to after every block of draws. Where it exists, sampling goes on from
            there; the result is that of a run that was never interrupted. Asking for more draws goes on, too.
        progress: show a bar; where None, on a terminal only.
        warn: of bad mixing; where False, the text is in the attribute `warning` all the same.

    Returns:
        Dataset with dimensions `chain` and `draw` first:
        `order_parameter`, $U$, `(path, other_path)`; `order_parameter_2` .. those of the layers above, the readout's a
        scalar for one output; with `attentioned_test`, `output`, (9), and `output_variance`, (30), `(example,)` or `(example, unit)`; `potential`, $-\ln p$ up to a
        constant; `steps`, leapfrog steps an iteration; `acceptance`; `diverging`. Without these dimensions
        `order_parameter_r_hat`, `order_parameter_effective_size`, and the same of `output`. The attribute `warning`
        says what is wrong with the chains; it is empty where nothing is. For ArviZ see `inference_data`.

    Raises:
        ValueError: wrong shapes, NaN or infinity, float32, $T \le 0$, a width below 1 or not whole, too few draws or
            chains, the checkpoint of another run.

    Source: the Wishart chain and this way to sample it are ours; the limit is Tiberi et al. (2024), equation (11).
    """
    options = {"width": width, "temperature": temperature, "variance": variance, "heads": layers, "key": key}
    inputs, labels, temperature, architecture, test = checked(attentioned, labels, attentioned_test, **options)
    factors = bartlett(architecture)
    settings: dict[str, Any] = {"draws": draws, "warmup": warmup, "thinning": thinning, "chain_method": chain_method}
    check_chains(chains=chains, **settings)

    data = posterior_density(inputs, labels, temperature, architecture.widths, architecture.variances)
    around = laplace(data, jnp.zeros(factors.coordinates), factors)
    found = run(
        hamiltonian(_whitened, _record),
        ((data, around, factors), warmup),
        np.zeros((chains, factors.coordinates)),
        key,
        **settings,
        checkpoint=checkpoint,
        settings={"sampler": "order parameters"},
        progress=progress,
    )
    found = with_outputs(found, data, inputs, test, architecture.variances)
    return dataset(found, "order parameters", architecture, temperature, warn)


def with_outputs(found: dict, data: Posterior, inputs, test, variances) -> dict:
    """The draws, and where there are test inputs mean and variance of the output given each of them."""
    if test is None:
        return found
    overlaps = found["order_parameter"]
    given = outputs(overlaps.reshape(-1, *overlaps.shape[2:]), data, cross_kernels(inputs, test, variances))
    given = (np.asarray(values).reshape(*overlaps.shape[:2], -1) for values in given)
    mean, spread = (by_output(values, inputs) for values in given)
    return {**found, "output": mean, "output_variance": spread}


def _whitened(position, data: tuple[Posterior, Laplace, Factors]):
    density, around, factors = data
    return potential(around.mode + around.root @ position, density, factors)


def _record(position, data: tuple[Posterior, Laplace, Factors]) -> dict:
    _, around, factors = data
    return named_overlaps(order_parameters_at(around.mode + around.root @ position, factors), factors.stages)
