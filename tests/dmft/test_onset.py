"""Copies of sites; the onset against the roots of a polynomial."""

import jax
import numpy as np
import pytest
import scipy.optimize

from statmech_attention import dmft


def test_copies_are_repeated_sites(published):
    model = dmft.dynamics(published, beta=1.27, gamma=220.0, epsilon=0.02)
    repeated = dmft.dynamics(dmft.published_patterns(seed=1, sites=5 * 99), beta=1.27, gamma=220.0, epsilon=0.02)
    key = jax.random.key(0)
    one = dmft.simulate(model, key=key, steps=20, replicas=2, copies=5).overlaps.output
    np.testing.assert_array_equal(one, dmft.simulate(repeated, key=key, steps=20, replicas=2).overlaps.output)
    with pytest.raises(ValueError, match="copies: wanted 1 where words are kept, got 5"):
        dmft.simulate(model, key=key, steps=2, copies=5, keep="words")


@pytest.mark.parametrize("window", [2, 4, 16])
@pytest.mark.parametrize("seed", [1, 2, 5])
def test_the_onset_is_where_a_root_reaches_the_unit_circle(seed, window):
    patterns = dmft.published_patterns(segments=None, seed=seed, window=window)
    found = dmft.onset(patterns)
    eigenvalues = np.linalg.eigvals(np.asarray(dmft.pair_correlations(patterns.value, patterns.output)))

    def fastest(beta):
        roots = np.concatenate([np.roots([1, *np.full(window, -beta * c / window)]) for c in eigenvalues])
        return roots[np.argmax(np.abs(roots))]

    wanted = scipy.optimize.brentq(lambda beta: np.abs(fastest(beta)) - 1, 0.1, 200, xtol=1e-10)
    assert found.beta == pytest.approx(wanted, rel=1e-8)
    assert found.frequency == pytest.approx(abs(np.angle(fastest(wanted))) / (2 * np.pi), abs=1e-6)


def test_patterns_without_correlations_have_no_onset():
    rows = np.array([[1.0, 1, -1, -1], [1, -1, 1, -1]])
    one, other = ((rows[row : row + 1], np.ones((1, 2))) for row in (0, 1))
    patterns = dmft.patterns_from_arrays(query=one, key=one, value=one, output=other)
    assert dmft.onset(patterns).beta == np.inf
