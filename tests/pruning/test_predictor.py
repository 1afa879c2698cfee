"""The predictor by paths: its sum is the predictor; without a layer it is that of a smaller network."""

import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.pruning import predictor_contributions, without_layers

SKIPS = (sma.SkipHeads(2), sma.SkipHeads(1))


@pytest.fixture
def problem():
    random = np.random.default_rng(0)
    values, labels = random.normal(size=(30, 6, 4)), np.where(np.arange(30) % 2, 1.0, -1.0)
    values[:, 0, 0] += labels
    train, test = (sma.AttentionedInputs(jnp.asarray(part), SKIPS) for part in (values[:10], values[10:]))
    overlap = np.cov(random.normal(size=(6, 20)))
    return train, labels[:10], test, labels[10:], overlap


def test_the_sum_over_paths_is_the_predictor(problem):
    train, labels, test, _, overlap = problem
    parts = predictor_contributions(sma.Problem(train, labels, temperature=0.3), test, overlap)
    wanted = sma.kernel_regression(sma.Problem(train, labels, temperature=0.3), overlap).predict(test).mean
    np.testing.assert_allclose(parts.sum(axis=1), wanted, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match="temperature"):
        predictor_contributions(sma.Problem(train, labels, temperature=0), test, overlap)
    with pytest.raises(ValueError, match="labels"):
        predictor_contributions(sma.Problem(train, labels[:-1], temperature=1), test, overlap)


def test_without_a_layer_the_paths_around_it_are_left(problem):
    train, labels, test, wanted, overlap = problem
    parts = np.asarray(predictor_contributions(sma.Problem(train, labels, temperature=0.3), test, overlap))
    # Paths: three branches below, two above; branch 0 is the skip.
    kept = [range(6), [0, 1], [0, 2, 4], [0]]
    by_hand = [np.mean(np.sign(parts[:, list(some)].sum(axis=1)) == wanted) for some in kept]
    found = without_layers(parts, wanted, layers=SKIPS)
    np.testing.assert_allclose(found.mean, by_hand)
    assert found.error.shape == (4,)
    # Where a layer has no skip, nothing passes without its heads: every output is zero, half of them right.
    np.testing.assert_allclose(without_layers(parts[:, :2], wanted, layers=(2,)).mean[1:], 0.5)
