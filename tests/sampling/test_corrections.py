"""The first correction in 1/N and the evidence, against the posterior on a grid: no Monte Carlo on the other side."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from sampling import problem
from statmech_attention.sampling._bartlett import bartlett
from statmech_attention.sampling._density import posterior_density
from statmech_attention.sampling._modes import gaussians_at_modes

VARIANCES, WIDTHS = (0.8, 1.5, 1.2), (10, 30, 100, 300, 1000, 3000)
sampling = sma.sampling


def one_path(width):
    """A problem of a single path, and its test inputs."""
    train, labels, test = problem.inputs(1)
    numbers = {"width": width, "temperature": problem.TEMPERATURE, "variance": VARIANCES}
    return sma.Problem(train, labels, layers=(1,), **numbers), test


def grid(width):
    """The posterior on a grid around its mode. Where the grid lies does not matter, only that it is wide enough."""
    found, _ = one_path(width)
    around = gaussians_at_modes(found, posterior_density(found, bartlett(found.architecture)))
    return problem.on_a_grid(width, VARIANCES, around.mode[0], around.root[0])


@pytest.fixture(scope="module")
def errors():
    """By width the errors of the saddle point and of its correction: of U, of the mean and of the variance of f."""
    rows = []
    for width in WIDTHS:
        overlap, mean, variance, _ = grid(width)
        found, test = one_path(width)
        solution = sma.solve(found, tolerance=1e-10)
        plain, better = solution.predict(test), sampling.corrected(solution, test=test)
        rows.append(
            [
                [
                    abs(float(solution.order_parameter[0, 0]) - overlap),
                    abs(float(better.order_parameters[0][0, 0]) - overlap),
                ],
                [np.linalg.norm(plain.mean - mean), np.linalg.norm(better.prediction.mean - mean)],
                [np.linalg.norm(plain.variance - variance), np.linalg.norm(better.prediction.variance - variance)],
            ]
        )
    return np.array(rows)


@pytest.mark.slow
def test_errors_fall_with_the_orders_they_should(errors):
    """At fixed P the saddle point's U has an error of order 1/N^2, f one of order 1/N."""
    slopes = np.diff(np.log(errors[-3:]), axis=0) / np.diff(np.log(WIDTHS[-3:]))[:, None, None]
    np.testing.assert_allclose(slopes[-1], [[-2, -3], [-1, -2], [-1, -2]], atol=0.06)
    assert np.all(errors[:, :, 1] < 0.5 * errors[:, :, 0])


@pytest.mark.parametrize("width", [1, 20])
def test_without_labels_worth_the_name_the_order_parameter_needs_no_correction(width):
    """At a temperature far above the labels the posterior is the prior, whose mean is the Gaussian-process limit."""
    train, labels, _ = problem.inputs(4)
    solution = sma.solve(sma.Problem(train, labels, layers=(2, 2), width=width, temperature=1e9))
    found = sampling.corrected(solution)
    assert found.prediction is None
    for one, other in zip(found.order_parameters, sma.theory.gp_order_parameters(layers=(2, 2)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("width", [3, 30, 1000])
def test_the_evidence_agrees_with_a_grid(width):
    known, test = one_path(width)
    found = sampling.importance(known, test=test, key=jax.random.key(5), points=256)
    overlap, mean, _, evidence = grid(width)
    assert abs(found.log_evidence.mean - evidence) < 4 * found.log_evidence.error < 0.01
    assert abs(found.order_parameter.mean.item() - overlap) < 4 * found.order_parameter.error.item()
    np.testing.assert_array_less(np.abs(found.output.mean - mean), 4 * found.output.error)
    assert found.effective_size > 0.6 * 2 * 16 * (256 + 64)
    # Both approximations miss terms of order 1/N.
    # Its correction leaves 1/N, with a coefficient that falls with the load.
    assert abs(sma.log_evidence(sma.solve(known), corrected=True) - evidence) < 4 / width**2
    assert abs(found.laplace - evidence) < 1 / width
    assert abs(found.theory - evidence) < 2 / width


@pytest.mark.parametrize("width", [2, pytest.param(16, marks=pytest.mark.slow)])
def test_the_evidence_of_narrow_networks_is_the_mean_likelihood_over_networks(width):
    """Fewer columns than paths, and more: a chi of few degrees of freedom has tails that no Gaussian has."""
    train, labels, _ = problem.inputs(4)
    narrow = sma.Problem(train, labels, layers=(2, 2), width=width, temperature=problem.TEMPERATURE)
    found = sampling.importance(narrow, key=jax.random.key(8), points=512, warn=False)

    def likelihood(key):
        weights = sma.sample_weights(key=key, layers=(2, 2), width=width, features=train.shape[-1])
        gram = sma.kernel(train, train, sma.model.weights_order_parameters(weights)[0], layers=(2, 2))
        covariance = gram + problem.TEMPERATURE * jnp.eye(len(labels))
        return jnp.exp(jax.scipy.stats.multivariate_normal.logpdf(labels, jnp.zeros(len(labels)), covariance))

    drawn = np.asarray(
        jax.jit(partial(jax.lax.map, likelihood, batch_size=1000))(jax.random.split(jax.random.key(9), 20_000))
    )
    error = drawn.std(ddof=1) / math.sqrt(drawn.size) / drawn.mean()
    assert abs(found.log_evidence.mean - np.log(drawn.mean())) < 4 * np.hypot(error, found.log_evidence.error)
    assert found.log_evidence.error < 0.02 and error < 0.05
    # The leading order is off by much more than its correction leaves, also with fewer columns than paths.
    left = sma.log_evidence(sma.solve(narrow), corrected=True) - found.log_evidence.mean
    assert 0 < left < 0.35 * (found.theory - found.log_evidence.mean)


def prior_networks(width, draws):
    """Order parameters of networks of two layers of two heads with 2 neurons or more, from NumPy alone."""
    random = np.random.default_rng(0)
    top = random.normal(size=(draws, 1, width))
    overlaps = top @ top.transpose(0, 2, 1) / width
    for _ in range(2):
        factor = np.linalg.cholesky(overlaps)
        heads = [factor @ random.normal(size=(draws, factor.shape[1], width)) for _ in range(2)]
        rows = np.concatenate(heads, axis=1)
        overlaps = rows @ rows.transpose(0, 2, 1) / width
    return overlaps


@pytest.mark.slow
def test_points_of_a_narrow_network_at_low_temperature_are_annealed():
    train, labels, test = (np.asarray(one) for one in problem.inputs(4))
    train, test, temperature, draws = 0.3 * train, 0.3 * test, 0.05, 100_000
    narrow = sma.Problem(train, labels, layers=(2, 2), width=2, temperature=temperature)
    found = sampling.importance(narrow, key=jax.random.key(8), points=64, test=test, warn=False)
    assert found.annealed and found.effective_size < 400

    flat = prior_networks(2, draws).reshape(draws, 16)
    scale = 4 * train.shape[2]
    kernels, across = (
        np.tensordot(flat, np.einsum("epi,fqi->pqef", train, other).reshape(16, len(train), -1) / scale, 1)
        for other in (train, test)
    )
    factor = np.linalg.cholesky(kernels + temperature * np.eye(len(labels)))
    white = np.linalg.solve(factor, np.broadcast_to(labels[:, None], (draws, len(labels), 1)))
    logs = -np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1) - 0.5 * np.sum(white**2, axis=(1, 2))
    weights = np.exp(logs - logs.max())
    exact = np.log(weights.mean()) + logs.max() - 0.5 * len(labels) * np.log(2 * np.pi)
    error = weights.std() / weights.mean() / math.sqrt(draws)
    assert abs(found.log_evidence.mean - exact) < 4 * np.hypot(error, found.log_evidence.error) < 0.8
    outputs = np.einsum("dk,dke->de", white[..., 0], np.linalg.solve(factor, across))
    for values, estimate in ((outputs, found.output), (flat, found.order_parameter)):
        mean = weights @ values / weights.sum()
        off = weights[:, None] * (values - mean) / weights.mean()
        errors = np.hypot(off.std(axis=0) / math.sqrt(draws), estimate.error.ravel())
        assert np.all(np.abs(estimate.mean.ravel() - mean) < 4 * errors)


def test_annealing_is_an_option():
    train, labels, _ = problem.inputs(4)
    narrow = sma.Problem(0.2 * train, labels, layers=(2, 2), width=2, temperature=0.05)
    few = {"key": jax.random.key(8), "points": 4}
    with pytest.warns(sampling.MixingWarning, match="Raise points. If the size then falls, a mode may"):
        assert not sampling.importance(narrow, anneal=False, **few).annealed


def test_errors_of_weighted_means_are_those_of_repeated_estimates():
    known, test = one_path(30)
    keys = jax.random.split(jax.random.key(6), 24)
    found = [sampling.importance(known, test=test, key=key, points=16, warn=False) for key in keys]
    for name in ("log_evidence", "order_parameter", "output"):
        means, errors = (np.array([getattr(getattr(one, name), side) for one in found]) for side in ("mean", "error"))
        assert np.all(np.abs(means.std(axis=0, ddof=1) / errors.mean(axis=0) - 1) < 0.45)


def test_few_effective_points_are_warned_of():
    train, labels, _ = problem.inputs(1)
    found = sma.Problem(train, labels, layers=(1,), width=30, temperature=problem.TEMPERATURE)
    few = {"key": jax.random.key(1), "points": 4}
    with pytest.warns(sampling.MixingWarning, match="fewer than 400. Raise points"):
        sampling.importance(found, **few)
    assert sampling.importance(found, warn=False, **few).effective_size < 400


def test_what_has_no_correction_is_refused():
    train, labels, _ = problem.inputs(1)
    good = sma.Problem(train, labels, layers=(1,), width=30, temperature=0.2)
    with pytest.raises(ValueError, match="wanted a single solution, got a batch"):
        sampling.corrected(sma.solve_sweep(good, widths=[30], temperatures=[0.2]))
    with pytest.raises(ValueError, match="wanted a finite width"):
        sampling.corrected(sma.solve(good.replace(width=np.inf)))
    with pytest.raises(ValueError, match="wanted a single solution, got a batch"):
        sma.log_evidence(sma.solve_sweep(good, widths=[30], temperatures=[0.2]), corrected=True)
    with pytest.raises(ValueError, match="points: wanted a power of two"):
        sampling.importance(good, points=100, key=jax.random.key(0))
