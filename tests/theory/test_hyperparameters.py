"""Temperature and variances by the evidence: against a grid, and a Gaussian process fitted by other means."""

import math

import jax
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel
from statmech_attention.theory import hyperparameters


@pytest.fixture(scope="module")
def chains():
    """Labels linear in what one path sees, and noise: the evidence has a maximum."""
    task = sma.tasks.HiddenMarkov(length=5, token_size=4)
    keys = jax.random.split(jax.random.key(5), 3)
    sample = task.sample(24, key=keys[0])
    attention = sma.attention_from_products(task.heads(key=keys[1]))
    xi = sma.attentioned_inputs(sample.inputs, attention)
    weights, noise = (
        jax.random.normal(key, (count,))
        for key, count in zip(jax.random.split(keys[2]), (xi.values.shape[2], 24), strict=True)
    )
    return xi, xi.values[:, 0] @ weights + 0.5 * noise


@pytest.fixture(scope="module")
def found(chains):
    return sma.maximise_evidence(sma.Problem(*chains, width=6))


def test_the_optimum_is_that_of_a_grid(chains, found):
    # In steps of a hundredth of ln T around it, far from it, and of ln sigma^2 beside it.
    grid = [*found.temperature * np.exp(np.linspace(-0.1, 0.1, 21)), 0.01, 0.1, 1.0, 10.0]
    sweep = sma.solve_sweep(sma.Problem(*chains, variance=found.variance), widths=[6], temperatures=grid)
    assert int(sma.log_evidence(sweep)[0].argmax()) == 10
    for change in (-0.02, 0.02):
        variance = (found.variance[0] * math.exp(change), *found.variance[1:])
        beside = sma.solve(sma.Problem(*chains, width=6, temperature=found.temperature, variance=variance))
        assert float(sma.log_evidence(beside)) < found.log_evidence


def test_the_maximum_is_a_stationary_point_of_the_evidence(chains, found):
    assert set(found.slopes) == {"temperature", "variance[0]"} and max(map(abs, found.slopes.values())) < 1e-4
    assert found.variance[1:] == (1.0, 1.0, 1.0) and found.at_bound == ()
    assert found.solution.converged and float(sma.log_evidence(found.solution)) == found.log_evidence
    first = sma.solve(sma.Problem(*chains, width=6, temperature=0.1))
    assert float(sma.log_evidence(first)) < found.log_evidence


def test_another_start_ends_in_the_same_place_and_a_variance_held_enters_the_product(chains, found):
    other = sma.maximise_evidence(sma.Problem(*chains, width=6, temperature=3.0, variance=(0.2, 1.0, 4.0, 1.0)))
    assert other.temperature == pytest.approx(found.temperature, rel=1e-4)
    assert math.prod(other.variance) == pytest.approx(math.prod(found.variance), rel=1e-4)
    assert other.variance[1:] == (1.0, 4.0, 1.0)


def test_a_gaussian_process_is_fitted_as_by_its_own_likelihood(chains):
    xi, labels = chains
    kernel = np.asarray(sma.kernel(xi, xi, np.eye(4)))

    def lacking(logs):
        covariance = np.exp(logs[1]) * kernel + np.exp(logs[0]) * np.eye(len(labels))
        return -multivariate_normal(np.zeros(len(labels)), covariance).logpdf(np.asarray(labels))

    wanted = minimize(lacking, [-1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-10})
    found = sma.maximise_evidence(sma.Problem(xi, labels, width=math.inf))
    assert found.log_evidence == pytest.approx(-wanted.fun, abs=1e-7)
    np.testing.assert_allclose(np.log([found.temperature, found.variance[0]]), wanted.x, atol=1e-3)


@pytest.mark.slow
def test_a_layer_beside_a_skip_has_a_variance_of_its_own():
    rng = np.random.default_rng(1)
    heads, values = (sma.SkipHeads(1, values=2), 1), rng.normal(size=(20, 2, 3))
    labels = values[:, 0, 0] + 0.3 * values[:, 1, 1] + 0.4 * rng.normal(size=20)
    found = sma.maximise_evidence(sma.Problem(values, labels, layers=heads, width=5.0))
    assert set(found.slopes) == {"temperature", "variance[0]", "variance[1]"}
    assert found.at_bound or max(map(abs, found.slopes.values())) < 1e-4
    options = {"layers": heads, "width": 5.0, "temperature": found.temperature}
    for change in (-0.05, 0.05):
        beside = (found.variance[0], found.variance[1] * math.exp(change), *found.variance[2:])
        lower = sma.log_evidence(sma.solve(sma.Problem(values, labels, variance=beside, **options)))
        assert float(lower) < found.log_evidence
    # What is held comes in through the product alone.
    moved = (found.variance[0] / 2, found.variance[1], 4.0, 0.5)
    same = sma.log_evidence(sma.solve(sma.Problem(values, labels, variance=moved, **options)))
    assert float(same) == pytest.approx(found.log_evidence, abs=1e-6)


def test_a_range_may_end_the_search(chains, found, monkeypatch):
    limit = 2 * found.temperature
    problem = sma.Problem(*chains, width=6, temperature=3 * limit, variance=found.variance)
    monkeypatch.setitem(hyperparameters.RANGES, "temperature", (limit, 1e2))
    bound = sma.maximise_evidence(problem)
    assert bound.at_bound == ("temperature",) and bound.temperature == pytest.approx(limit)
    assert bound.slopes["temperature"] < 0 and repr(bound).endswith("at a bound: temperature)")


def test_an_end_of_a_range_with_a_slope_into_it_is_no_maximum(chains, found):
    logs, problem = np.log([found.temperature]), found.solution.problem
    for bounds, into in ((np.array([[logs[0], 9.0]]), 1.0), (np.array([[-9.0, logs[0]]]), -1.0)):
        given = bounds, problem, ["temperature"], [found.solution]
        outside = hyperparameters._maximum_at(logs, (0.0, np.array([into])), *given)
        assert outside.at_bound == ("temperature",) and outside.slopes == {"temperature": -into}
        with pytest.raises(sma.NotConverged, match="slope 1.0e\\+00 nats"):
            hyperparameters._maximum_at(logs, (0.0, np.array([-into])), *given)


def test_a_search_in_the_higher_of_two_minima_goes_on_from_the_lower(monkeypatch):
    sizes = {"examples": 100, "features": 400, "width": 10.0, "temperature": 0.05}
    problem = SolvableModel([[1, 0.999], [0.999, 1]], [0.5, 0.0], **sizes).sample(jax.random.key(0), 2)[0]
    monkeypatch.setitem(hyperparameters.RANGES, "temperature", (0.01, 0.06))
    wanted = sma.maximise_evidence(problem, chosen="temperature")
    first = iter([sma.minima(problem.reduce())[1:]])
    lowest = hyperparameters.minima
    monkeypatch.setattr(hyperparameters, "minima", lambda one, **given: next(first, None) or lowest(one, **given))
    found = sma.maximise_evidence(problem, chosen="temperature")
    assert next(first, None) is None and found.solution.start == wanted.solution.start == "narrow"
    assert found.log_evidence == pytest.approx(wanted.log_evidence, abs=1e-6)


def test_the_upper_end_of_a_range_is_named(chains):
    values, labels = chains
    large = sma.Problem(values, 100 * np.asarray(labels), width=6, temperature=80.0)
    bound = sma.maximise_evidence(large, chosen="temperature")
    assert bound.at_bound == ("temperature",) and bound.temperature == pytest.approx(1e2)
    assert bound.slopes["temperature"] > 0


def test_a_search_that_runs_out_of_steps_raises(chains):
    with pytest.raises(sma.NotConverged, match="The maximum of the evidence was not reached in . trials"):
        sma.maximise_evidence(sma.Problem(*chains, width=6), max_steps=1)


def test_a_saddle_point_on_the_way_that_is_not_reached_raises(chains):
    with pytest.raises(sma.NotConverged, match=r"The saddle point was not reached at T = 0.1, N = 6, 6, 6"):
        sma.maximise_evidence(sma.Problem(*chains, width=6), tolerance=1e-30)


@pytest.mark.parametrize(
    "chosen, message",
    [
        (["temprature", "variance"], "chosen: wanted one of temperature, variance, got 'temprature'"),
        ("temp", "chosen: wanted one of temperature, variance, got 'temp'"),
        ((), 'chosen: wanted "temperature", "variance" or both, got none'),
    ],
)
def test_another_choice_is_refused(chains, chosen, message):
    with pytest.raises(ValueError, match=message):
        sma.maximise_evidence(sma.Problem(*chains, width=6), chosen=chosen)


def test_on_tokens_a_start_outside_of_the_range_begins_at_its_end_and_trials_are_few(monkeypatch):
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(8, 4, 3)), np.where(np.arange(8) % 2, 1.0, -1.0)
    seen = sma.token_inputs(inputs, [rng.dirichlet(np.ones(4), (8, 2, 4)).swapaxes(2, 3)])
    followed, trials = hyperparameters.followed, []
    monkeypatch.setattr(hyperparameters, "followed", lambda *given: trials.append(0) or followed(*given))
    near, far = (
        sma.maximise_evidence(sma.Problem(seen, labels, width=10, temperature=start), chosen="temperature")
        for start in (0.1, 1e-9)
    )
    assert far.log_evidence == pytest.approx(near.log_evidence, abs=1e-6)
    assert len(trials) < 60
    with pytest.raises(sma.NotConverged, match="The saddle point was not reached at T = 1e-09"):
        sma.solve(sma.Problem(seen, labels, width=10, temperature=1e-9))
