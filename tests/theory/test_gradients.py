"""Descents by gradients alone on functions with known minima."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from statmech_attention.theory.descent import gradients
from statmech_attention.theory.descent.trust_region import Outcome

RANDOM = np.random.default_rng(0)
BASIS = np.linalg.qr(RANDOM.normal(size=(30, 30)))[0]
LINEAR = RANDOM.normal(size=30)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Quadratic:
    """Half of x A x minus b x, as an action of thirty coordinates in units of one."""

    matrix: jax.Array
    linear: jax.Array

    def held(self, point):
        value = 0.5 * point @ self.matrix @ point - self.linear @ point
        return value, 2 * value

    @property
    def units(self):
        return np.ones(len(self.linear))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Wall:
    """x - ln x of every coordinate, no number below zero."""

    def held(self, point):
        value = jnp.sum(point - jnp.log(point))
        return value, value

    @property
    def units(self):
        return np.ones(3)


def quadratic(least, most, linear=LINEAR):
    """Curvatures between these, in directions that no coordinate has."""
    return Quadratic(jnp.asarray(BASIS * np.geomspace(least, most, 30) @ BASIS.T), jnp.asarray(linear))


@pytest.fixture
def counted(monkeypatch):
    """A list with an entry for every gradient that was taken."""
    taken, found = [], gradients._value_and_gradient
    monkeypatch.setattr(gradients, "_value_and_gradient", lambda *given: taken.append(1) or found(*given))
    return taken


@pytest.mark.parametrize(("least", "most"), [(1.0, 1.0), (1.0, 1e3), (1e-6, 1e-3)])
def test_a_quadratic_is_solved_and_gradients_are_counted(counted, least, most):
    """Flat ones too: a first guess of at most one takes 1500 gradients there."""
    action = quadratic(least, most)
    end = gradients.descend(action, np.zeros(30), 1e-8, 200)
    assert end.minimum.outcome == Outcome.CONVERGED and end.minimum.steps == len(counted) < 200
    wanted = np.linalg.solve(action.matrix, LINEAR)
    np.testing.assert_allclose(end.minimum.point, wanted, rtol=0, atol=1e-7 / least)
    np.testing.assert_allclose(end.nats, 2 * end.minimum.value)


@pytest.mark.parametrize(("least", "most"), [(1.0, 1e3), (1e-6, 1e-3)])
def test_curvature_that_was_seen_saves_gradients(least, most):
    first = gradients.descend(quadratic(least, most), np.zeros(30), 1e-8, 200)
    again = gradients.descend(quadratic(least, most, LINEAR[::-1]), np.zeros(30), 1e-8, 200, first.pairs)
    assert again.minimum.outcome == Outcome.CONVERGED and again.minimum.steps < first.minimum.steps - 5


def test_curvature_that_misleads_is_forgotten():
    """Pairs of a function that is flatter by twelve orders, whose steps no shortening makes good."""
    pairs = [(unit, 1e-12 * unit) for unit in np.eye(30)[:3]]
    end = gradients.descend(quadratic(1.0, 1e3), np.zeros(30), 1e-8, 200, pairs)
    assert end.minimum.outcome == Outcome.CONVERGED and end.minimum.steps > gradients._TRIALS


def test_a_descent_stops_at_so_many_gradients(counted):
    end = gradients.descend(quadratic(1.0, 1e5), np.zeros(30), 1e-8, 4)
    assert end.minimum.outcome == Outcome.MAX_STEPS and end.minimum.steps == len(counted) == 20


def test_steps_beyond_a_wall_are_shortened():
    end = gradients.descend(Wall(), np.full(3, 40.0), 1e-8, 200)
    assert end.minimum.outcome == Outcome.CONVERGED
    np.testing.assert_allclose(end.minimum.point, 1.0, rtol=0, atol=1e-7)
    beyond = gradients.descend(Wall(), np.full(3, -1.0), 1e-8, 200)
    assert beyond.minimum.outcome == Outcome.NOT_FINITE and beyond.minimum.gradient_norm == np.inf
