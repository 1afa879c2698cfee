"""The Wishart chain: its density against SciPy's and the action, its factors against weights drawn from the prior."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wishart

import statmech_attention as sma
from statmech_attention.model.architecture import Architecture
from statmech_attention.sampling import _bartlett
from statmech_attention.sampling._density import posterior_density
from statmech_attention.theory.levels import levels
from statmech_attention.theory.levels import paths as coordinates

HEADS, WIDTHS, VARIANCES = (2, 2), (7, 4, 5), (0.8, 1.5, 0.6, 1.2)
LAYOUT = Architecture.of(HEADS, WIDTHS, VARIANCES)
FACTORS = _bartlett.bartlett(LAYOUT)


order_parameters = jax.jit(lambda point: coordinates.order_parameters(point, FACTORS))


@jax.jit
def log_prior(point):
    widths = jnp.asarray(LAYOUT.widths)
    constant = _bartlett.prior_constant(LAYOUT.widths, FACTORS)
    terms = 0.5 * levels.excess_entropy(point, widths, FACTORS) + levels.order_one(point, FACTORS)
    return -terms - constant


@jax.jit
@jax.jacfwd
def lower_change(point):
    """The Jacobian of all entries of the order parameters on and below the diagonal."""
    found = coordinates.order_parameters(point, FACTORS)
    return jnp.concatenate([jnp.atleast_2d(u)[np.tril_indices(jnp.atleast_2d(u).shape[0])] for u in found])


@given(seed=st.integers(0, 10**6))
def test_the_density_is_that_of_the_wishart_chain(seed):
    point = jnp.asarray(0.4 * np.random.default_rng(seed).normal(size=FACTORS.coordinates))
    overlaps = [np.atleast_2d(u) for u in order_parameters(point)]
    wanted = 0.0
    for layer, (overlap, width) in enumerate(zip(overlaps, WIDTHS, strict=True)):
        above = np.kron(np.eye(HEADS[layer]), overlaps[layer + 1]) if layer < 2 else np.eye(1)
        wanted += wishart(width, VARIANCES[layer + 1] * above / width).logpdf(overlap)
    wanted += np.linalg.slogdet(np.asarray(lower_change(point)))[1]
    assert float(log_prior(point)) == pytest.approx(float(wanted), rel=1e-9)


def test_the_posterior_is_the_action_up_to_a_term_of_order_one():
    """-2 ln p = N S + 2 sum_i i ln F_ii + constant: what the paper's limit leaves out."""
    rng = np.random.default_rng(4)
    numbers = {"layers": HEADS, "width": WIDTHS, "temperature": 0.3, "variance": VARIANCES}
    problem = sma.Problem(rng.normal(size=(5, 4, 3)), rng.normal(size=5), **numbers)
    potential = posterior_density(problem, FACTORS).action.potential

    @jax.jit
    def gap(point):
        order_parameters = coordinates.order_parameters(point, coordinates.full_rank(LAYOUT))
        action = sma.theory.action(problem, order_parameters)
        beside = sum(i * point[start + i] for start, size in ((0, 4), (10, 2)) for i in range(size))
        return 2 * potential(point) - max(WIDTHS) * action - 2 * beside

    gaps = [gap(point) for point in 0.5 * rng.normal(size=(2, FACTORS.coordinates))]
    assert float(gaps[0]) == pytest.approx(float(gaps[1]), rel=1e-10)


def test_narrow_layers_are_short_of_columns():
    factors = _bartlett.bartlett(Architecture.of((3, 2), (4, 1, 2)))
    assert [(shape.size, shape.rank) for shape in factors.shapes] == [(3, 3), (2, 1), (1, 1)]
    point = np.zeros(factors.coordinates)
    found = jax.eval_shape(lambda point: coordinates.factors_of_entries(levels.entries(point, factors), factors), point)
    assert [factor.shape for factor in found] == [(6, 3), (2, 1), (1, 1)]
