"""Ways to the derivatives of the action that the random chains do not take."""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import statmech_attention as sma
from statmech_attention.model.architecture import Architecture
from statmech_attention.theory.descent import energies
from statmech_attention.theory.descent.energies import Energy
from statmech_attention.theory.descent.landscape import Action
from statmech_attention.theory.descent.minimum import minimise
from statmech_attention.theory.descent.trust_region import exact_step
from statmech_attention.theory.levels import levels
from statmech_attention.theory.levels import paths as coordinates
from statmech_attention.theory.prepared import feature_energy, pair_energy


@jax.jit
def dense(action, point):
    """Value, gradient and Hessian, in one program."""
    return action.dense(point)


# Heads, widths (N_1, .., N_{L+1}), variances (sigma_0^2, .., sigma_a^2).
HEADS, WIDTHS, VARIANCES = (3, 1, 2), (7, 5, 9, 6), (0.7, 1.3, 0.9, 1.6, 0.8)
EXAMPLES, FEATURES, TEMPERATURE = 5, 3, 0.3


@pytest.fixture(scope="module")
def case():
    """The actions from features and from pairs of kernels, and a point away from the origin."""
    rng = np.random.default_rng(50)
    values = jnp.asarray(rng.normal(size=(EXAMPLES, math.prod(HEADS), FEATURES)))
    labels = jnp.asarray(rng.normal(size=EXAMPLES))
    whole = sma.Problem(values, labels, width=WIDTHS, temperature=TEMPERATURE, variance=VARIANCES, layers=HEADS)
    factors = coordinates.full_rank(whole.architecture)
    point = jnp.asarray(0.4 * rng.normal(size=factors.coordinates))
    made = (energy(whole, whole) for energy in (feature_energy, pair_energy))
    return *(Action.of(energy, whole.architecture, factors) for energy in made), point


@dataclass(frozen=True)
class Plain(Energy):
    """An energy of which nothing but its value is known."""

    energy: Energy

    def value(self, overlap):
        return self.energy.value(overlap)


def symmetric(slope):
    return 0.5 * (slope + slope.T)


def test_the_pairs_kernels_give_the_derivatives_that_the_features_give(case):
    features, pairs, point = case
    assert pairs.energy.products.shape == (21, EXAMPLES * (EXAMPLES + 1) // 2)
    same = partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-11)
    jax.tree.map(same, dense(pairs, point), dense(features, point))

    @jax.jit
    def values_and_slopes(features, pairs, point):
        overlap = features.overlap(point)
        return [jax.value_and_grad(one)(overlap) for one in (pairs.energy.held, features.energy.value)]

    (held, slope), (value, other) = values_and_slopes(features, pairs, point)
    same(held, value)
    same(symmetric(slope), symmetric(other))


def test_energies_know_what_automatic_differentiation_finds(case):
    features, pairs, point = case
    same = partial(np.testing.assert_allclose, rtol=1e-8, atol=1e-8)

    @jax.jit
    def all_derivatives(action, point):
        overlap, energy = action.overlap(point), action.energy
        return [one.derivatives(overlap) for one in (energy, Plain(energy))]

    for action in (features, pairs):
        jax.tree.map(same, *all_derivatives(action, point))


def test_the_density_is_half_of_n_times_the_action(case):
    features, pairs, point = case
    unit = max(WIDTHS)

    @jax.jit
    def both(action, point):
        return action.half(point), 0.5 * unit * action.value(point)

    for action in (features, pairs):
        found, wanted = both(action, point)
        assert float(found) == pytest.approx(float(wanted), rel=1e-12)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Counts(Energy):
    """Another likelihood: each of the labels has noise of its own, known variance."""

    kernels: jax.Array  # (paths, paths, examples, examples)
    labels: jax.Array
    noise: jax.Array  # (examples,)

    def value(self, overlap):
        covariance = jnp.einsum("ab,abmn->mn", overlap, self.kernels) + jnp.diag(self.noise)
        covariance = 0.5 * (covariance + covariance.T)
        return jnp.linalg.slogdet(covariance)[1] + self.labels @ jnp.linalg.solve(covariance, self.labels)


@pytest.mark.parametrize("method", ["dense", pytest.param("products", marks=pytest.mark.slow), "gradients"])
def test_a_further_energy_is_its_value_alone(method):
    rng = np.random.default_rng(4)
    seen, labels, noise = rng.normal(size=(5, 2, 3)), rng.normal(size=5), rng.uniform(0.1, 1.0, 5)
    kernels = jnp.asarray(np.einsum("map,nbp->abmn", seen, seen) / 6)
    architecture = Architecture.of((2,), 4.0, 1.0)
    factors = coordinates.full_rank(architecture)

    def lowest(noise):
        action = Action.of(Counts(kernels, jnp.asarray(labels), noise), architecture, factors)
        return minimise(action, jnp.zeros(factors.coordinates), 1e-12, 200, method)

    found = lowest(jnp.asarray(noise))

    def brute_force(point):
        """The action by formulas, with SciPy as its minimiser."""
        (log_u, *logs, lower) = point[3], point[0], point[1], point[2]
        u, F = np.exp(2 * log_u), np.array([[np.exp(logs[0]), 0], [lower, np.exp(logs[1])]])
        covariance = np.einsum("ab,abmn->mn", u * F @ F.T, kernels) + np.diag(noise)
        nats = np.linalg.slogdet(covariance)[1] + labels @ np.linalg.solve(covariance, labels)
        return u - np.log(u) + np.trace(F @ F.T) - 2 * sum(logs) + nats / 4

    other = scipy.optimize.minimize(
        brute_force, np.zeros(4), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 10_000}
    )
    assert float(found.minimum.value) == pytest.approx(other.fun - 3, abs=1e-9)  # S - S_0
    slope = jax.grad(lambda noise: lowest(noise).order_parameters[0][0, 1])(jnp.asarray(noise))
    step = 1e-5 * np.eye(5)
    ends = [[lowest(jnp.asarray(noise + sign * one)).order_parameters[0][0, 1] for sign in (1, -1)] for one in step]
    np.testing.assert_allclose(slope, [(up - down) / 2e-5 for up, down in ends], rtol=1e-5, atol=1e-8)


def test_a_large_hessian_in_single_precision_is_that_in_double(case, monkeypatch):
    action, _, point = case
    wanted = dense(action, point)
    monkeypatch.setattr(energies, "_LARGEST_DOUBLE", 0)
    value, gradient, curvature = jax.jit(lambda action, point: action.dense(point))(action, point)
    np.testing.assert_array_equal(value, wanted[0])
    np.testing.assert_allclose(gradient, wanted[1], rtol=1e-12, atol=1e-13)
    largest = np.max(np.abs(wanted[2].hessian))
    np.testing.assert_allclose(curvature.hessian, wanted[2].hessian, rtol=0, atol=1e-5 * largest)
    assert np.any(curvature.hessian != wanted[2].hessian)


def test_a_point_that_is_not_finite_gives_derivatives_that_are_not(case):
    action, _, point = case
    value, gradient, curvature = dense(action, point.at[0].set(jnp.nan))
    assert not np.isfinite(value)
    assert not np.all(np.isfinite(gradient))
    step, _ = jax.jit(exact_step)(jnp.ones_like(point), curvature.hessian, jnp.asarray(1.0))
    assert np.all(np.isfinite(step))


def test_the_entropys_derivatives_are_those_of_an_action_without_labels():
    """Without labels and inputs the energy is constant."""
    values, labels = jnp.zeros((4, 6, 2)), jnp.zeros(4)
    whole = sma.Problem(values, labels, width=(7, 5, 9), temperature=0.5, variance=1.3, layers=(2, 3))
    factors = coordinates.full_rank(whole.architecture)
    action = Action.of(feature_energy(whole, whole), whole.architecture, factors)
    point = jnp.asarray(np.random.default_rng(5).normal(size=factors.coordinates))

    @jax.jit
    def both(point, shares):
        return levels.entropy_slope(point, shares, factors), jax.grad(levels.excess_entropy)(point, shares, factors)

    (slope, curvature), automatic = both(point, action.shares)
    np.testing.assert_allclose(slope, automatic, rtol=1e-12)
    np.testing.assert_allclose(dense(action, point)[2].hessian, np.diag(curvature), rtol=1e-12, atol=1e-12)
