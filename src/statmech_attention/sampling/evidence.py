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
from jax.scipy.special import gammaln, logsumexp
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from scipy.special import ndtri
from scipy.stats import chi2, qmc
from threadpoolctl import threadpool_limits

from statmech_attention import checks
from statmech_attention.compiling import map_factorisations
from statmech_attention.model import AttentionedInputs, TokenInputs
from statmech_attention.sampling._annealing import annealed
from statmech_attention.sampling._bartlett import bartlett, prior_constant, prior_points
from statmech_attention.sampling._chains import checked, whole_widths
from statmech_attention.sampling._density import Laplace, Posterior, posterior_density
from statmech_attention.sampling._modes import density_on_tokens, gaussians_at_modes
from statmech_attention.sampling.diagnostics import SMALLEST_EFFECTIVE_SIZE, MixingWarning
from statmech_attention.theory import Problem, log_evidence, minima
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.kernels.regression import Estimate
from statmech_attention.theory.levels.levels import Levels, excess_entropy, order_one
from statmech_attention.theory.levels.paths import PathLevels, full_rank
from statmech_attention.theory.outputs import CrossKernels, by_output, outputs_at

_REPLICATES = 16
PER_PRIOR_POINT = 4  # points around a mode for each one of the prior
PER_PARTICLE, _FEWEST = 4, 16  # points for each annealed particle of a replicate, and fewest of these
_APART = 3.0  # errors between two estimates, which then differ
_HINT = " If the size then falls, a mode may have been missed: compare with sampling.posterior."
_HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


class Importance(NamedTuple):
    r"""Posterior averages from weighted points.

    Attributes:
        log_evidence: $\ln p(Y)$, $Y$ with independent noise of variance $T$.
        order_parameter: $E[U]$; None on tokens.
        output: $\langle f \rangle$ on the test inputs, or None without them.
        effective_size: $(\sum w)^2 / \sum w^2$; below 400 averages are unreliable. One that falls
            with more points hints at a mode that was missed, and proves none. Of annealed points it
            is the inverse of the squared error of the log evidence.
        modes: how many modes of the density the points surround; all averages are over all of them.
        laplace: $\ln p(Y)$ by Laplace's method, summed over the modes.
        theory: $\ln p(Y)$ of the lowest minimum of (11):
            $-\frac{N}{2} (S^* - S_0) - \frac{P}{2} \ln 2\pi$, $S_0$ without labels.
        annealed: whether the points were annealed from the prior.
    """

    log_evidence: Estimate
    order_parameter: Estimate | None
    output: Estimate | None
    effective_size: float
    modes: int
    laplace: float
    theory: float
    annealed: bool = False


def importance(
    problem: Problem,
    *,
    key: checks.Key,
    points: int = 512,
    test: AttentionedInputs | TokenInputs | ArrayLike | None = None,
    directions: int | None = None,
    settle: float | None = None,
    anneal: bool = True,
    warn: bool = True,
) -> Importance:
    r"""$p(Y) = \int dU\, p(U)\, \mathcal N(Y; 0, K(U) + T I)$ and posterior means, by importance sampling.

    Four points of five come from a multivariate $t$ with the mode's covariance, the fifth from the
    prior, so that no weight exceeds five times the likelihood over the evidence; all in antithetic
    pairs on 16 randomly shifted Sobol sequences, whose spread gives the standard errors. Where the
    density has several modes, each has its own four points, weighted by the density of the mixture.
    The modes are sought as in `minima`; of one that was missed the stated error knows nothing.

    In a network with fewer neurons than partial paths no Gaussian fits the posterior. Where the
    effective size is below 400 there, `points` / 4 particles on each of 16 replicates are annealed
    from the prior as well, which takes some hundred times as long and needs no modes, but can miss
    one. Points miss parts of the posterior and never add any: where the two differ by more than
    three errors, the larger evidence is returned.

    On tokens the points lie in the directions of the lowest minimum, and the rest of every level is at its prior:
    with all directions this is exact. They must be fewer than neurons. There is no order parameter.

    Args:
        problem: a `Problem` with a temperature and, along paths, whole widths of at least 1.
        key: a JAX random key.
        points: pairs of points around each mode on each of the 16 sequences, a power of two, at
            least 4.
        test: test inputs, in the form of the training inputs.
        directions, settle: on tokens, as in `solve`.
        anneal: anneal the points of such a narrow network.
        warn: warn of a small effective size.

    Source: Hesterberg (1995) for the share of the prior, which he calls defensive; Del Moral,
    Doucet and Jasra (2006) for annealing.
    """
    if checks.whole("points", points, PER_PRIOR_POINT) & (int(points) - 1):
        raise ValueError(f"points: wanted a power of two, as in 512, got {points!r}.")
    problem, test = checked(problem, test, key, tokens=True)
    inputs, narrow = problem.attentioned, False
    if not problem.along_paths:
        lowest, density, gaussians = density_on_tokens(problem, directions, settle)
    else:
        known = minima(problem, directions=directions, settle=settle)
        density = posterior_density(problem, bartlett(problem.architecture))
        lowest, gaussians = known[0], gaussians_at_modes(problem, density, known)
        narrow = density.action.levels.shapes != full_rank(problem.architecture).shapes
    factors, outputs = density.action.levels, outputs_at(lowest, test)
    constant = prior_constant(problem.architecture.stage_widths, factors)
    with threadpool_limits(1, user_api="blas"):  # small factorisations, one after another: threads only wait
        averages = _around_modes(key, int(points), problem, density, gaussians, outputs, constant)
        if anneal and narrow and averages.size < SMALLEST_EFFECTIVE_SIZE:
            averages = _better(averages, _from_prior(key, int(points), problem, density.action.energy, outputs))
    if averages.size < SMALLEST_EFFECTIVE_SIZE and warn:
        worth = f"{averages.size:.0f} independent draws, fewer than {SMALLEST_EFFECTIVE_SIZE}"
        hint = "" if averages.annealed else _HINT
        warnings.warn(f"The points are worth {worth}. Raise points.{hint}", MixingWarning, stacklevel=2)
    norm = problem.examples * inputs.chain.outputs * _HALF_LOG_2_PI
    laplace = float(logsumexp(gaussians.logdet - gaussians.potential)) + factors.coordinates * _HALF_LOG_2_PI
    return Importance(
        Estimate(averages.log_evidence - norm, averages.error),
        _mean(averages.sums, "order_parameter") if "order_parameter" in averages.sums else None,
        None if test is None else Estimate(*(by_output(part, inputs) for part in _mean(averages.sums, "output"))),
        averages.size,
        len(gaussians.mode),
        laplace - constant - norm,
        float(log_evidence(lowest)),
        averages.annealed,
    )


class _Averages(NamedTuple):
    """The log evidence and its error, means of sequences, and what the points are worth."""

    log_evidence: float
    error: float
    sums: dict[str, np.ndarray]
    size: float
    annealed: bool


def _around_modes(key, points: int, problem: Problem, density: Posterior, gaussians: Laplace, outputs, constant):
    """Averages over points around all modes and of the prior."""
    factors = density.action.levels
    degrees, widths = float(max(10, 2 * factors.coordinates)), problem.architecture.stage_widths
    proposals = _proposed_points(key, points, degrees, widths, factors)
    weighted = _weighted(proposals, density.action, gaussians, outputs, degrees, constant)
    largest, sums = jax.tree.map(np.asarray, weighted)
    scale, sums = _in_one_unit(largest, sums)
    drawn = 2 * _REPLICATES * (len(gaussians.mode) * points + points // PER_PRIOR_POINT)
    mean, error = sums["weight"].mean(), sums["weight"].std(ddof=1) / math.sqrt(_REPLICATES)
    size = drawn * float(mean**2 / np.mean(sums["square"] * scale))
    return _Averages(np.log(mean) + largest.max() - constant, error / mean, sums, size, False)


def _from_prior(key, points: int, problem: Problem, energy, kernels: CrossKernels | None) -> _Averages:
    """Averages over particles that are annealed from the prior.

    Replicates have evidences nearly as of a lognormal, the mean of which has this error.
    """
    counts = {"replicates": _REPLICATES, "particles": max(points // PER_PARTICLE, _FEWEST)}
    widths, factors = whole_widths(problem.architecture), bartlett(problem.architecture)
    ends = annealed(jax.random.fold_in(key, 1), energy, factors, kernels, widths=widths, **counts)
    logs, means = jax.tree.map(np.asarray, ends)
    _, sums = _in_one_unit(logs, {"weight": np.ones(_REPLICATES), **means})
    variance = logs.var(ddof=1)
    error = math.sqrt(variance / _REPLICATES + variance**2 / (2 * (_REPLICATES - 1)))
    return _Averages(np.log(sums["weight"].mean()) + logs.max(), error, sums, error**-2, True)


def _better(first: _Averages, second: _Averages) -> _Averages:
    """The larger evidence where errors do not explain the difference, else the larger effective size."""
    apart = abs(first.log_evidence - second.log_evidence) > _APART * math.hypot(first.error, second.error)
    return max(first, second, key=lambda averages: averages.log_evidence if apart else averages.size)


def _in_one_unit(largest, sums) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The unit of every sequence's weights in that of the largest, and all sums in it."""
    scale = np.exp(largest - largest.max())
    return scale, {name: (values.T * scale).T for name, values in sums.items()}


def _proposed_points(
    key, points: int, degrees: float, widths, factors: Levels
) -> tuple[Float[Array, "replicates points coordinates"], ...]:
    """Points of a multivariate t around a mode, before shift and rotation, and fewer points of the prior."""
    dimensions = factors.coordinates + 1
    base = qmc.Sobol(dimensions, scramble=False).random_base2(points.bit_length() - 1)
    shifts = np.asarray(jax.random.uniform(key, (_REPLICATES * dimensions,))).reshape(_REPLICATES, 1, dimensions)
    uniforms = np.clip((base[None] + shifts) % 1.0, 1e-15, 1 - 1e-15)
    spread = ndtri(uniforms[..., :-1]) * np.sqrt(degrees / chi2.ppf(uniforms[..., -1:], degrees))
    some = uniforms[:, : points // PER_PRIOR_POINT, :-1]
    prior = prior_points(np.concatenate([some, 1 - some], axis=1), widths, factors)
    return jnp.asarray(np.concatenate([spread, -spread], axis=1)), jnp.asarray(prior)


def _observed(point, action: Action, outputs) -> dict:
    """Quantities that are averaged over points."""
    observed = {"order_parameter": action.overlap(point)} if isinstance(action.levels, PathLevels) else {}
    return observed if outputs is None else observed | {"output": outputs(point, action).mean}


@jax.jit
def _weighted(proposals, action: Action, gaussians: Laplace, outputs, degrees, constant):
    """By sequence the largest weight's logarithm, and means in its units: of weights, squares, weighted values."""
    modes, size = gaussians.mode.shape
    log_t = gammaln((degrees + size) / 2) - gammaln(degrees / 2) - 0.5 * size * jnp.log(degrees * jnp.pi)
    whiten = jnp.linalg.inv(gaussians.root)
    parts = modes * PER_PRIOR_POINT + 1  # points around all modes and one of the prior

    def weigh(point):
        white = jnp.einsum("mij,mj->mi", whiten, point[None] - gaussians.mode)
        near = log_t - gaussians.logdet - 0.5 * (degrees + size) * jnp.log1p(jnp.sum(white**2, axis=1) / degrees)
        chain = 0.5 * excess_entropy(point, action.widths, action.levels) + order_one(point, action.levels)
        mixture = jnp.append(jnp.log(PER_PRIOR_POINT / parts) + near, -jnp.log(parts) - chain - constant)
        proposed = logsumexp(mixture)
        nats = 0.5 * action.energy.held(action.overlap(point))
        return -chain - nats - proposed, _observed(point, action, outputs)

    def sequence(points):
        whites, prior = points
        near = gaussians.mode[:, None] + jnp.einsum("pj,mij->mpi", whites, gaussians.root)
        logs, values = map_factorisations(weigh, jnp.concatenate([near.reshape(-1, size), prior]))
        largest = jnp.max(logs)
        weights = jnp.exp(logs - largest)
        means = {name: jnp.tensordot(weights, value, 1) / len(weights) for name, value in values.items()}
        return largest, {"weight": weights.mean(), "square": jnp.mean(weights**2), **means}

    return jax.lax.map(sequence, proposals)


def _mean(sums, name: str) -> Estimate:
    """The ratio of two means over sequences, and the error of that ratio to first order."""
    weights, values = sums["weight"], sums[name]
    average = values.mean(axis=0) / weights.mean()
    residual = (values - weights.reshape(-1, *(1,) * average.ndim) * average) / weights.mean()
    return Estimate(average, residual.std(axis=0, ddof=1) / math.sqrt(len(weights)))
