"""Kernel weights against a search without gradients, and against the action on diagonal order parameters."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

import statmech_attention as sma
from attention_book.encoder.kernel_weights import kernel_weights, own_evidence, weights_evidence


def problem(layers=(3,), examples=12, features=4, seed=0, **numbers):
    """Labels that the first path tells, with noise."""
    rng = np.random.default_rng(seed)
    paths = int(np.prod([one for one in layers if isinstance(one, int)]))
    values = rng.normal(size=(examples, paths, features))
    labels = np.sign(values[:, 0, 0] + 0.3 * rng.normal(size=examples))
    return sma.Problem(values, labels, layers=layers, **numbers)


def log_density(known, weights, heat):
    values, chain = np.asarray(known.attentioned.values), known.attentioned.chain
    gram = np.einsum("p,epi,fpi->ef", weights, values, values) / (values.shape[2] * chain.divisor)
    return scipy.stats.multivariate_normal.logpdf(known.labels, cov=gram + heat * np.eye(len(gram)))


@pytest.mark.parametrize("layers", [(3,), (2, 2)])
def test_kernel_weights_are_the_best_of_a_search_without_gradients(layers):
    known = problem(layers)
    found = kernel_weights(known)
    paths = len(found.weights)
    assert found.log_evidence == pytest.approx(log_density(known, found.weights, found.temperature))

    def lacking(logs):
        return -log_density(known, np.exp(logs[:-1]), np.exp(logs[-1]))

    bounds = [(-12, 6)] * paths + [(np.log(1e-4), np.log(100))]
    best = scipy.optimize.differential_evolution(lacking, bounds, rng=0, tol=1e-8, maxiter=3000)
    assert found.log_evidence == pytest.approx(-best.fun, abs=1e-3)
    kernels = [one * weight for one, weight in ((found.weights, 1.0), (np.exp(best.x[:-1]), 1.0))]
    np.testing.assert_allclose(*kernels, atol=0.02 * float(np.max(found.weights)))


def test_slopes_of_the_evidence_in_weights_are_finite_differences():
    known, step = problem(), 1e-6
    weights, heat = np.array([0.5, 1.5, 0.2]), 0.3
    _, slopes, noise = weights_evidence(known)(weights, heat)
    for place in range(3):
        change = step * np.eye(3)[place]
        apart = log_density(known, weights + change, heat) - log_density(known, weights - change, heat)
        assert slopes[place] == pytest.approx(apart / (2 * step), rel=1e-5)
    apart = log_density(known, weights, heat * np.exp(step)) - log_density(known, weights, heat * np.exp(-step))
    assert noise == pytest.approx(apart / (2 * step), rel=1e-5)


def test_kernel_weights_keep_a_given_temperature():
    assert kernel_weights(problem(temperature=0.7)).temperature == 0.7


def test_weights_followed_from_the_limit_have_more_evidence_than_one_search_from_it():
    known = problem((30,), examples=60, features=4, seed=1)
    evidence = weights_evidence(known)

    def lacking(logs):
        value, slopes, noise = evidence(np.exp(logs[:-1]), np.exp(logs[-1]))
        return -value, -np.append(np.exp(logs[:-1]) * slopes, noise)

    bounds = [(-12, 12)] * 30 + [(np.log(1e-4), np.log(100))]
    search = scipy.optimize.minimize(lacking, [*np.zeros(30), np.log(0.1)], jac=True, method="L-BFGS-B", bounds=bounds)
    assert kernel_weights(known).log_evidence > 2 - search.fun


def test_rounding_does_not_choose_the_kernel_weights():
    known = problem((30,), examples=60, features=4, seed=1)
    values = np.asarray(known.attentioned.values)
    noise = 1e-12 * np.random.default_rng(1).normal(size=values.shape)
    moved = sma.Problem(values * (1 + noise), known.labels, layers=known.layers)
    one, other = kernel_weights(known), kernel_weights(moved)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-3 * float(np.max(one.weights)))


def test_own_evidence_is_that_of_the_limit_with_one_head_alone_in_its_layer():
    known = problem((3, 2))
    alone = [[(head,), (0, 1)] for head in range(3)] + [[(0, 1, 2), (head,)] for head in range(2)]
    for heads, value in zip(alone, own_evidence(known.attentioned, known.labels, (0.1, 1.0)), strict=True):
        fewer = sma.Problem(known.attentioned.keep_heads(heads), known.labels)
        limits = sma.solve_sweep(fewer, widths=[np.inf], temperatures=[0.1, 1.0])
        assert value - 6 * np.log(2 * np.pi) == pytest.approx(float(np.max(sma.log_evidence(limits))))
