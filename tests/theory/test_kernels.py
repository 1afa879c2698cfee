"""Kernels against sums over pairs of paths, and measures of alignment: equation (10)."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import reference

import statmech_attention as sma


@pytest.mark.parametrize("heads", [(1,), (3,), (2, 2), (2, 1, 3)])
def test_kernel_agrees_with_the_sum_over_pairs_of_paths(heads):
    rng = np.random.default_rng(30)
    paths = math.prod(heads)
    left, right = rng.normal(size=(3, paths, 4)), rng.normal(size=(2, paths, 4))
    order_parameter = reference.random_order_parameters(rng, heads)[0]
    found = sma.kernel(left, right, order_parameter, variance=1.7, heads=heads)
    np.testing.assert_allclose(
        found, reference.kernel(left, right, order_parameter, heads, input_variance=1.7), rtol=1e-11
    )


def test_only_the_input_variance_enters_the_kernel():
    rng = np.random.default_rng(31)
    xi = sma.AttentionedInputs(jnp.asarray(rng.normal(size=(3, 4, 5))), (2, 2))
    order_parameter = reference.random_order_parameters(rng, (2, 2))[0]
    plain = sma.kernel(xi, xi, order_parameter)
    np.testing.assert_allclose(sma.kernel(xi, xi, order_parameter, variance=(0.3, 5.0, 6.0, 7.0)), 0.3 * plain)


def test_kernel_is_the_weighted_sum_of_path_kernels():
    rng = np.random.default_rng(32)
    left = sma.AttentionedInputs(jnp.asarray(rng.normal(size=(3, 4, 5))), (2, 2))
    right = sma.AttentionedInputs(jnp.asarray(rng.normal(size=(2, 4, 5))), (2, 2))
    order_parameter = reference.random_order_parameters(rng, (2, 2))[0]
    total = sum(order_parameter[p, q] * sma.path_kernel(left, right, p, q) for p in range(4) for q in range(4)) / 4
    np.testing.assert_allclose(sma.kernel(left, right, order_parameter), total, rtol=1e-12)


def test_path_kernel_is_the_scalar_product_per_feature():
    rng = np.random.default_rng(33)
    left, right = rng.normal(size=(3, 4, 5)), rng.normal(size=(2, 4, 5))
    found = sma.path_kernel(left, right, 1, 3, heads=(2, 2))
    wanted = [[sum(left[m, 1, i] * right[n, 3, i] for i in range(5)) / 5 for n in range(2)] for m in range(3)]
    np.testing.assert_allclose(found, wanted, rtol=1e-13)


def test_principal_overlaps_of_a_kernel_built_from_known_components():
    rng = np.random.default_rng(35)
    basis, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    eigenvalues = np.array([4.0, 2.5, 1.0, 0.3, 0.0])
    labels = basis @ np.array([3.0, 0.0, -4.0, 0.0, 0.0])
    found, overlaps = sma.principal_overlaps(basis @ np.diag(eigenvalues) @ basis.T, labels)
    np.testing.assert_allclose(found, eigenvalues, atol=1e-12)
    np.testing.assert_allclose(overlaps, [0.6, 0.0, 0.8, 0.0, 0.0], atol=1e-12)


def test_centred_alignment_by_explicit_centring():
    rng = np.random.default_rng(36)
    factor = rng.normal(size=(6, 6))
    kernel, labels = factor @ factor.T, np.array([1.0, 1, -1, 1, -1, 1])
    centring = np.eye(6) - np.ones((6, 6)) / 6
    centred, target = centring @ kernel @ centring, centring @ np.outer(labels, labels) @ centring
    wanted = np.sum(centred * target) / (np.linalg.norm(centred) * np.linalg.norm(target))
    assert sma.centred_alignment(kernel, labels) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("constant", [0.0, 0.3])
def test_a_constant_kernel_aligns_with_nothing(constant):
    labels = np.array([1.0, -1, -1, 1, 1, -1, 1])
    assert sma.centred_alignment(np.full((7, 7), constant), labels) == 0.0
    barely = np.full((7, 7), constant) + 1e-9 * np.outer(labels, labels)
    assert sma.centred_alignment(barely, labels) == pytest.approx(1.0, rel=1e-5)


def test_centred_alignment_is_one_for_the_labels_own_kernel():
    labels = np.array([1.0, 1, -1, 1, -1, -1])
    assert sma.centred_alignment(3 * np.outer(labels, labels) + 2.0, labels) == pytest.approx(1.0, rel=1e-12)
