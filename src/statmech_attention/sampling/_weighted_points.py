"""Weighted points of the posterior: where they lie, what they weigh, and means with their errors."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float
from scipy.special import ndtri
from scipy.stats import chi2, qmc

from statmech_attention.model.accuracy import Estimate
from statmech_attention.sampling._bartlett import chain_order_one, chain_potential, prior_points
from statmech_attention.sampling._density import Laplace, Posterior, label_energy
from statmech_attention.sampling._outputs import CrossKernels, output
from statmech_attention.theory.coordinates import Factors, order_parameter

_REPLICATES = 16
PER_PRIOR_POINT = 4  # points around the mode for each one of the prior


def proposals(
    key, points: int, degrees: float, widths, factors: Factors
) -> tuple[Float[Array, "replicates points coordinates"], ...]:
    """Points around the mode, still to be shifted and turned, and points of the prior, fewer by `PER_PRIOR_POINT`."""
    uniforms = _uniforms(key, factors.coordinates + 1, points)
    some = uniforms[:, : points // PER_PRIOR_POINT, :-1]
    prior = prior_points(np.concatenate([some, 1 - some], axis=1), widths, factors)
    return _around_mode(uniforms, degrees), jnp.asarray(prior)


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


@jax.jit
def weighted(
    proposals, data: Posterior, around: Laplace, kernels: CrossKernels | None, factors: Factors, degrees, constant
):
    """Sums over the points of every sequence: of the weights, their squares, and weights times what is averaged."""
    size = factors.coordinates
    log_t = (
        gammaln((degrees + size) / 2) - gammaln(degrees / 2) - 0.5 * size * jnp.log(degrees * jnp.pi) - around.logdet
    )
    whiten = jnp.linalg.inv(around.root)
    share = jnp.asarray(PER_PRIOR_POINT / (PER_PRIOR_POINT + 1))

    def one(point):
        white = whiten @ (point - around.mode)
        near = log_t - 0.5 * (degrees + size) * jnp.log1p(white @ white / degrees)
        chain = chain_potential(point, data.widths, factors) + chain_order_one(point, factors)
        proposed = jnp.logaddexp(jnp.log(share) + near, jnp.log1p(-share) - chain - constant)
        overlap = order_parameter(point, factors)
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


def log_evidence(sums, constant: float) -> Estimate:
    """The logarithm of the weights' mean over sequences, less a constant."""
    largest = sums["largest"] - constant
    scaled = sums["weight"] * np.exp(largest - largest.max())
    error = scaled.std(ddof=1) / math.sqrt(len(scaled)) / scaled.mean()
    return Estimate(np.asarray(math.log(scaled.mean()) + largest.max()), np.asarray(error))


def mean(sums, name: str) -> Estimate:
    """The ratio of two means over sequences, and the error of that ratio to first order."""
    found = sums[name]
    along = (-1, *(1,) * (found.ndim - 1))
    scale = np.exp(sums["largest"] - sums["largest"].max())
    weights, found = sums["weight"] * scale, found * scale.reshape(along)
    average = found.mean(axis=0) / weights.mean()
    residual = (found - weights.reshape(along) * average) / weights.mean()
    return Estimate(average, residual.std(axis=0, ddof=1) / math.sqrt(len(weights)))


def efficiency(sums) -> float:
    """Independent draws per point."""
    scale = np.exp(sums["largest"] - sums["largest"].max())
    return float(np.mean(sums["weight"] * scale) ** 2 / np.mean(sums["square"] * scale**2))
