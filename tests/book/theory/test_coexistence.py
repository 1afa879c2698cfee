"""Minima of many models at once against a second minimiser with an energy of its own, and searches among them."""

import numpy as np
import pytest
from scipy.optimize import minimize

from attention_book.theory import coexistence
from statmech_attention.theory.levels.paths import least_entropy

ONE, TWO = (0.9, 0.5, 0.25, 10.0, 0.05), (0.99, 0.5, 0.25, 10.0, 0.05)  # rho, s, gamma, load, T


def _action(numbers, point):
    """(11) with (I2) to (I4) by fixed point, U = R R^T and the readout's number at its best."""
    rho, s, gamma, load, T = numbers
    root = np.array([[np.exp(point[0]), 0.0], [point[1], np.exp(point[2])]])
    U, Q, h = root @ root.T, np.array([[1, rho], [rho, 1]]), 0.5
    x = T + h * np.trace(Q @ U)
    for _ in range(2000):
        V = np.linalg.solve(np.eye(2) + gamma * h / x * U @ Q, U)
        x, before = T + h * np.trace(Q @ V), x
        if abs(x - before) < 1e-15 * x:
            break
    c = gamma * h / x
    volume = np.log(x) + T / x - 1 + np.linalg.slogdet(np.eye(2) + c * Q @ U)[1] / gamma
    u = (np.sqrt(1 + 4 * np.trace(U)) - 1) / 2
    entropy = np.trace(U) / u + np.log(u) + u - np.linalg.slogdet(U)[1]
    return entropy + load * (volume + 1 / x / (1 + c * s**2 * V[0, 0])), U


def _lowest(numbers, start):
    found = minimize(lambda point: _action(numbers, point)[0], start, method="BFGS", options={"gtol": 1e-7})
    return _action(numbers, found.x)


def test_both_minima_are_those_of_separate_code():
    many = np.array([ONE] * 20 + [TWO] * 20).T  # more than are solved together
    U, action, accuracy = coexistence.both_minima(*many)
    prior, subtracting = np.zeros(3), np.array([1.5, -4.0, 0.0])
    for place, numbers in ((0, ONE), (-1, TWO)):
        for which, start in enumerate((prior, subtracting)):
            lowest, there = _lowest(numbers, start)
            assert action[place, which] == pytest.approx(lowest, abs=1e-7)
            np.testing.assert_allclose(U[place, which], there, atol=2e-3)
    assert accuracy[-1, 0] < 0.6 and accuracy[-1, 1] > 0.95
    assert np.ptp(action[:20]) < 1e-7 and np.ptp(action[20:, 1]) < 1e-7


def test_model_is_that_of_its_numbers():
    model = coexistence.two_paths(*TWO)
    assert float(model.solve().minimum.value + least_entropy(model.architecture)) == pytest.approx(
        _lowest(TWO, np.zeros(3))[0], abs=1e-7
    )


@pytest.mark.parametrize(
    ("U", "said"),
    [
        ([[4, -3], [-3, 4]], "subtracts it"),
        ([[4, 3], [3, 4]], "adds it"),
        ([[4, 0.1], [0.1, 0.9]], "switches it off"),
        ([[4, 0.1], [0.1, 1.1]], "weighs both"),
    ],
)
def test_phase_is_named_by_its_order_parameter(U, said):
    assert coexistence.phase(np.array(U, float)) == said


@pytest.mark.slow
def test_search_moves_towards_weaker_correlation_and_keeps_two_minima():
    away, s, load, T = coexistence.edge([0.25], seed=0, tries=8, steps=3)[0]
    numbers = 1 - away, s, 0.25, load, T
    assert away > 0.001
    assert abs(_lowest(numbers, np.zeros(3))[0] - _lowest(numbers, np.array([1.5, -4.0, 0.0]))[0]) > 1e-3


@pytest.mark.slow
def test_threshold_is_where_the_second_path_beats_its_constant():
    model = coexistence.SolvableModel(
        np.eye(2), [1.0, 0.0], offset=[1.0, 1.5], examples=100, features=231, temperature=0.1
    )
    at = coexistence.threshold(model)

    def best(noise, signal):
        models = [
            model.replace(noise=noise, signal=signal, width=10.0, temperature=T) for T in np.geomspace(0.01, 30, 16)
        ]
        return max(float(one.predict(one.solve().order_parameters[0]).accuracy) for one in models)

    constant = best(np.diag([1.0, 0.0]), [1.0, 0.0])
    below, above = (best(np.array([[1, rho], [rho, 1]]), [1.0, 0.0]) for rho in (at - 0.05, at + 0.05))
    assert below < constant < above
