"""The evidence $p(Y)$: of the theory, by Laplace's method, and exactly by importance sampling.

At large width, where the posterior is close to Gaussian, the same weighted points give more precise
posterior means than a Markov chain.
"""

import math
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.special import ndtri
from scipy.stats import chi2, qmc

from statmech_attention import checks
from statmech_attention.checks import Key
from statmech_attention.compiling import map_factorisations
from statmech_attention.model import AttentionedInputs, Estimate
from statmech_attention.sampling._arguments import checked
from statmech_attention.sampling._bartlett import bartlett, chain_potential, prior_constant, prior_points
from statmech_attention.sampling._density import Laplace, Posterior, label_energy, laplace, posterior_density
from statmech_attention.sampling._outputs import CrossKernels, by_output, cross_kernels, output
from statmech_attention.sampling.diagnostics import SMALLEST_EFFECTIVE_SIZE, MixingWarning
from statmech_attention.theory import Problem, log_evidence, solve
from statmech_attention.theory.coordinates import Factors, order_one, order_parameter

_REPLICATES = 16
PER_PRIOR_POINT = 4  # points around the mode for each one of the prior


class Importance(NamedTuple):
    r"""Posterior averages from weighted points.

    Attributes:
        log_evidence: $\ln p(Y)$, $Y$ with independent noise of variance $T$.
        order_parameter: $E[U]$.
        output: $\langle f \rangle$ on the test inputs, or None without them.
        effective_size: $(\sum w)^2 / \sum w^2$; below 400 averages are unreliable.
        laplace: $\ln p(Y)$ by Laplace's method at the mode.
        theory: $\ln p(Y)$ of the saddle point (11):
            $-\frac{N}{2} (S^* - S_0) - \frac{P}{2} \ln 2\pi$, $S_0$ without labels.
    """

    log_evidence: Estimate
    order_parameter: Estimate
    output: Estimate | None
    effective_size: float
    laplace: float
    theory: float


def importance(
    problem: Problem,
    *,
    key: Key,
    points: int = 512,
    test: AttentionedInputs | ArrayLike | None = None,
    warn: bool = True,
) -> Importance:
    r"""$p(Y) = \int dU\, p(U)\, \mathcal N(Y; 0, K(U) + T I)$ and posterior means, by importance sampling.

    Four points of five come from a multivariate $t$ with the mode's covariance, the fifth from the
    prior, so that no weight exceeds five times the likelihood over the evidence; all in antithetic
    pairs on 16 randomly shifted Sobol sequences, whose spread gives the standard errors.

    Args:
        problem: a `Problem` with a temperature and whole widths of at least 1.
        key: a JAX random key.
        points: pairs of points around the mode on each of the 16 sequences, a power of two, at
            least 4.
        test: test inputs, in the form of the training inputs.
        warn: warn of a small effective size.

    Source: Hesterberg (1995) for the share of the prior, which he calls defensive.
    """
    if checks.whole("points", points, PER_PRIOR_POINT) & (int(points) - 1):
        raise ValueError(f"points: wanted a power of two, as in 512, got {points!r}.")
    problem, test = checked(problem, test, key)
    inputs, factors = problem.attentioned, bartlett(problem.architecture)
    kernels = None if test is None else cross_kernels(inputs, test, problem.variance)
    data = posterior_density(problem)
    around = laplace(data, jnp.zeros(factors.coordinates), factors)
    degrees, widths = float(max(10, 2 * factors.coordinates)), problem.architecture.stage_widths
    constant = prior_constant(widths, factors)
    proposals = _proposed_points(key, int(points), degrees, widths, factors)
    sums = jax.tree.map(np.asarray, _weighted(proposals, data, around, kernels, factors, degrees, constant))
    size = _efficiency(sums) * sum(part.shape[0] * part.shape[1] for part in proposals)
    if size < SMALLEST_EFFECTIVE_SIZE and warn:
        worth = f"{size:.0f} independent draws, fewer than {SMALLEST_EFFECTIVE_SIZE}"
        text = f"The points are worth {worth}. Raise points, or take means from sampling.posterior."
        warnings.warn(text, MixingWarning, stacklevel=2)
    constant += 0.5 * problem.examples * inputs.chain.outputs * math.log(2 * math.pi)
    return Importance(
        _log_evidence(sums, constant),
        _mean(sums, "order_parameter"),
        None if kernels is None else Estimate(*(by_output(one, inputs) for one in _mean(sums, "output"))),
        size,
        float(-around.potential - constant + around.logdet + 0.5 * factors.coordinates * math.log(2 * math.pi)),
        float(log_evidence(solve(problem))),
    )


def _proposed_points(
    key, points: int, degrees: float, widths, factors: Factors
) -> tuple[Float[Array, "replicates points coordinates"], ...]:
    """Points of a multivariate t around the mode, before shift and rotation, and fewer points of the prior."""
    dimensions = factors.coordinates + 1
    base = qmc.Sobol(dimensions, scramble=False).random_base2(points.bit_length() - 1)
    shifts = np.asarray(jax.random.uniform(key, (_REPLICATES, 1, dimensions)))
    uniforms = np.clip((base[None] + shifts) % 1.0, 1e-15, 1 - 1e-15)
    around = ndtri(uniforms[..., :-1]) * np.sqrt(degrees / chi2.ppf(uniforms[..., -1:], degrees))
    some = uniforms[:, : points // PER_PRIOR_POINT, :-1]
    prior = prior_points(np.concatenate([some, 1 - some], axis=1), widths, factors)
    return jnp.asarray(np.concatenate([around, -around], axis=1)), jnp.asarray(prior)


@jax.jit
def _weighted(
    proposals, data: Posterior, around: Laplace, kernels: CrossKernels | None, factors: Factors, degrees, constant
):
    """Sums over the points of every sequence: of the weights, their squares, and the weighted averages."""
    size = factors.coordinates
    log_t = (
        gammaln((degrees + size) / 2) - gammaln(degrees / 2) - 0.5 * size * jnp.log(degrees * jnp.pi) - around.logdet
    )
    whiten = jnp.linalg.inv(around.root)
    share = jnp.asarray(PER_PRIOR_POINT / (PER_PRIOR_POINT + 1))

    def one(point):
        white = whiten @ (point - around.mode)
        near = log_t - 0.5 * (degrees + size) * jnp.log1p(white @ white / degrees)
        chain = chain_potential(point, data.widths, factors) + order_one(point, factors)
        proposed = jnp.logaddexp(jnp.log(share) + near, jnp.log1p(-share) - chain - constant)
        overlap = order_parameter(point, factors)
        found = {"order_parameter": overlap}
        if kernels is not None:
            found["output"] = output(overlap, data, kernels).mean
        return -chain - 0.5 * label_energy(overlap, data) - proposed, found

    def sequence(points):
        whites, chains = points
        points = jnp.concatenate([around.mode[None] + whites @ around.root.T, chains])
        logs, values = map_factorisations(one, points)
        largest = jnp.max(logs)
        weights = jnp.exp(logs - largest)
        means = {name: jnp.tensordot(weights, value, 1) / weights.shape[0] for name, value in values.items()}
        return {"weight": weights.mean(), "square": jnp.mean(weights**2), "largest": largest, **means}

    return jax.lax.map(sequence, proposals)


def _log_evidence(sums, constant: float) -> Estimate:
    """The logarithm of the weights' mean over sequences, minus a constant."""
    largest = sums["largest"] - constant
    scaled = sums["weight"] * np.exp(largest - largest.max())
    error = scaled.std(ddof=1) / math.sqrt(len(scaled)) / scaled.mean()
    return Estimate(np.asarray(math.log(scaled.mean()) + largest.max()), np.asarray(error))


def _mean(sums, name: str) -> Estimate:
    """The ratio of two means over sequences, and the error of that ratio to first order."""
    found = sums[name]
    along = (-1, *(1,) * (found.ndim - 1))
    scale = np.exp(sums["largest"] - sums["largest"].max())
    weights, found = sums["weight"] * scale, found * scale.reshape(along)
    average = found.mean(axis=0) / weights.mean()
    residual = (found - weights.reshape(along) * average) / weights.mean()
    return Estimate(average, residual.std(axis=0, ddof=1) / math.sqrt(len(weights)))


def _efficiency(sums) -> float:
    """Independent draws per point."""
    scale = np.exp(sums["largest"] - sums["largest"].max())
    return float(np.mean(sums["weight"] * scale) ** 2 / np.mean(sums["square"] * scale**2))
