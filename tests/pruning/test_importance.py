"""Importances of heads: scores by brute force, gradients of gates, norms, rank correlations."""

import itertools

import numpy as np
import pytest

import statmech_attention as sma
from attention_book.one_shot import head_confidence, trained_network
from statmech_attention import pruning

from .networks import network_of


@pytest.mark.parametrize("heads", [(2, 3), (3, 1, 2), (4,)])
@pytest.mark.parametrize("definition", pruning.DEFINITIONS)
def test_scores_are_sums_over_ordered_pairs_of_paths(heads, definition):
    paths = list(itertools.product(*map(range, heads)))
    factor = np.random.default_rng(0).normal(size=(len(paths), len(paths)))
    matrix = factor @ factor.T
    wanted = []
    for layer, count in enumerate(heads):
        for head in range(count):
            total = 0.0
            for (row, one), (column, other) in itertools.product(enumerate(paths), enumerate(paths)):
                through = (one[layer] == head, other[layer] == head)
                if all(through) or (definition == "either" and any(through)):
                    total += abs(matrix[row, column])
            wanted.append(total)
    np.testing.assert_allclose(
        sma.head_scores(matrix, layers=heads, definition=definition), np.array(wanted) / max(wanted), rtol=1e-12
    )


def test_beside_a_skip_an_entry_counts_by_its_weight_in_the_kernel():
    """One skip, two heads, coefficients 1 and 1/sqrt 2: the skip's own entry belongs to no head."""
    matrix = np.array([[9.0, 1.0, -2.0], [1.0, 4.0, 0.5], [-2.0, 0.5, 3.0]])
    np.testing.assert_allclose(sma.head_scores(matrix, layers=(sma.SkipHeads(2),), definition="both"), [1, 3 / 4])
    either = np.array([4 + 2 * 0.5 + 2 * 2**0.5, 3 + 2 * 0.5 + 4 * 2**0.5])
    np.testing.assert_allclose(sma.head_scores(matrix, layers=(sma.SkipHeads(2),)), either / either.max())
    assert sma.pruning.head_indices(layers=(sma.SkipHeads(1), sma.Linear(), 2)).tolist() == [[0, 0], [2, 0], [2, 1]]
    # Of a path (path, output) is an entry each.
    doubled = np.kron(matrix, np.ones((2, 2)))
    doubled = sma.head_scores(doubled, layers=(sma.SkipHeads(2), sma.Outputs(2)), definition="both")
    np.testing.assert_allclose(doubled, [1, 3 / 4])
    with pytest.raises(ValueError, match="^layers: wanted a layer with heads to score, got none"):
        sma.head_scores(np.eye(1), layers=(sma.Linear(),))


def test_weight_norms_are_those_of_the_trained_parameters():
    parameters = network_of((2, 3))[0]
    network = trained_network(parameters)
    sides = zip(parameters.values, parameters.queries, parameters.keys, strict=True)
    every, alone = [], []
    for layer in sides:
        for arrays in zip(*layer, strict=True):
            every.append(np.sqrt(sum(np.sum(np.asarray(array) ** 2) for array in arrays)))
            alone.append(np.linalg.norm(arrays[0]))
    np.testing.assert_allclose(network.head_weight_norms(), every, rtol=1e-6)
    np.testing.assert_allclose(network.head_weight_norms(values_only=True), alone, rtol=1e-6)


def test_confidence_is_the_mean_of_the_largest_weight():
    sharp = np.eye(4)[[2, 0, 3, 1]][None, None]  # every query looks at one key
    even = np.full((1, 2, 4, 4), 0.25)
    np.testing.assert_allclose(head_confidence([sharp, even]), [1.0, 0.25, 0.25])
