"""Kernels against sums over pairs of paths, and measures of alignment: equation (10)."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import reference

import statmech_attention as sma
from attention_book.one_shot import predictor_vectors
from attention_book.theory.measures import centred_alignment, principal_overlaps
from statmech_attention.theory.kernels.rotations import compressed


@pytest.mark.parametrize("heads", [(1,), (2, 1, 3)])
def test_kernel_agrees_with_the_sum_over_pairs_of_paths(heads):
    rng = np.random.default_rng(30)
    paths = math.prod(heads)
    left, right = rng.normal(size=(3, paths, 4)), rng.normal(size=(2, paths, 4))
    order_parameter = reference.random_order_parameters(rng, heads)[0]
    found = sma.kernel(left, right, order_parameter, variance=1.7, layers=heads)
    np.testing.assert_allclose(
        found, reference.kernel(left, right, order_parameter, heads, input_variance=1.7), rtol=1e-11
    )


def test_only_the_input_variance_enters_the_kernel():
    rng = np.random.default_rng(31)
    xi = sma.AttentionedInputs(jnp.asarray(rng.normal(size=(3, 4, 5))), (2, 2))
    order_parameter = reference.random_order_parameters(rng, (2, 2))[0]
    plain = sma.kernel(xi, xi, order_parameter)
    np.testing.assert_allclose(sma.kernel(xi, xi, order_parameter, variance=(0.3, 5.0, 6.0, 7.0)), 0.3 * plain)


def test_principal_overlaps_of_a_kernel_built_from_known_components():
    rng = np.random.default_rng(35)
    basis, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    eigenvalues = np.array([4.0, 2.5, 1.0, 0.3, 0.0])
    labels = basis @ np.array([3.0, 0.0, -4.0, 0.0, 0.0])
    found, overlaps = principal_overlaps(basis @ np.diag(eigenvalues) @ basis.T, labels)
    np.testing.assert_allclose(found, eigenvalues, atol=1e-12)
    np.testing.assert_allclose(overlaps, [0.6, 0.0, 0.8, 0.0, 0.0], atol=1e-12)


def test_centred_alignment_by_explicit_centring():
    rng = np.random.default_rng(36)
    factor = rng.normal(size=(6, 6))
    kernel, labels = factor @ factor.T, np.array([1.0, 1, -1, 1, -1, 1])
    centring = np.eye(6) - np.ones((6, 6)) / 6
    centred, target = centring @ kernel @ centring, centring @ np.outer(labels, labels) @ centring
    wanted = np.sum(centred * target) / (np.linalg.norm(centred) * np.linalg.norm(target))
    assert centred_alignment(kernel, labels) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("constant", [0.0, 0.3])
def test_a_constant_kernel_aligns_with_nothing(constant):
    labels = np.array([1.0, -1, -1, 1, 1, -1, 1])
    assert centred_alignment(np.full((7, 7), constant), labels) == 0.0
    barely = np.full((7, 7), constant) + 1e-9 * np.outer(labels, labels)
    assert centred_alignment(barely, labels) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize(("dead", "features"), [(0, 16), (1, 16), (9, 7)])
def test_rotated_inputs_have_the_same_products_and_shapes_that_are_compiled_already(dead, features):
    values = np.random.default_rng(36).normal(size=(6, 4, 16))
    values[..., :dead] = 0
    rotated = compressed(jnp.asarray(values))
    assert rotated.shape == (6, 4, features)
    np.testing.assert_allclose(
        jnp.einsum("iaf,jbf->iajb", rotated, rotated), np.einsum("iaf,jbf->iajb", values, values), atol=1e-12
    )


XI = sma.AttentionedInputs(jnp.asarray(np.random.default_rng(37).normal(size=(5, 4, 3))), (2, 2))
LABELS = np.array([1.0, -1, 1, 1, -1])
UPPER = jnp.zeros((4, 4)).at[0, 1].set(1.0)


def test_an_order_parameter_of_no_weights_is_refused():
    right = reference.random_order_parameters(np.random.default_rng(38), (2, 2))[0]
    narrow = np.random.default_rng(39).normal(size=(4, 2)).astype("float32")  # of rank 2: eigenvalues round below zero
    problem = sma.Problem(XI, LABELS, temperature=0.3)
    for function in (
        lambda u: sma.kernel(XI, XI, u),
        lambda u: sma.theory.energy(problem, u),
        lambda u: sma.kernel_regression(problem, u).predict(XI).mean,
        lambda u: predictor_vectors(problem, u),
        lambda u: sma.head_scores(u, layers=(2, 2)),
    ):
        with pytest.raises(ValueError, match=r"order_parameter: wanted a symmetric matrix.* Take 0.5 \* \(U \+ U.T\)"):
            function(right + 1e-5 * UPPER)
        with pytest.raises(ValueError, match="order_parameter: wanted a positive semi-definite matrix"):
            function(right - 1.0001 * np.linalg.eigvalsh(right)[0] * np.eye(4))
        np.testing.assert_allclose(function(right + 1e-9 * UPPER), function(right), rtol=1e-5)
        assert np.all(np.isfinite(function((narrow @ narrow.T).astype(float))))


def test_an_order_parameter_may_be_off_by_its_precision():
    factor = np.random.default_rng(40).normal(size=(16, 3))
    rounded = jnp.asarray(factor @ factor.T, "bfloat16")  # of rank 3: some eigenvalues become negative
    assert np.linalg.eigvalsh(np.asarray(rounded, float))[0] < 0
    assert np.all(np.isfinite(sma.head_scores(rounded, layers=(4, 4))))
    for wrong in (-rounded, jnp.triu(rounded)):
        with pytest.raises(ValueError, match="order_parameter: wanted a"):
            sma.head_scores(wrong, layers=(4, 4))


def test_biases_of_heads_have_a_kernel_in_closed_form():
    r"""Attention of all queries sums to one: $\sigma_a^2 (1 + \sigma_2^2) + \sigma_a^2 \sigma_2^2 (1 + \sigma_1^2)$."""
    rng = np.random.default_rng(0)
    attention = rng.dirichlet(np.ones(4), (2, 5, 3, 4)).swapaxes(-1, -2)
    inputs = sma.token_inputs(rng.normal(size=(5, 4, 2)), [*attention], layers=(3, 3), readout="mean")
    _, lower, upper, readout = variance = (1.7, 0.6, 1.4, 2.3)
    wanted = readout * (1 + upper) + readout * upper * (1 + lower)
    found = sma.theory.bias_kernel(inputs, inputs, variance=variance)
    np.testing.assert_allclose(found, np.full((5, 5), wanted), rtol=1e-12)
