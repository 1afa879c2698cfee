"""Jacobian against automatic differentiation, exponents against the determinant, known values."""

from fractions import Fraction
from operator import mul

import jax
import numpy as np
import pytest

from statmech_attention import dmft
from statmech_attention.dmft import Regime
from statmech_attention.dmft._map import orthonormal

from .conftest import model_of
from .reference import random_network

MILD = random_network(41, features=2, sites=9, beta=2.5, gamma=1.5, epsilon=0.1)


@pytest.mark.parametrize(
    "options",
    [
        dict(features=1, bits=1, beta=2.0, gamma=10.0),
        dict(features=2, bits=5, beta=1.5, gamma=60.0),
        dict(features=5, bits=2, beta=1.5, gamma=20.0, epsilon=0.0),
    ],
    ids=str,
)
def test_jacobian_is_the_automatic_derivative(options):
    model = model_of(random_network(42, **options))
    shape = (model.window, model.features)

    def after(flat, slot):
        window = dmft.window_from_attention(model, flat.reshape(shape), slot=slot)
        return dmft.step(model, window)[0].newest_first().reshape(-1)

    automatic = jax.jit(jax.jacfwd(after))
    for slot in (0, model.window - 1):
        state = np.random.default_rng(slot).uniform(-0.5, 0.5, np.prod(shape))
        found = dmft.jacobian(model, dmft.window_from_attention(model, state.reshape(shape), slot=slot))
        np.testing.assert_allclose(found, automatic(state, slot), rtol=0, atol=1e-12)


@pytest.mark.parametrize("count", [4, 20])
def test_directions_are_orthonormal_even_where_they_were_almost_parallel(count):
    rng = np.random.default_rng(0)
    nearly = rng.normal(size=(count, 1, 4, 3)) + 1e-7 * rng.normal(size=(count, 6, 4, 3))
    found, lengths, doubts = jax.jit(orthonormal)(nearly)
    for number in range(3):
        basis, triangle = np.linalg.qr(nearly[..., number].reshape(count, 24).T)
        flat = np.asarray(found[..., number]).reshape(count, 24)
        np.testing.assert_allclose(flat @ flat.T, np.eye(count), atol=1e-12)
        np.testing.assert_allclose(lengths[:, number], np.abs(np.diag(triangle)), rtol=1e-6)
    assert np.all(doubts[0] < 1e-15) and np.all(doubts[-1] < 1e-6)


def test_rounding_of_one_direction_acts_on_those_that_follow():
    """Lengths left against elimination in fractions: the first two vectors almost agree."""
    vectors = np.random.default_rng(0).normal(size=(3, 6))
    vectors[1] = vectors[0] + 1e-9 * vectors[1]
    _, lengths, doubts = orthonormal(jax.numpy.asarray(vectors.reshape(3, 1, 6, 1)))
    rows = [[Fraction(float(number)) for number in row] for row in vectors]
    gram = [[sum(map(mul, one, other)) for other in rows] for one in rows]
    for first, second in ((0, 1), (0, 2), (1, 2)):
        share = gram[second][first] / gram[first][first]
        gram[second] = [below - share * above for below, above in zip(gram[second], gram[first], strict=True)]
    errors = np.abs(lengths[:, 0] / np.sqrt([float(gram[number][number]) for number in range(3)]) - 1)
    assert errors[2] > 1e3 * doubts[2, 0], "it suffers from more than its own rounding"
    assert np.all(errors <= np.maximum.accumulate(doubts[:, 0]))


def test_a_direction_that_is_lost_is_zero():
    vectors = np.zeros((2, 1, 2, 1))
    vectors[:, 0, 0] = 1.0
    found, lengths, _ = orthonormal(jax.numpy.asarray(vectors))
    np.testing.assert_array_equal(lengths[:, 0], [1.0, 0.0])
    np.testing.assert_array_equal(found[1], 0.0)


def test_the_exponents_add_up_to_the_logarithm_of_the_determinant():
    """The sum rule, and QR of the same Jacobians by LAPACK, over one stretch of a trajectory."""
    model = model_of(MILD)
    window = dmft.advance(model, dmft.initial_window(model), steps=200)
    found = dmft.lyapunov_spectrum(model, window, steps=300, discard=100)
    assert np.all(found.rounding < 1e-6)
    basis, logs, determinants = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0], [], []
    for number in range(400):
        matrix = np.asarray(dmft.jacobian(model, window))
        basis, triangle = np.linalg.qr(matrix @ basis)
        if number >= 100:
            logs.append(np.log(np.abs(np.diag(triangle))))
            determinants.append(np.linalg.slogdet(matrix)[1])
        window = dmft.advance(model, window, steps=1)
    assert np.sum(found.exponents) == pytest.approx(np.mean(determinants), abs=1e-9)
    # The directions began elsewhere. The first has forgotten it; the next two turn about one another and have not.
    np.testing.assert_allclose(found.exponents[0], np.mean(logs, axis=0)[0], atol=1e-6)
    blocks = np.array(logs)[:, 0].reshape(10, 30).mean(axis=1)
    assert found.errors[0] == pytest.approx(blocks.std(ddof=1) / np.sqrt(10), rel=1e-3)
    np.testing.assert_allclose(found.window.newest_first(), window.newest_first(), atol=1e-12)


def test_few_exponents_are_the_largest_of_all(at_three):
    model, window = at_three
    few, all_of_them = (dmft.lyapunov_spectrum(model, window, steps=480, count=count) for count in (2, None))
    assert few.exponents.shape == (2,) and all_of_them.exponents.shape == (12,)
    np.testing.assert_allclose(few.exponents, all_of_them.exponents[:2], atol=1e-10)
    assert all_of_them.rounding[0] < 1e-6 < all_of_them.rounding[-1]
    assert np.all(np.diff(all_of_them.rounding) >= 0), "rounding of one acts on those that follow"


def test_exponents_of_zero_at_zero_epsilon(published):
    """lambda^L = (beta c / L) sum_d lambda^(L-1-d) for every eigenvalue c of C^{vo}: the fixed point at zero."""
    model = dmft.dynamics(published, beta=1.1, gamma=220.0, epsilon=0.0)
    zero = dmft.window_from_attention(model, np.zeros((4, 3)), slot=0)
    eigenvalues = np.linalg.eigvals(np.asarray(dmft.pair_correlations(published.value, published.output)))
    wanted = np.concatenate([np.roots([1.0, *([-1.1 * c / 4] * 4)]) for c in eigenvalues])
    found = np.linalg.eigvals(np.asarray(dmft.jacobian(model, zero)))
    distances = np.abs(found[:, None] - wanted[None])  # sorting would part conjugate pairs by their rounding
    assert distances.min(axis=0).max() < 1e-12 and distances.min(axis=1).max() < 1e-12
    spectrum = dmft.lyapunov_spectrum(model, zero, steps=3000)
    # Complex pairs turn: a pair's sum converges as 1/T, each alone as well.
    np.testing.assert_allclose(spectrum.exponents, np.sort(np.log(np.abs(wanted)))[::-1], atol=2e-3)


def test_a_map_that_forgets_everything_has_exponents_of_minus_infinity(published):
    model = dmft.dynamics(published, beta=0.0, gamma=220.0, epsilon=0.1)
    found = dmft.lyapunov_spectrum(model, dmft.initial_window(model), steps=20, count=2)
    np.testing.assert_array_equal(found.exponents, -np.inf)
    np.testing.assert_array_equal(found.errors, 0.0)
    assert dmft.regimes(found) == Regime.PERIODIC


def _spectrum(exponents, errors):
    exponents, errors = (np.asarray(part, dtype=float) for part in (exponents, errors))
    return dmft.LyapunovSpectrum(exponents, errors, np.zeros_like(exponents), dmft.initial_window(model_of(MILD)))


@pytest.mark.parametrize(
    "exponents, error, wanted",
    [
        ((-0.01, -0.02), 1e-5, Regime.PERIODIC),
        ((1e-6, -0.02), 1e-5, Regime.QUASI_PERIODIC),
        ((0.02, -1e-6), 1e-5, Regime.CHAOTIC),
        ((0.02, 0.01), 1e-5, Regime.HYPERCHAOTIC),
        ((0.02, 0.01), 5e-3, Regime.UNDECIDED),
        ((-1e-3, -0.02), 5e-4, Regime.UNDECIDED),
        ((0.0, -0.02), 5e-4, Regime.UNDECIDED),
    ],
)
def test_regimes_of_given_exponents(exponents, error, wanted):
    assert dmft.regimes(_spectrum(exponents, (error, error))) == wanted


def test_published_regimes(published):
    """Quasi-periodic, chaotic and periodic at four of the published values, and the exponents of the last."""
    model = dmft.dynamics(published, beta=np.array([1.255, 1.28, 1.4, 3.0]), gamma=220.0, epsilon=0.02)
    window = dmft.advance(model, dmft.initial_window(model.at(beta=3.0)), steps=20_000)
    spectrum = dmft.lyapunov_spectrum(model, window, steps=30_000, count=2)
    wanted = [Regime.QUASI_PERIODIC, Regime.CHAOTIC, Regime.CHAOTIC, Regime.PERIODIC]
    assert dmft.regimes(spectrum, threshold=3e-4).tolist() == wanted
    assert spectrum.exponents[3, 0] == pytest.approx(-0.1015, abs=1e-4)


def test_more_exponents_than_numbers_are_refused():
    model = model_of(MILD)
    with pytest.raises(ValueError, match="count: wanted a whole number of at least 1 and at most 8, got 9"):
        dmft.lyapunov_spectrum(model, dmft.initial_window(model), steps=3, count=9)
    with pytest.raises(ValueError, match="threshold: wanted a positive finite number, got 0"):
        dmft.regimes(_spectrum([0.1, 0.0], [0.0, 0.0]), threshold=0.0)
