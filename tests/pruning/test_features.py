"""Features fitted to attentioned inputs, against the singular values of all of them."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention.pruning.features import fitted_features

HEADS, WIDTH = (2, 3), 7


@pytest.fixture(scope="module")
def attentioned():
    rng = np.random.default_rng(8)
    values = 3.0 + rng.normal(size=(5, 6, WIDTH)) * np.array([4, 0.1, 2, 1, 0.5, 0.2, 3])
    return sma.AttentionedInputs(jax.numpy.asarray(values), HEADS)


@pytest.mark.parametrize("components", [1, 3, WIDTH])
def test_features_are_the_first_singular_vectors(attentioned, components):
    features = fitted_features(attentioned, components)
    flat = np.asarray(attentioned.values).reshape(-1, WIDTH)
    flat = flat - flat.mean(axis=0)
    _, sizes, vectors = np.linalg.svd(flat, full_matrices=False)
    assert features.variance_lost == pytest.approx(np.sum(sizes[components:] ** 2) / np.sum(sizes**2), abs=1e-12)
    found = features.of(attentioned)
    assert found.layers == HEADS
    scale = np.sqrt(components * len(flat) / np.sum(sizes[:components] ** 2))
    wanted = scale * np.abs(flat @ vectors[:components].T)  # signs of the vectors are free
    np.testing.assert_allclose(np.abs(found.values).reshape(wanted.shape), wanted, rtol=1e-8, atol=1e-9)
    assert np.mean(np.sum(found.values**2, axis=2)) / components == pytest.approx(1.0, rel=1e-12)


def test_other_examples_get_the_same_features(attentioned):
    features = fitted_features(attentioned, 3)
    part = sma.AttentionedInputs(attentioned.values[3:], HEADS)
    np.testing.assert_allclose(features.of(part).values, features.of(attentioned).values[3:], rtol=1e-12)


def test_single_precision_becomes_double(attentioned):
    single = sma.AttentionedInputs(attentioned.values.astype("float32"), HEADS)
    found = fitted_features(single, 3).of(single)
    assert found.values.dtype == np.float64
    np.testing.assert_allclose(
        np.abs(found.values), np.abs(fitted_features(attentioned, 3).of(attentioned).values), atol=1e-4
    )
