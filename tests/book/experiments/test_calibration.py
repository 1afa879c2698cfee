"""Recorded calibration at tiny size: what u is, the wrong priors' weights, and that a run goes on where it stopped."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import chi, norm

import statmech_attention as sma
from attention_book.experiments import calibration
from attention_book.experiments.calibration import PREDICTORS, PRIORS, QUANTITIES, WRONG_VARIANCE
from statmech_attention import sampling

from .shared import *  # noqa: F403

EXPERIMENT = "Calibration"
SETTINGS = dict(seed=2, widths=[2, 5], problems=3, examples=6, temperature=0.3, chains=2, warmup=20, draws=30)
SETTINGS |= dict(doublings=1, batch=2)
WRONG = [{"problems": 1}, {"widths": [0]}, {"temperature": 0.0}, {"draws": 2}, {"batch": 0}]


def test_the_record_has_every_problem(recorded, found):
    assert recorded.name == "calibration-examples6-noise0.3-seed2.nc"
    assert found.output_u.shape == (2, 3, len(PREDICTORS), 4) and found.order_u.shape == (2, 3, len(PRIORS), 4)
    assert found.quantity.values.tolist() == list(QUANTITIES) and found.width.values.tolist() == [2, 5]
    assert np.all((found.output_u >= 0) & (found.output_u <= 1)) and np.all(found.draws.values == 60)  # doubled once
    np.testing.assert_allclose(
        found.output_u.sel(predictor="exact"), found.prior_output_u.sel(prior="true"), rtol=1e-12
    )
    assert np.all(found.weights_worth.sel(prior="true") > 1 - 1e-9)


@pytest.mark.parametrize("width", [2, 5])
def test_a_problem_is_judged_by_its_own_posterior(recorded, found, make, width):
    problem = make(recorded.parent).problem(width, 1)
    learned = sma.Problem(problem.train, problem.labels, width=width, temperature=0.3)
    chains = sma.Chains(draws=60, count=2, warmup=20, warn=False)
    sample = sampling.tempered_posterior if width == 2 else sampling.posterior
    drawn = sample(learned, key=problem.key, test=problem.test, chains=chains)
    found = found.sel(width=width, problem=1)
    ranks = [
        np.mean(drawn.order_parameter[..., i, j] < value)
        for (i, j), value in zip([(0, 0), (0, 1), (3, 3)], problem.order[:3], strict=True)
    ]
    np.testing.assert_allclose(found.order_u.sel(prior="true")[:3], ranks, rtol=1e-12)
    solved = sma.solve(learned).predict(problem.test)
    u = norm.cdf((problem.outputs - solved.mean) / np.sqrt(solved.variance))
    np.testing.assert_allclose(found.output_u.sel(predictor="theory"), u, rtol=1e-6)
    u = norm.cdf((problem.outputs - solved.mean) / np.sqrt(solved.variance + drawn.output.var(("chain", "draw"))))
    np.testing.assert_allclose(found.output_u.sel(predictor="theory and Var_U m"), u, rtol=1e-6)


@pytest.mark.parametrize("width", [2, 6])
def test_psi_of_order_parameters_is_that_of_the_factors(width):
    """Order parameters made of known factors give their diagonals back."""
    rng, draws = np.random.default_rng(1), 5
    above, wanted, order = np.ones((draws, 1, 1)), np.zeros(draws), []
    for heads in (1, 2, 2):
        rows = heads * above.shape[2]
        rank = min(width, rows)
        factor = np.tril(rng.normal(size=(draws, rows, rank)))
        diagonal = chi(3).rvs(size=(draws, rank), random_state=rng)
        factor[:, np.arange(rank), np.arange(rank)] = diagonal
        wanted += np.log(diagonal) @ np.arange(rank)
        above = np.stack([np.kron(np.eye(heads), one) for one in above]) @ factor
        order.insert(0, (above @ above.transpose(0, 2, 1))[None])
    names = ["order_parameter", "order_parameter_2", "order_parameter_3"]
    order[-1] = order[-1][..., 0, 0]
    drawn = xr.Dataset(
        {n: (("chain", "draw", f"a_{n}", f"b_{n}")[: one.ndim], one) for n, one in zip(names, order, strict=True)}
    )
    np.testing.assert_allclose(calibration.order_one_term(drawn, width), wanted, atol=1e-8)


def test_the_weights_of_the_wrong_variance_are_a_ratio_of_densities():
    """Under weights the readout's order parameter has the mean of the narrower prior: chi^2 of N over N, times it."""
    width, draws = 6, 200_000
    readout = np.random.default_rng(3).chisquare(width, draws) / width
    weights = np.exp(-0.5 * width * (1 / WRONG_VARIANCE - 1) * readout)
    assert weights @ readout / weights.sum() == pytest.approx(WRONG_VARIANCE, rel=0.01)
