"""The action and accuracies over groups of useless paths against the solvable model of all paths."""

import numpy as np
import pytest

import statmech_attention as sma
from attention_book.theory.solvable_model import SolvableModel
from attention_book.theory.useless_heads import accuracies, useless_heads
from statmech_attention.theory.levels.paths import least_entropy


@pytest.mark.slow
def test_groups_of_paths_have_the_action_and_accuracy_of_the_whole_model():
    *right, good, value, levels = useless_heads(2)(10.0, 2.0, 1.0, 0.1)
    orders = [np.diag(levels[[3, 5, 4, 6]]), np.diag(levels[1:3]), levels[0]]
    numbers = {"examples": 400, "features": 400, "width": 40.0, "temperature": 0.1}
    full = SolvableModel(np.eye(4), 2.0 * np.eye(4)[0], layers=(2, 2), **numbers)
    action = float(sma.theory.entropy(orders, layers=(2, 2)) + 10 * full.energy(orders[0]))
    assert action == pytest.approx(float(value), rel=1e-8)
    assert float(full.solve().minimum.value + least_entropy(full.architecture)) == pytest.approx(action, rel=1e-8)
    assert float(good) == orders[0][0, 0]
    np.testing.assert_allclose(right, [full.predict(U).accuracy for U in (orders[0], np.eye(4))], rtol=1e-7)


def test_two_layers_have_two_minima_and_one_layer_has_one():
    numbers = {"load": 100.0, "heads": np.array([40.0]), "ratio": 1.0, "temperature": 0.01}
    prior, lowest = accuracies(2, **numbers)
    assert prior[0] < 0.65 and lowest[0] > 0.95
    prior, lowest = accuracies(1, **numbers)
    assert abs(prior[0] - lowest[0]) < 1e-6
