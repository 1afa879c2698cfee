"""Layers that contradict themselves are refused with the reason; those of the package are not."""

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from layers.check_layer import check_layer

import statmech_attention as sma
from statmech_attention.layers import Heads, Layer, Part


@dataclass(frozen=True)
class SelfHeads(Layer):
    """Heads that hear the token itself too, beside a scaled skip: two branches a value matrix, and one that is kept."""

    count: int
    skip: float = 0.5
    own: float = 0.3
    keeps = True

    @property
    def value_matrices(self):
        return self.count

    def mixing(self, deviation):
        found = np.zeros((1 + 2 * self.count, 1 + self.count))
        found[0, 0] = self.skip
        for head in range(self.count):
            found[1 + head, 1 + head] = found[1 + self.count + head, 1 + head] = deviation
        return found

    @property
    def branch_heads(self):
        return (-1, *range(self.count), *(-1 for _ in range(self.count)))

    @property
    def divisor(self):
        return max(self.count, 1)

    @property
    def gains(self):
        return (math.sqrt(self.divisor), *(1.0 for _ in range(self.count)), *(self.own for _ in range(self.count)))

    def forward(self, values, hidden, matrix):
        if not self.count:
            return self.skip * hidden
        heard = matrix + self.own * jnp.eye(hidden.shape[1])[None, None]
        return self.skip * hidden + Heads(self.count).forward(values, hidden, heard)

    def attended(self, columns, matrix):
        along = columns[:, None]
        if not self.count:
            return along
        through = Heads(self.count).attended(columns, matrix)
        return jnp.concatenate([along, through, jnp.repeat(along, self.count, axis=1)], axis=1)

    def keep(self, heads):
        branches = (0, *(1 + head for head in heads), *(1 + self.count + head for head in heads))
        return Part(self.with_heads(heads), branches, tuple(heads))


class WithoutKeep(SelfHeads):
    keep = Layer.keep


class KeepInAnotherOrder(SelfHeads):
    def keep(self, heads):
        layer, branches, matrices = super().keep(heads)
        return Part(layer, (*branches[1:], branches[0]), matrices)


class KeepOthers(SelfHeads):
    """Matrices and own branches of heads that are gone."""

    def keep(self, heads):
        layer, branches, matrices = super().keep(heads)
        others = tuple(head for head in range(self.count) if head not in heads)
        if len(others) != len(heads):
            return Part(layer, branches, matrices)
        return Part(layer, (*branches[: 1 + len(heads)], *(1 + self.count + head for head in others)), others)


class WrongForward(SelfHeads):
    def forward(self, values, hidden, matrix):
        return super().forward(values, hidden, matrix) + hidden


class WrongColumns(SelfHeads):
    def attended(self, columns, matrix):
        return super().attended(columns, None if matrix is None else jnp.swapaxes(matrix, 2, 3))


class ScaledSkip(SelfHeads):
    def mixing(self, deviation):
        return deviation * super().mixing(1.0)


class TooManySeeds(SelfHeads):
    value_matrices = 5


@dataclass(frozen=True)
class GainHeads(Heads):
    """Heads with gains of their own; `with_heads` as inherited gives all of them to the smaller layer."""

    strengths: tuple[float, ...]
    divided: float = 2

    @property
    def gains(self):
        return self.strengths

    @property
    def divisor(self):
        return self.divided


@dataclass(frozen=True)
class Misnumbered(Heads):
    branch_heads = (1, 2)
    gains = (1.0, 1.0)


@dataclass(frozen=True)
class Demanding(Heads):
    fewest = 3


@pytest.mark.parametrize(
    "layer",
    [
        sma.Heads(5),  # too many for all sets of them
        sma.Heads(2, values=3),
        sma.SkipHeads(0),
        sma.SkipHeads(2),
        sma.SkipHeads(2, values=2),
        sma.Linear(),
        SelfHeads(0),
        SelfHeads(2, -1.0, 0.7),
    ],
    ids=str,
)
def test_layers_that_agree_with_themselves_pass(layer):
    check_layer(layer, seed=1)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (2, r"wanted a `Layer`, got 2\. A number of heads is `Heads"),
        (GainHeads(2, [1.0, 2.0]), "without a hash"),
        (TooManySeeds(2), r"mixing: wanted \(branches, 6 seeds\), got the shape \(5, 3\)"),
        (ScaledSkip(2), "not in that of a kept seed"),
        (GainHeads(2, (1.0,)), "gains: wanted one for each of 2 branches, got 1"),
        (GainHeads(2, (1.0, -1.0)), "wanted positive numbers.*A sign belongs into `mixing`"),
        (GainHeads(2, (1.0, 0.0)), "wanted positive numbers"),
        (GainHeads(2, (1.0, 2.0), 1.5), "divisor: wanted a whole number"),
        (Misnumbered(2), "wanted heads counted from 0"),
        (Demanding(2), "fewest: wanted a whole number from 0 to 2"),
        (GainHeads(2, (1.0, 2.0)), "`forward` and the sum over paths differ"),
        (WrongForward(2), "`forward` and the sum over paths differ"),
        (WrongColumns(2), "`forward` and the sum over paths differ"),
        (WithoutKeep(2), "those of the small one.* Write `with_heads`, or `keep`"),
        (KeepInAnotherOrder(2), "wanted branches through the heads"),
        (KeepOthers(2), "`mixing` is not that of these branches"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Layer) else None,
)
def test_what_contradicts_itself_is_refused(layer, message):
    with pytest.raises(ValueError, match=message) as caught:
        check_layer(layer)
    assert caught.type is ValueError


def test_pruned_values_are_those_of_the_smaller_layer():
    rng = np.random.default_rng(2)
    inputs, matrix = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 3, 4, 4))
    large = sma.attentioned_inputs(inputs, [matrix], layers=(SelfHeads(3),))
    small = sma.attentioned_inputs(inputs, [matrix[:, [0, 2]]], layers=(SelfHeads(2),))
    found = sma.keep_heads(large, [0, 2])
    assert found.layers == small.layers
    np.testing.assert_allclose(found.values, small.values, rtol=1e-12)


def test_a_skip_over_scaled_tokens_is_the_same_layer():
    """Without other layers below: the tokens a x, and (Omega + b I) / a for the attention."""
    rng = np.random.default_rng(3)
    inputs, matrix, labels = rng.normal(size=(8, 4, 5)), rng.normal(size=(8, 2, 4, 4)), rng.normal(size=6)
    own = sma.attentioned_inputs(inputs, [matrix], layers=(SelfHeads(2),))
    theirs = sma.attentioned_inputs(0.5 * inputs, [(matrix + 0.3 * np.eye(4)) / 0.5], layers=(sma.SkipHeads(2),))
    options = {"width": 12, "temperature": 0.2}
    first, second = (
        sma.solve(sma.Problem(one.values[:6], labels, layers=one.layers, **options)) for one in (own, theirs)
    )
    assert float(first.action) == pytest.approx(float(second.action), rel=1e-9)
    means = first.predict(own.values[6:]).mean, second.predict(theirs.values[6:]).mean
    np.testing.assert_allclose(*means, rtol=1e-6, atol=1e-9)
