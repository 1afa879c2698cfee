"""A kind of layer that the package does not have: one class, and all else follows."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import statmech_attention as sma
from layers.check_layer import check_layer
from statmech_attention.layers import Heads, Layer
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.levels import paths as coordinates
from statmech_attention.theory.levels.paths import point_of


@dataclass(frozen=True)
class SharedValues(Layer):
    """Heads with one value matrix for all: a mixing that is not square, and a singular order parameter."""

    count: int

    @property
    def value_matrices(self):
        return 1

    def mixing(self, deviation):
        return deviation * np.ones((self.count, 1))

    @property
    def branch_heads(self):
        return tuple(range(self.count))

    @property
    def gains(self):
        return (1.0,) * self.count

    @property
    def divisor(self):
        return self.count

    def forward(self, values, hidden, matrix):
        attended = jnp.einsum("esn,ehst->etn", hidden, matrix)
        return attended @ values[0].T / math.sqrt(values.shape[2] * self.count)

    def attended(self, columns, matrix):
        return jnp.einsum("ehst,edt->ehds", matrix, columns)


@dataclass(frozen=True)
class GainHeads(Heads):
    """Heads with fixed gains."""

    strengths: tuple[float, ...] = ()

    @property
    def gains(self):
        return self.strengths

    def forward(self, values, hidden, matrix):
        return super().forward(jnp.asarray(self.strengths)[:, None, None] * values, hidden, matrix)

    def with_heads(self, heads):
        return GainHeads(len(heads), tuple(self.strengths[head] for head in heads))


GAINS = GainHeads(2, (1.0, 0.3))


@pytest.mark.parametrize(
    "layer",
    [
        *(sma.Heads(3), sma.Heads(2, values=3), sma.SkipHeads(0), sma.SkipHeads(2), sma.SkipHeads(2, values=2)),
        *(sma.Linear(), SharedValues(3), GAINS),
    ],
    ids=str,
)
def test_parts_of_a_layer_agree_with_each_other(layer):
    check_layer(layer)


@pytest.mark.parametrize(
    "heads", [(SharedValues(2), sma.SkipHeads(1), sma.Linear(), sma.Outputs(2)), (2, SharedValues(2))], ids=range(2)
)
def test_coordinates_are_those_of_the_seeds(heads):
    architecture = Architecture.of(heads, 9)
    factors = coordinates.full_rank(architecture)
    point = jnp.asarray(0.4 * np.random.default_rng(3).normal(size=factors.coordinates))
    overlaps = coordinates.order_parameters(point, factors)
    np.testing.assert_allclose(point_of(overlaps, factors), point, atol=1e-9)
    place = next(layer for layer, kind in enumerate(heads) if isinstance(kind, SharedValues))
    changed = list(overlaps)
    changed[place] = changed[place] + jnp.eye(len(changed[place]))
    with pytest.raises(ValueError, match="wanted one of a network of these layers"):
        point_of(tuple(changed), factors)


def test_heads_that_share_their_values_are_one_head_with_the_sum_of_their_attention():
    rng = np.random.default_rng(4)
    values, labels = rng.normal(size=(8, 2, 3)), rng.normal(size=6)
    one_head = values.sum(axis=1, keepdims=True) / math.sqrt(2)
    options = {"width": 12, "temperature": 0.2}
    shared = sma.solve(sma.Problem(values[:6], labels, layers=(SharedValues(2),), **options))
    single = sma.solve(sma.Problem(one_head[:6], labels, layers=(1,), **options))
    np.testing.assert_allclose(shared.order_parameter, np.full((2, 2), single.order_parameter[0, 0]), rtol=1e-7)
    np.testing.assert_allclose(shared.predict(values[6:]).mean, single.predict(one_head[6:]).mean, rtol=1e-7)
    assert float(shared.action) == pytest.approx(float(single.action), rel=1e-9)
    shared, single = (coordinates.full_rank(Architecture.of(heads, 12)) for heads in ((SharedValues(2),), (1,)))
    assert shared.coordinates == single.coordinates and shared.shapes == single.shapes


def test_gains_are_those_of_the_attention():
    rng = np.random.default_rng(5)
    values, labels = rng.normal(size=(6, 2, 3)), rng.normal(size=6)
    scaled = values * np.array(GAINS.strengths)[None, :, None]
    gained = sma.kernel(values, values, np.eye(2), layers=(GAINS,))
    np.testing.assert_allclose(gained, sma.kernel(scaled, scaled, np.eye(2), layers=(2,)), rtol=1e-12)
    point = coordinates.order_parameters(jnp.full(4, 0.3), coordinates.full_rank(Architecture.of((2,), 5)))
    options = {"width": 5, "temperature": 0.2}
    found = sma.theory.action(sma.Problem(values, labels, layers=(GAINS,), **options), point)
    assert float(found) == pytest.approx(
        float(sma.theory.action(sma.Problem(scaled, labels, layers=(2,), **options), point)), rel=1e-12
    )
    assert sma.AttentionedInputs(jnp.asarray(values), (GAINS,)).layers == (GAINS,)
    assert sma.layers.Chain.of((GAINS,)).keep([[1]])[0].layers == (GainHeads(1, (0.3,)),)
