r"""The evidence $p(Y)$: of the theory, by Laplace's method, and exactly by importance sampling.

The same weighted points give posterior means more precisely than a Markov chain where the posterior is close to
Gaussian, that is at large width.
"""

import math
import warnings
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jax.scipy.special import gammaln
from jaxtyping import Array, Float
from scipy.special import ndtri
from scipy.stats import chi2, qmc

from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.sampling import _bartlett
from statmech_attention.sampling._arguments import Problem, problem
from statmech_attention.sampling._density import Posterior, label_energy, posterior_density
from statmech_attention.sampling._laplace import Laplace, laplace
from statmech_attention.sampling._outputs import CrossKernels, by_output, cross_kernels, output
from statmech_attention.sampling.diagnostics import SMALLEST_EFFECTIVE_SIZE, Estimate, MixingWarning
from statmech_attention.theory import coordinates
from statmech_attention.theory.action import smallest_entropy
from statmech_attention.theory.coordinates import Factors
from statmech_attention.theory.saddle_point import solve

_REPLICATES = 16
_PER_PRIOR_POINT = 4  # points around the mode for each one of the prior


class Importance(NamedTuple):
    r"""Posterior averages from weighted points.

    Attributes:
        log_evidence: $\ln p(Y)$, $Y$ with independent noise of variance $T$.
        order_parameter: $E[U]$.
        output: $\langle f \rangle$ on the test inputs, or None without them.
        effective_size: $(\sum w)^2 / \sum w^2$, out of all points; the averages are good where it is in the thousands,
            and below 400 not to be trusted.
        laplace: $\ln p(Y)$ by Laplace's method at the mode.
        theory: $\ln p(Y)$ of the saddle point (11): $-\frac{N}{2} (S^* - S_0) - \frac{P}{2} \ln 2\pi$, $S_0$ without labels.
    """

    log_evidence: Estimate
    order_parameter: Estimate
    output: Estimate | None
    effective_size: float
    laplace: float
    theory: float


def importance(
    attentioned,
    labels,
    *,
    width,
    temperature,
    key: Key,
    variance=1.0,
    heads=None,
    points=512,
    test=None,
    quiet: bool = False,
) -> Importance:
    r"""$p(Y) = \int dU\, p(U)\, \mathcal N(Y; 0, K(U) + T I)$ and posterior means, by importance sampling.

    Four points of five are drawn from a multivariate $t$ of the mode's covariance, the fifth from the prior, so that no
    weight is larger than five times the likelihood over the evidence, whatever the tails; all in antithetic pairs on 16
    randomly shifted Sobol sequences, whose spread gives the standard errors.

    Args:
        attentioned: training inputs, `AttentionedInputs`, or an array `(examples, paths, features)` with `heads`.
        labels: $Y$, `(examples,)`, or `(examples, outputs)`.
        width: $N$ or $(N_1, .., N_{L+1})$, whole numbers of at least 1.
        temperature: $T > 0$.
        key: a JAX random key.
        variance: $\sigma^2$ or $(\sigma_0^2, \sigma_1^2, .., \sigma_L^2, \sigma_a^2)$.
        heads: only for plain arrays, $(H_1, .., H_L)$, or layers of other kinds among them.
        points: pairs of points around the mode on each of the 16 sequences, a power of two, at least 4.
        test: test inputs, in the form of `attentioned`.
        quiet: do not warn of a small effective size.

    Returns:
        `Importance`.

    Raises:
        ValueError: as for `posterior`, or a number of points that is not a power of two.

    Source: Hesterberg (1995) for the share of the prior, which he calls defensive.
    """
    task = _task(attentioned, labels, test, width, temperature, variance, heads, points)
    return _averaged(task, key, quiet)


def evidence_by_temperature(
    attentioned, labels, *, width, temperatures, key: Key, variance=1.0, heads=None, points=512, quiet: bool = False
) -> xr.Dataset:
    r"""$\ln p(Y)$ over temperatures, to choose $T$ by: the labels' own noise is what makes it fall at both ends.

    Args:
        attentioned: as for `importance`.
        labels: as for `importance`.
        width: as for `importance`.
        temperatures: temperatures in any order.
        key: a JAX random key.
        variance: as for `importance`.
        heads: as for `importance`.
        points: as for `importance`.
        quiet: as for `importance`; then look at `effective_size`.

    Returns:
        Dataset over `temperature`: `log_evidence` and its `error`, `effective_size`, `laplace`, `theory`. The best one:
        `found.temperature[int(found.log_evidence.values.argmax())]`.

    Raises:
        ValueError: as for `importance`, or no temperatures.
    """
    if not hasattr(temperatures, "__len__") or not len(temperatures):
        raise ValueError(f"temperatures: wanted a list of at least one temperature, got {temperatures!r}.")
    temperatures = [checks.positive("temperatures", temperature) for temperature in temperatures]
    # Kernels of the pairs are the same at all temperatures.
    task = _task(attentioned, labels, None, width, temperatures[0], variance, heads, points)
    keys = jax.random.split(key, len(temperatures))
    found = [_averaged(task.at(heat), one, quiet) for heat, one in zip(temperatures, keys, strict=True)]
    columns = {
        "log_evidence": [float(one.log_evidence.mean) for one in found],
        "error": [float(one.log_evidence.error) for one in found],
        "effective_size": [one.effective_size for one in found],
        "laplace": [one.laplace for one in found],
        "theory": [one.theory for one in found],
    }
    variables = {name: ("temperature", values) for name, values in columns.items()}
    return xr.Dataset(variables, {"temperature": temperatures})


class _Task(NamedTuple):
    """What is to be averaged: the posterior with its pairs' kernels, and how many points."""

    problem: Problem
    shape: Factors
    data: Posterior
    kernels: CrossKernels | None
    points: int

    def at(self, temperature: float) -> "_Task":
        """The same at another temperature."""
        data = self.data._replace(temperature=jnp.asarray(temperature, float))
        return self._replace(problem=self.problem._replace(temperature=temperature), data=data)


def _task(attentioned, labels, test, width, temperature, variance, heads, points) -> _Task:
    if not checks.is_whole(points, _PER_PRIOR_POINT) or int(points) & (int(points) - 1):
        raise ValueError(f"points: wanted a power of two of at least {_PER_PRIOR_POINT}, as in 512, got {points!r}.")
    options = {"width": width, "temperature": temperature, "variance": variance, "heads": heads}
    checked = problem(attentioned, labels, test, **options)
    inputs, labels, temperature, layout, test = checked
    shape = _bartlett.bartlett(layout)
    kernels = None if test is None else cross_kernels(inputs, test, layout.variances)
    data = posterior_density(inputs, labels, temperature, layout.widths, layout.variances)
    return _Task(checked, shape, data, kernels, int(points))


def _averaged(task: _Task, key, quiet: bool) -> Importance:
    """Posterior averages from weighted points."""
    (inputs, labels, temperature, layout, _), shape, data, kernels, points = task
    found = solve(inputs, labels, width=layout.widths, temperature=temperature, variance=layout.variances)
    around = laplace(data, jnp.zeros(shape.coordinates), shape)

    degrees = float(max(10, 2 * shape.coordinates))
    uniforms = _uniforms(key, shape.coordinates + 1, points)
    constant = _bartlett.prior_constant(layout.widths, shape)
    proposals = (_around_mode(uniforms, degrees), _of_prior(uniforms, layout.widths, shape))
    sums = jax.tree.map(np.asarray, _weighted(proposals, data, around, kernels, shape, degrees, constant))
    constant += 0.5 * labels.size * math.log(2 * math.pi)
    count = sum(part.shape[0] * part.shape[1] for part in proposals)
    size = count * _efficiency(sums)
    if size < SMALLEST_EFFECTIVE_SIZE and not quiet:
        warnings.warn(
            f"The weights of {count} points are worth {size:.0f} independent draws at N = {layout.widest:g}, "
            f"T = {temperature:g}; wanted {SMALLEST_EFFECTIVE_SIZE}. Raise points, or take means from sampling.posterior.",
            MixingWarning,
            stacklevel=3,
        )
    entropy = smallest_entropy(layout)
    return Importance(
        _log_mean(sums["weight"], sums["largest"] - constant),
        _ratio(sums["order_parameter"], sums["weight"], sums["largest"]),
        None
        if kernels is None
        else Estimate(*(by_output(one, inputs) for one in _ratio(sums["output"], sums["weight"], sums["largest"]))),
        size,
        float(-around.potential - constant + around.logdet + 0.5 * shape.coordinates * math.log(2 * math.pi)),
        float(-0.5 * layout.widest * (found.action - entropy) - 0.5 * labels.size * math.log(2 * math.pi)),
    )


def _uniforms(key, dimensions: int, points: int) -> np.ndarray:
    """Randomly shifted Sobol sequences in the unit cube, `(replicates, points, dimensions)`."""
    base = qmc.Sobol(dimensions, scramble=False).random_base2(points.bit_length() - 1)
    shifts = np.asarray(jax.random.uniform(key, (_REPLICATES, 1, dimensions)))
    return np.clip((base[None] + shifts) % 1.0, 1e-15, 1 - 1e-15)


def _around_mode(uniforms, degrees: float) -> Float[Array, "replicates points coordinates"]:
    """Antithetic points of a standard multivariate t."""
    radius = np.sqrt(degrees / chi2.ppf(uniforms[..., -1:], degrees))
    points = ndtri(uniforms[..., :-1]) * radius
    return jnp.asarray(np.concatenate([points, -points], axis=1))


def _of_prior(uniforms, widths, shape: Factors) -> Float[Array, "replicates points coordinates"]:
    """Antithetic points of the Wishart chain, fewer by `_PER_PRIOR_POINT`."""
    uniforms = uniforms[:, : uniforms.shape[1] // _PER_PRIOR_POINT, :-1]
    uniforms = np.concatenate([uniforms, 1 - uniforms], axis=1)
    pieces, start = [], 0
    for width, place, (rank, below) in zip(widths, shape.places, shape.counts, strict=True):
        diagonal, lower = np.split(uniforms[..., start : start + rank + below], [rank], axis=-1)
        pieces += [0.5 * np.log(chi2.ppf(diagonal, width - place) / width)]
        pieces += [ndtri(lower) / math.sqrt(width)]
        start += rank + below
    return jnp.asarray(np.concatenate(pieces, axis=-1))


@partial(jax.jit, static_argnames="shape")
def _weighted(
    proposals, data: Posterior, around: Laplace, kernels: CrossKernels | None, shape: Factors, degrees, constant
):
    """Sums over the points of every sequence: of the weights, their squares, and weights times what is averaged."""
    size = shape.coordinates
    log_t = (
        gammaln((degrees + size) / 2) - gammaln(degrees / 2) - 0.5 * size * jnp.log(degrees * jnp.pi) - around.logdet
    )
    whiten = jnp.linalg.inv(around.root)
    share = jnp.asarray(_PER_PRIOR_POINT / (_PER_PRIOR_POINT + 1))

    def one(point):
        white = whiten @ (point - around.mode)
        near = log_t - 0.5 * (degrees + size) * jnp.log1p(white @ white / degrees)
        chain = _bartlett.chain_potential(point, data.widths, shape) + _bartlett.chain_order_one(point, shape)
        proposed = jnp.logaddexp(jnp.log(share) + near, jnp.log1p(-share) - chain - constant)
        overlap = coordinates.order_parameter(point, shape)
        found = {"order_parameter": overlap}
        if kernels is not None:
            found["output"] = output(overlap, data, kernels).mean
        return -chain - 0.5 * label_energy(overlap, data) - proposed, found

    def sequence(points):
        whites, chains = points
        points = jnp.concatenate([around.mode[None] + whites @ around.root.T, chains])
        # One by one: batches of Cholesky factors inside a loop can wait for each other for ever on two threads.
        logs, values = jax.lax.map(one, points)
        largest = jnp.max(logs)
        weights = jnp.exp(logs - largest)
        means = {name: jnp.tensordot(weights, value, 1) / weights.shape[0] for name, value in values.items()}
        return {"weight": weights.mean(), "square": jnp.mean(weights**2), "largest": largest, **means}

    return jax.lax.map(sequence, proposals)


def _log_mean(weights, largest) -> Estimate:
    scaled = weights * np.exp(largest - largest.max())
    error = scaled.std(ddof=1) / math.sqrt(len(scaled)) / scaled.mean()
    return Estimate(np.asarray(math.log(scaled.mean()) + largest.max()), np.asarray(error))


def _ratio(sums, weights, largest) -> Estimate:
    """The ratio of two means over sequences, and the error of that ratio to first order."""
    scale = np.exp(largest - largest.max())
    weights, sums = weights * scale, sums * scale.reshape(-1, *(1,) * (sums.ndim - 1))
    mean = sums.mean(axis=0) / weights.mean()
    residual = (sums - weights.reshape(-1, *(1,) * (sums.ndim - 1)) * mean) / weights.mean()
    return Estimate(mean, residual.std(axis=0, ddof=1) / math.sqrt(len(weights)))


def _efficiency(sums) -> float:
    """How many independent draws a point is worth."""
    scale = np.exp(sums["largest"] - sums["largest"].max())
    return float(np.mean(sums["weight"] * scale) ** 2 / np.mean(sums["square"] * scale**2))
