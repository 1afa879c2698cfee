"""The authors' inputs through our functions, to the tolerance of their own minimiser and of their rounding."""

import numpy as np
import pytest
from scipy import stats

from attention_book.papers import authors
from statmech_attention.theory import action, kernel_regression


def test_theory_is_that_of_the_first_paper_on_its_own_chains():
    found = authors.theory_distances()
    assert found.order_parameter.max() < 1e-4 and found.mean.max() < 5e-5 and found.variance.max() < 5e-5
    assert found.infinite_width < 1e-6  # inputs are stored in single precision


def test_differences_are_what_their_minimiser_left():
    theirs, trial, solutions = authors.theory()
    for place, width in enumerate(theirs["width"].values):
        problem = solutions[place].problem
        upper, readout = theirs["order_parameter_2"].values, theirs["order_parameter_readout"].values
        there = action(problem, (theirs["order_parameter"].values[place], upper[place], readout[place]))
        assert 0 < there - solutions.action[place] < 1e-8, width


def test_another_temperature_would_be_seen():
    theirs, trial, solutions = authors.theory()
    warmer = solutions[0].problem.replace(temperature=1.05 * theirs.attrs["temperature"])
    moved = kernel_regression(warmer, solutions.order_parameter[0]).predict(trial.test).mean
    assert np.abs(np.asarray(moved) - theirs["mean"].values[0]).max() > 1e-3


@pytest.mark.slow
@pytest.mark.usefixtures("optimised")
def test_samples_are_those_of_the_first_paper():
    theirs, _ = authors.chains()
    both = {width: authors.sampled(width) for width in (10, 100)}
    for width, drawn in both.items():
        U = theirs["sampled_order_parameter"].sel(sampled_width=width).values
        np.testing.assert_allclose([drawn.theirs, drawn.error], [U.mean(axis=0), stats.sem(U)], rtol=1e-12)
    scores = np.concatenate([drawn.scores for drawn in both.values()])
    # Twenty entries, not independent: the largest within what twenty would give once in a hundred tests.
    assert np.abs(scores).max() < stats.norm.isf(0.5 * 0.01 / len(scores))


def test_dynamics_are_those_of_the_second_paper():
    found = authors.followed()
    assert found.one_step.max() < 1e-14
    # Chaos enlarges rounding: by e^{0.2} a step at most in these networks.
    assert np.all(found.from_the_start < 1e-14 * np.exp(0.2 * np.arange(60)))


@pytest.mark.usefixtures("optimised")
def test_exponents_are_those_of_the_second_paper():
    theirs, ours = authors.exponents()
    close = np.abs(ours - theirs).max(axis=1) < 1e-4
    assert close.sum() >= 30  # the others are long transients in chaos, which rounding decides
