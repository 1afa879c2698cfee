"""Accuracies at the best temperature."""

import numpy as np

from attention_book.theory.chains import at_best_temperature


def test_each_half_of_the_test_chains_chooses_the_temperature_of_the_other():
    first = np.array([[1, 1], [1, 0], [0, 0]], bool)  # (temperatures, examples): best at the first temperature
    second = np.array([[0, 1], [1, 1], [0, 0]], bool)  # best at the second one
    found = at_best_temperature(np.concatenate([first, second], axis=1))
    assert found == (0.5 + 0.5) / 2  # either half at the temperature that is best on the other


def test_every_network_has_its_own_best_temperature():
    rng = np.random.default_rng(0)
    right = rng.random((3, 2, 4, 100)) < 0.7
    one_by_one = [[at_best_temperature(one) for one in row] for row in right]
    np.testing.assert_allclose(at_best_temperature(right), one_by_one)


def test_temperature_without_a_solution_is_never_the_best_unless_all_are_without():
    right = np.array([[1, 1, 0, 1], [np.nan] * 4])
    assert at_best_temperature(right) == 0.75 and np.isnan(at_best_temperature(right[1:]))
