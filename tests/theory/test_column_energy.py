"""The energy of products of columns against that of rows, and its derivatives against differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statmech_attention.theory.descent import columns, energies
from statmech_attention.theory.descent.columns import ColumnEnergy, Products
from statmech_attention.theory.descent.energies import FeatureEnergy

FEATURES, COMPONENTS, ROWS, COUNT = 2, 4, 9, 13.0


@pytest.mark.parametrize("felt", [1, 3, 4])
def test_value_and_slopes_are_those_of_the_rows(felt):
    """Four labels have no row; a free feature more than columns is seen by nothing."""
    random = np.random.default_rng(felt)
    values, labels = random.normal(size=(ROWS, FEATURES, COMPONENTS)), jnp.asarray(random.normal(size=ROWS))
    basis = np.linalg.qr(random.normal(size=(COMPONENTS, COMPONENTS)))[0]
    seen, others = values @ basis[:, :felt], (values @ basis[:, felt:]).reshape(ROWS, -1)
    left_out = 0.2
    energy = FeatureEnergy(
        labels=labels,
        temperature=jnp.asarray(0.3),
        count=jnp.asarray(COUNT),
        likelihood=None,
        inputs=energies.in_parts(jnp.asarray(np.pad(seen, ((0, 0), (0, 0), (0, 1))))),
        scale=jnp.asarray(0.7),
        rest=jnp.asarray(others @ others.T + left_out * np.eye(ROWS)),
        missing=(COUNT - ROWS, left_out),
    )
    found = ColumnEnergy.of(energy, Products.of(jnp.asarray(values), labels), basis[:, :felt])
    half = random.normal(size=(felt + 1, felt + 1))
    overlap = jnp.asarray(half @ half.T + np.eye(felt + 1)), jnp.asarray([[1.3]])
    np.testing.assert_allclose(found.value(overlap), energy.value(overlap), rtol=1e-12)
    for mine, theirs in zip(jax.grad(found.held)(overlap), jax.grad(energy.value)(overlap), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("many", [7, 6])
def test_rows_differentiated_by_hand_are_those_of_the_cholesky_factor(monkeypatch, many):
    """`held` of rows, whole and in parts, against the derivative of `value`, with several outputs."""
    monkeypatch.setattr(energies, "_MANY", many)
    random = np.random.default_rng(0)
    half, rest = random.normal(size=(2, 6, 6))
    energy = FeatureEnergy(
        labels=jnp.asarray(random.normal(size=6)),
        temperature=jnp.asarray(0.3),
        count=jnp.asarray(8.0),
        likelihood=None,
        inputs=energies.in_parts(jnp.asarray(random.normal(size=(6, 3, 4)))),
        scale=jnp.asarray(0.7),
        rest=jnp.asarray((rest @ rest.T)[:3, :3]),
        missing=(1.0, 0.4),
    )
    overlap = jnp.asarray((half @ half.T)[:4, :4]), jnp.asarray([[1.3, 0.2], [0.2, 0.9]])
    rows = np.concatenate(energy.inputs)
    kernel = 0.7 * (np.einsum("mia,ab,nib->mn", rows, overlap[0], rows) + np.kron(energy.rest, overlap[1]))
    np.testing.assert_allclose(energy.kernel(overlap), kernel, rtol=1e-13, atol=1e-12)
    np.testing.assert_allclose(energy.held(overlap), energy.value(overlap), rtol=1e-13)
    for mine, theirs in zip(jax.grad(energy.held)(overlap), jax.grad(energy.value)(overlap), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


def test_triangles_are_inverted_by_halves(monkeypatch):
    monkeypatch.setattr(columns, "_ROWS", 2)
    lower = np.tril(np.random.default_rng(0).normal(size=(11, 11))) + 3 * np.eye(11)
    np.testing.assert_allclose(columns._inverse(jnp.asarray(lower)), np.linalg.inv(lower), rtol=0, atol=1e-14)
