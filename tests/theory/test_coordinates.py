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
from statmech_attention.sampling._arguments import whole_widths
from statmech_attention.theory import coordinates

VARIANCES = (0.8, 1.5, 0.6, 1.2, 0.9)
DRAWS, AT_ONCE = 200_000, 20_000


def entries(overlaps):
    """All entries on and below the diagonals."""
    matrices = [jnp.atleast_2d(u) for u in overlaps]
    return jnp.concatenate([u[..., *np.tril_indices(u.shape[-1])].reshape(-1) for u in matrices])


def averaged(draw, keys):
    """Means and squared errors of the entries and of their products."""

    @jax.jit
    def block(keys):
        rows = jax.vmap(lambda key: entries(draw(key)))(keys)
        squares = rows**2
        return rows.mean(axis=0), squares.mean(axis=0), rows.T @ rows / AT_ONCE, squares.T @ squares / AT_ONCE

    blocks = [block(keys[start : start + AT_ONCE]) for start in range(0, DRAWS, AT_ONCE)]
    first, second, product, square = (np.mean([one[place] for one in blocks], axis=0) for place in range(4))
    return (first, (second - first**2) / DRAWS), (product, (square - product**2) / DRAWS)


@pytest.mark.parametrize("name", ["two layers", "all kinds", "two skips, narrow", "narrow heads below", "narrow skips"])
def test_the_law_of_the_factors_is_that_of_networks_from_the_prior(name):
    layers, widths, outputs = brute_force.CHAINS[name]
    variances = VARIANCES[: len(layers) + 2]
    architecture = Architecture.of(brute_force.spelled(layers, outputs), widths, variances)
    factors = _bartlett.bartlett(architecture)

    def bartlett(key):
        pieces = []
        shapes = zip(whole_widths(architecture), factors.places, factors.counts, strict=True)
        for width, places, (_, below) in shapes:
            key, one, two = jax.random.split(key, 3)
            # As many squares as there are degrees of freedom: a gamma law is drawn by rejection, for much longer.
            freedom = np.arange(width) < (width - places)[:, None]
            chi_square = jnp.sum(freedom * jax.random.normal(one, freedom.shape) ** 2, axis=1)
            pieces += [0.5 * jnp.log(chi_square / width), jax.random.normal(two, (below,)) / np.sqrt(width)]
        return coordinates.order_parameters(jnp.concatenate(pieces), factors)

    def network(key):
        weights = sma.sample_weights(key, layers=architecture.layers, width=widths, features=1, variance=variances)
        return sma.model.weights_order_parameters(weights, layers=architecture.layers)

    keys = jax.random.split(jax.random.key(5), (2, DRAWS))
    for (one, error), (other, its_error) in zip(averaged(bartlett, keys[0]), averaged(network, keys[1]), strict=True):
        gap, scale = np.abs(one - other), np.sqrt(error + its_error)
        assert np.all(scale > 0)
        assert np.max(gap / scale) < 4.5  # of up to 2500 products; of the means alone 4 would do


def test_the_gp_limit_is_the_mean_over_the_prior():
    """A skip has the order parameter from above in its first block, heads their variance times it."""
    heads = (2, sma.SkipHeads(1), sma.Linear(), sma.Outputs(2))
    lowest, skip, linear, top = sma.theory.gp_order_parameters(heads, variance=(5.0, 2.0, 3.0, 0.5, 7.0))
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

    point = 0.4 * jnp.asarray(np.random.default_rng(3).normal(size=factors.coordinates))
    lower, upper = map(np.asarray, coordinates.order_parameters(point, factors))
    cross, columns = lower[:2, 2:], variances[1] * np.kron(np.eye(2), upper) / 7
    schur = lower[2:, 2:] - cross.T @ np.linalg.solve(upper, cross)
    wanted = wishart(7, variances[2] * np.eye(2) / 7).logpdf(upper)
    wanted += matrix_normal(rowcov=upper, colcov=columns).logpdf(cross)
    wanted += wishart(5, columns).logpdf(schur)
    wanted += np.linalg.slogdet(np.asarray(jax.jacfwd(blocks)(point)))[1]
    found = _bartlett.chain_potential(point, jnp.asarray(architecture.widths), factors)
    found += coordinates.order_one(point, factors)
    assert -float(found) - _bartlett.prior_constant(widths, factors) == pytest.approx(float(wanted), rel=1e-9)
