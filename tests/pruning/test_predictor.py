"""The predictor by paths: its sum is the predictor; without a layer it is that of a smaller network."""

import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.one_shot import predictor_vectors

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
    vectors = predictor_vectors(sma.Problem(train, labels, temperature=0.3), overlap)
    parts = np.einsum("epi,pi->ep", test.values, vectors)
    wanted = sma.kernel_regression(sma.Problem(train, labels, temperature=0.3), overlap).predict(test).mean
    np.testing.assert_allclose(parts.sum(axis=1), wanted, rtol=1e-9, atol=1e-12)
