"""The separate code of the benchmark of searches: its gradient, and its action beside that of the package."""

import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from benchmarks import searches
from benchmarks.numpy_action import NumpyAction, lowest_of
from statmech_attention.theory.levels.paths import full_rank, order_parameters

CHAINS = {
    "heads": (2, 2),
    "a skip": (2, sma.SkipHeads(2)),
    "narrow heads": (sma.Heads(2, values=2), sma.Linear(), 2),
    "outputs": (2, sma.Outputs(2)),
}


def problem_of(layers):
    random = np.random.default_rng(0)
    paths, outputs = searches.Chain.of(layers).paths, searches.Chain.of(layers).readout.axes
    inputs, labels = random.normal(size=(6, paths, 4)), random.normal(size=(6, *outputs))
    return sma.Problem(inputs, labels, layers=layers, width=5.0, temperature=0.3)


@pytest.mark.parametrize("layers", CHAINS.values(), ids=CHAINS)
def test_the_gradient_by_hand_is_that_of_differences_and_the_action_that_of_the_package(layers):
    problem = problem_of(layers)
    action, factors = NumpyAction(problem), full_rank(problem.architecture)
    assert action.size == factors.coordinates
    point = 0.5 * np.random.default_rng(1).normal(size=action.size)
    _, slope = action(point)
    for place in np.linspace(0, action.size - 1, 6).astype(int):
        step = 1e-5 * np.eye(action.size)[place]
        change = (action(point + step)[0] - action(point - step)[0]) / 2e-5
        assert abs(change - slope[place]) < 1e-7 * (1 + abs(change))
    at_prior = order_parameters(jnp.zeros(action.size), factors)
    assert action(np.zeros(action.size))[0] == pytest.approx(float(sma.theory.action(problem, at_prior)), abs=1e-10)


def test_the_separate_code_ends_where_the_package_ends():
    problem = problem_of((2,))
    assert lowest_of(problem, 8, 0) == pytest.approx(float(sma.minima(problem)[0].action), abs=1e-7)


def test_problems_are_the_same_every_time_and_of_their_kinds():
    for kind in (*searches.KINDS, *searches.MORE):
        one, other = (searches.problem(kind, 1) for _ in range(2))
        np.testing.assert_array_equal(one.attentioned.values, other.attentioned.values)
        assert one.width == other.width and one.temperature == other.temperature
    assert searches.problem("6 outputs", 0).labels.shape == (16, 6)
    assert searches.problem("8 x 8 heads", 0).attentioned.values.shape[1] == 64
