"""A network over the temperature against direct solves, SciPy, and choices by explicit loops."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import statmech_attention as sma
from attention_book.measures import training_kernel
from attention_book.temperatures import LIMIT, RESCALED, THEORY, Comparison, compare, difference


@pytest.fixture(scope="module")
def found():
    task = sma.tasks.HiddenMarkov(length=4, token_size=4, perpendicular_noise=2.0)
    trials = [task.trial(key, 12, 40) for key in jax.random.split(jax.random.key(3), 3)]
    return trials, compare(trials, width=5, temperatures=[1.0, 0.1], others=lambda one: {"prior": jnp.eye(4)})


def test_curves_are_those_of_direct_solves(found):
    (trial, *_), one = found
    assert np.isclose(np.diff(np.log10(one.temperatures)), 0.5).sum() == len(one.temperatures) - 2
    for place, heat in enumerate(one.temperatures):
        solution = sma.solve(sma.Problem(trial.train, trial.labels, width=5, temperature=heat))
        limit = sma.solve(solution.problem.replace(width=np.inf))
        growth = jnp.trace(training_kernel(solution)) / jnp.trace(training_kernel(limit))
        for curve, order_parameter in {
            THEORY: solution.order_parameter,
            LIMIT: limit.order_parameter,
            RESCALED: growth * limit.order_parameter,
            "prior": jnp.eye(4),
        }.items():
            mean = sma.kernel_regression(solution.problem, order_parameter).predict(trial.test).mean
            halves = [float(sma.accuracy(mean[part], trial.test_labels[part])) for part in (slice(20), slice(20, 40))]
            np.testing.assert_allclose(one.accuracy[curve][0, :, place], halves)
        assert one.evidence[THEORY][0, place] == pytest.approx(float(sma.log_evidence(solution)), rel=1e-6)
        for curve, scale in ((LIMIT, 1.0), (RESCALED, float(growth))):
            covariance = scale * training_kernel(limit) + heat * np.eye(12)
            expected = scipy.stats.multivariate_normal(np.zeros(12), covariance).logpdf(trial.labels)
            assert one.evidence[curve][0, place] == pytest.approx(expected, rel=1e-6)


def test_the_grid_grows_until_no_choice_is_at_an_end_or_the_reach_is_used_up(found):
    _, one = found
    for end, most in zip(one.at_ends(), (0.1 / 10**2, 1.0 * 10**2), strict=True):
        assert not end or np.isclose(one.temperatures, most).any()


def test_each_half_chooses_for_the_other():
    random = np.random.default_rng(0)
    accuracy, evidence = random.integers(0, 4, size=(6, 2, 5)) / 4, random.normal(size=(6, 5))
    one = Comparison(np.geomspace(0.01, 1, 5), {THEORY: accuracy}, {THEORY: evidence})
    by_hand, by_evidence = [], []
    for draw in range(6):
        reached = []
        for half in range(2):
            other = list(accuracy[draw, 1 - half])
            ties = [place for place in range(5) if other[place] == max(other)]
            reached.append(accuracy[draw, half, min(ties, key=lambda place: abs(place - 2))])
        by_hand.append(np.mean(reached))
        by_evidence.append(accuracy[draw, :, evidence[draw].argmax()].mean())
    np.testing.assert_allclose(one.at_best(), by_hand)
    np.testing.assert_allclose(one.at_best(by="evidence"), by_evidence)
    chosen = np.exp(np.mean(np.log(np.geomspace(0.01, 1, 5)[evidence.argmax(axis=1)])))
    assert one.temperature(by="evidence") == pytest.approx(chosen)
    one = one._replace(accuracy={THEORY: np.array([[[0.1, 0.2, 0.3], [0.5, 0.4, 0.5]]]), LIMIT: np.zeros((1, 2, 3))})
    assert one._replace(temperatures=np.ones(3)).at_ends() == (1, 1)


def test_a_difference_has_the_interval_of_scipy():
    one, other = np.random.default_rng(1).normal(size=(2, 7))
    found = difference(one, other)
    interval = scipy.stats.ttest_rel(one, other).confidence_interval(0.95)
    assert (found.mean - found.within, found.mean + found.within) == pytest.approx(tuple(interval))
