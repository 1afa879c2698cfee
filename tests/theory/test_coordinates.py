"""Good coordinates of mixed chains: their law against networks from the prior, the entropy against densities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layers import brute_force
from scipy.stats import matrix_normal, wishart

import statmech_attention as sma
from statmech_attention.model.architecture import Architecture
from statmech_attention.sampling import _bartlett
from statmech_attention.sampling._chains import whole_widths
from statmech_attention.theory.levels import levels
from statmech_attention.theory.levels import paths as coordinates

VARIANCES = (0.8, 1.5, 0.6, 1.2, 0.9)
DRAWS, AT_ONCE = 60_000, 20_000


def entries(overlaps):
    """All entries on and below the diagonals."""
    matrices = [jnp.atleast_2d(u) for u in overlaps]
    return jnp.concatenate([u[..., *np.tril_indices(u.shape[-1])].reshape(-1) for u in matrices])


def averaged(blocks):
    """Means and squared errors of the entries, a row per draw, and of their products."""
    sums = [(one.mean(axis=0), (one**2).mean(axis=0), one.T @ one, (one**2).T @ one**2) for one in blocks]
    first, second, product, square = (np.mean(one, axis=0) for one in zip(*sums, strict=True))
    product, square = product / AT_ONCE, square / AT_ONCE
    return (first, (second - first**2) / DRAWS), (product, (square - product**2) / DRAWS)


@pytest.mark.parametrize("name", ["two layers", "all kinds", "two skips, narrow", "narrow heads below", "narrow skips"])
def test_the_law_of_the_factors_is_that_of_networks_from_the_prior(name):
    layers, widths, outputs = brute_force.CHAINS[name]
    variances = VARIANCES[: len(layers) + 2]
    architecture = Architecture.of(brute_force.shorthand(layers, outputs), widths, variances)
    factors = _bartlett.bartlett(architecture)

    @jax.jit
    @jax.vmap
    def bartlett(key):
        pieces = []
        shapes = zip(whole_widths(architecture), factors.pieces, strict=True)
        for width, (_, places, below) in shapes:
            key, one, two = jax.random.split(key, 3)
            # As many squares as there are degrees of freedom: a gamma law is drawn by rejection, for much longer.
            freedom = np.arange(width) < (width - places)[:, None]
            chi_square = jnp.sum(freedom * jax.random.normal(one, freedom.shape) ** 2, axis=1)
            pieces += [0.5 * jnp.log(chi_square / width), jax.random.normal(two, (below,)) / np.sqrt(width)]
        return entries(coordinates.order_parameters(jnp.concatenate(pieces), factors))

    def networks(rng):
        _, values, readout = brute_force.weights(rng, layers, widths, outputs, variances, 1, (AT_ONCE,))
        overlaps = brute_force.order_parameters(values, readout.reshape(AT_ONCE, widths[-1], -1), layers)
        return np.concatenate([u[..., *np.tril_indices(u.shape[-1])].reshape(AT_ONCE, -1) for u in overlaps], axis=1)

    keys, rng = jax.random.split(jax.random.key(5), (DRAWS // AT_ONCE, AT_ONCE)), np.random.default_rng(5)
    ours, theirs = (np.asarray(bartlett(some)) for some in keys), (networks(rng) for _ in keys)
    for (one, error), (other, its_error) in zip(averaged(ours), averaged(theirs), strict=True):
        gap, scale = np.abs(one - other), np.sqrt(error + its_error)
        assert np.all(scale > 0)
        assert np.max(gap / scale) < 4.5  # of up to 2500 products; of the means alone 4 would do


def test_the_gp_limit_is_the_mean_over_the_prior():
    """A skip has the order parameter from above in its first block, heads their variance times it."""
    heads = (2, sma.SkipHeads(1), sma.Linear(), sma.Outputs(2))
    lowest, skip, linear, top = sma.theory.gp_order_parameters(layers=heads, variance=(5.0, 2.0, 3.0, 0.5, 7.0))
    np.testing.assert_allclose(top, 7 * np.eye(2))
    np.testing.assert_allclose(linear, 3.5 * np.eye(2))
    np.testing.assert_allclose(skip, np.kron(np.diag([1, 3]), linear))
    np.testing.assert_allclose(lowest, 2 * np.kron(np.eye(2), skip))


def test_the_density_of_a_skip_layer_is_that_of_its_blocks():
    """B given U is matrix normal, the Schur complement independent of it Wishart with N - d degrees of freedom."""
    widths, variances = (7, 7), (1.0, 1.4, 0.7)
    architecture = Architecture.of((sma.SkipHeads(2), sma.Outputs(2)), widths, variances)
    factors = _bartlett.bartlett(architecture)

    def blocks(point):
        """The entries that a point is made of: of U, of B, of the Schur complement."""
        lower, upper = coordinates.order_parameters(point, factors)
        cross = lower[:2, 2:]
        schur = lower[2:, 2:] - cross.T @ jnp.linalg.solve(upper, cross)
        return jnp.concatenate([upper[np.tril_indices(2)], cross.reshape(-1), schur[np.tril_indices(4)]])

    @jax.jit
    def numbers_at(point):
        """In one program, since every operation alone would be compiled, too."""
        terms = 0.5 * levels.excess_entropy(point, jnp.asarray(architecture.widths), factors)
        terms += levels.order_one(point, factors)
        return coordinates.order_parameters(point, factors), jax.jacfwd(blocks)(point), terms

    point = 0.4 * jnp.asarray(np.random.default_rng(3).normal(size=factors.coordinates))
    (lower, upper), jacobian, terms = jax.tree.map(np.asarray, numbers_at(point))
    cross, columns = lower[:2, 2:], variances[1] * np.kron(np.eye(2), upper) / 7
    schur = lower[2:, 2:] - cross.T @ np.linalg.solve(upper, cross)
    wanted = wishart(7, variances[2] * np.eye(2) / 7).logpdf(upper)
    wanted += matrix_normal(rowcov=upper, colcov=columns).logpdf(cross)
    wanted += wishart(5, columns).logpdf(schur)
    wanted += np.linalg.slogdet(jacobian)[1]
    assert -float(terms) - _bartlett.prior_constant(widths, factors) == pytest.approx(float(wanted), rel=1e-9)
