r"""The posterior of the order parameters at any finite width, exactly: the Wishart chain times $e^{-P E(U)/2}$.

Hamiltonian Monte Carlo runs on a few coordinates, whatever the width: 14 for two layers of two heads. They are the good
coordinates of the action, whitened by the Hessian at the mode, so that a few steps make an almost independent draw.
"""

import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.typing import ArrayLike

from statmech_attention.checks import Key
from statmech_attention.model.paths import AttentionedInputs
from statmech_attention.sampling._arguments import Chains, checked, run_options
from statmech_attention.sampling._bartlett import bartlett
from statmech_attention.sampling._chains import run
from statmech_attention.sampling._density import Laplace, Posterior, laplace, posterior_density, potential
from statmech_attention.sampling._hamiltonian import hamiltonian
from statmech_attention.sampling._outputs import by_output, cross_kernels, outputs
from statmech_attention.sampling.diagnostics import dataset, named_overlaps
from statmech_attention.theory.coordinates import Factors
from statmech_attention.theory.coordinates import order_parameters as order_parameters_at
from statmech_attention.theory.problem import Problem


def posterior(
    problem: Problem,
    *,
    key: Key,
    test: AttentionedInputs | ArrayLike | None = None,
    chains: Chains = Chains(),  # noqa: B008
) -> xr.Dataset:
    r"""Draws from $p(U^{(1)}, .., U^{(L+1)} | D) \propto \prod_l \mathcal W_{d_l}(U^{(l)}; N_l, \Sigma_l / N_l)\, e^{-P E(U) / 2}$.

    The law of the order parameters (13) under the posterior (8) of all weights, at any width; the saddle point (11)
    is its limit. Given $U$ the output is Gaussian with mean (9) and variance (30). Networks with fewer neurons than paths
    at low temperature need `tempered_posterior`.

    Args:
        problem: a `Problem` with a temperature and whole widths of at least 1.
        key: a JAX random key.
        test: test inputs, in the form of the training inputs; their outputs given the draws are then part of the result.
        chains: how many chains and draws, and how they run: `Chains`.

    Returns:
        Dataset with dimensions `chain` and `draw` first:
        `order_parameter`, $U$, `(path, other_path)`; `order_parameter_2` .. those of the layers above, the readout's a
        scalar for one output; with `test`, `output`, (9), and `output_variance`, (30), `(example,)` or `(example, unit)`;
        `potential`, $-\ln p$ up to a constant; `steps`, leapfrog steps per iteration; `acceptance`; `diverging`. Without
        these dimensions `order_parameter_r_hat`, `order_parameter_effective_size`, and the same of `output`. The attribute
        `warning` says what is wrong with the chains; it is empty where nothing is. For ArviZ see `inference_data`.

    Raises:
        ValueError: wrong shapes, NaN or infinity, float32, $T \le 0$, a width below 1 or not whole, too few draws or
            chains, the checkpoint of another run.

    Source: the Wishart chain and this way to sample it are ours; the limit is Tiberi et al. (2024), equation (11).
    """
    problem, test = checked(problem, test, key)
    architecture = problem.architecture
    factors = bartlett(architecture)
    options = run_options(chains, warmup=300)

    data = posterior_density(problem)
    around = laplace(data, jnp.zeros(factors.coordinates), factors)
    found = run(
        hamiltonian(_whitened, _record),
        ((data, around, factors), options["warmup"]),
        np.zeros((chains.count, factors.coordinates)),
        key,
        **options,
        settings={"sampler": "order parameters"},
    )
    found = with_outputs(found, data, problem, test)
    return dataset(found, "order parameters", architecture, problem.temperature, chains.warn)


def with_outputs(found: dict, data: Posterior, problem: Problem, test) -> dict:
    """The draws, and where there are test inputs mean and variance of the output given each of them."""
    if test is None:
        return found
    overlaps = found["order_parameter"]
    given = outputs(
        overlaps.reshape(-1, *overlaps.shape[2:]), data, cross_kernels(problem.attentioned, test, problem.variance)
    )
    given = (np.asarray(values).reshape(*overlaps.shape[:2], -1) for values in given)
    mean, spread = (by_output(values, problem.attentioned) for values in given)
    return {**found, "output": mean, "output_variance": spread}


def _whitened(position, data: tuple[Posterior, Laplace, Factors]):
    density, around, factors = data
    return potential(around.mode + around.root @ position, density, factors)


def _record(position, data: tuple[Posterior, Laplace, Factors]) -> dict:
    _, around, factors = data
    return named_overlaps(order_parameters_at(around.mode + around.root @ position, factors), factors.stages)
