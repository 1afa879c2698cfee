"""Heads with a value dimension: limits, the exact law, compilation, training, pruning, bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import wishart

import statmech_attention as sma
from layers import brute_force
from statmech_attention.model.architecture import Architecture
from statmech_attention.sampling import _bartlett
from statmech_attention.theory.levels import levels
from statmech_attention.theory.levels import paths as coordinates

EXAMPLES, FEATURES, TEMPERATURE = 6, 3, 0.2
Heads, SkipHeads = sma.Heads, sma.SkipHeads


def drawn(paths, seed=7):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(EXAMPLES, paths, FEATURES)), rng.normal(size=EXAMPLES)


def solved(heads, paths, width, variance=1.0, **how):
    problem = sma.Problem(*drawn(paths), layers=heads, width=width, temperature=TEMPERATURE, variance=variance)
    return sma.solve(problem, **{"tolerance": 1e-10} | how)


def test_the_density_is_wisharts():
    """Densities of G given the U above and of U given G: the coordinates', and the entropy their growing part."""
    heads, widths, variances, inner = (Heads(2, values=6), 2), (5, 5, 7), (1.0, 1.4, 0.7, 0.9), 6
    architecture = Architecture.of(heads, widths, variances)
    factors = _bartlett.bartlett(architecture)

    def density(lower, matrices, upper, top):
        root, zero = np.sqrt(variances[1]), np.zeros((2, 2))
        scale = root * np.block([[matrices[0], zero], [zero, matrices[1]]])
        found = wishart(widths[0], scale / widths[0]).logpdf(lower)
        found += sum(wishart(inner, root * upper / inner).logpdf(one) for one in matrices)
        found += wishart(widths[1], variances[2] * top * np.eye(2) / widths[1]).logpdf(upper)
        return found + wishart(widths[2], variances[3] / widths[2]).logpdf(top)

    def numbers(point):
        overlaps = coordinates.order_parameters(point, factors)
        return jnp.concatenate(
            [u[..., *np.tril_indices(u.shape[-1])].reshape(-1) for u in map(jnp.atleast_2d, overlaps)]
        )

    @jax.jit
    def told(point):
        """In one program, since every operation alone would be compiled, too."""
        stages = jnp.asarray(architecture.stage_widths, float)
        terms = 0.5 * levels.excess_entropy(point, stages, factors) + levels.order_one(point, factors)
        return coordinates.order_parameters(point, factors), jax.jacfwd(numbers)(point), terms

    rests = []
    for seed in range(2):
        point = jnp.asarray(0.3 * np.random.default_rng(seed).normal(size=factors.coordinates))
        overlaps, jacobian, terms = told(point)
        wanted = density(*map(np.asarray, overlaps))
        found = float(terms) + _bartlett.prior_constant(architecture.stage_widths, factors)
        assert -float(found) == pytest.approx(wanted + np.linalg.slogdet(np.asarray(jacobian))[1], rel=1e-9)
        # -2 ln p is N_max times the entropy, (size + 1) ln det of every matrix, and a constant.
        entropy = float(sma.theory.entropy(overlaps, layers=heads, width=widths, variance=variances))
        sizes = [(u.shape[-1] + 1) * np.linalg.slogdet(u)[1].sum() for u in map(np.atleast_2d, overlaps)]
        rests.append(-2 * wanted - max(widths) * entropy - sum(sizes))
    assert rests[0] == pytest.approx(rests[1], rel=1e-10)


def test_a_large_value_dimension_is_a_plain_head():
    variance, paths = (1.0, 1.5, 0.7, 1.2), 4
    wanted = solved((2, 2), paths, width=8.0, variance=variance)
    errors = []
    for values in (1e3, 1e4):
        found = solved((Heads(2, values=values), 2), paths, width=8.0, variance=variance, tolerance=1e-8)
        errors.append(np.max(np.abs(found.order_parameter - wanted.order_parameter)))
    assert errors[0] < 0.05
    assert errors[0] / errors[1] == pytest.approx(10, rel=0.1)  # a correction of first order in 1/d


def test_a_narrow_head_alone_is_a_head_below_a_linear_block():
    narrow = solved((Heads(1, values=3),), 1, width=(8.0, 5.0), variance=(1.0, 1.44, 0.9))
    blocks = solved((1, sma.Linear()), 1, width=(8.0, 3.0, 5.0), variance=(1.0, 1.2, 1.2, 0.9))
    for one, other in zip(narrow.order_parameters, blocks.order_parameters, strict=True):
        np.testing.assert_allclose(np.ravel(one), np.ravel(other), rtol=1e-8)
    assert float(narrow.action) == pytest.approx(float(blocks.action), rel=1e-12)


@pytest.mark.slow
def test_infinitely_wide_layers_leave_the_head_matrices_alone():
    """Two layers, by a minimiser that knows (J3) only: U^(2) and U^(1) are block diagonal and do not fluctuate."""
    inputs, labels = drawn(4)
    inner, variance = (3, 6), (1.0, 1.44, 0.8, 0.9)

    def split(numbers):
        logs, factors = numbers[:2], numbers[2:].reshape(2, 3)
        triangles = [np.array([[np.exp(a), 0], [b, np.exp(c)]]) for a, b, c in factors]
        return np.exp(logs), np.array([one @ one.T for one in triangles])

    def action(numbers):
        upper, lower = split(numbers)
        middle = np.diag(np.sqrt(variance[2]) * upper)  # U^(2)
        relative = [np.linalg.solve(np.sqrt(variance[1]) * middle, one) for one in lower]
        found = inner[0] * sum(np.trace(one) - np.linalg.slogdet(one)[1] - 2 for one in relative)
        scaled = upper / np.sqrt(variance[2]) / variance[3]
        found += inner[1] * np.sum(scaled - np.log(scaled) - 1)
        overlap = np.sqrt(variance[1]) * np.kron(np.diag([1, 0]), lower[0])
        overlap += np.sqrt(variance[1]) * np.kron(np.diag([0, 1]), lower[1])
        gram = brute_force.kernel(inputs, inputs, overlap, [("heads", 2)] * 2, None) + TEMPERATURE * np.eye(EXAMPLES)
        return found + np.linalg.slogdet(gram)[1] + labels @ np.linalg.solve(gram, labels)

    best = minimize(action, np.zeros(8), method="BFGS", options={"gtol": 1e-9})
    upper, lower = split(best.x)
    heads = tuple(Heads(2, values=values) for values in inner)
    for method in ("dense", "products"):
        found = solved(heads, 4, width=np.inf, variance=variance, method=method)
        first, within, second, above, last = map(np.asarray, found.order_parameters)
        np.testing.assert_allclose(within, lower, atol=2e-6)
        np.testing.assert_allclose(above.reshape(2), upper, atol=2e-6)
        np.testing.assert_allclose(second, np.sqrt(0.8) * np.diag(upper), atol=2e-6)
        assert last == pytest.approx(0.9, rel=1e-12) and np.array_equal(first[:2, 2:], np.zeros((2, 2)))
        np.testing.assert_allclose(first[2:, 2:], 1.2 * lower[1], atol=3e-6)
        nats = -0.5 * (best.fun + EXAMPLES * np.log(2 * np.pi))
        assert float(sma.log_evidence(found)) == pytest.approx(nats, abs=1e-8)
    assert np.max(np.abs(lower[0] - lower[1])) > 0.1 and np.max(np.abs(lower[:, 0, 1])) > 0.05
    both = sma.theory.action(found.problem, found.order_parameters)
    assert float(both) == pytest.approx(float(found.action), rel=1e-12)


@pytest.mark.slow
def test_infinite_width_is_the_limit_of_wide_ones_in_a_sweep_too():
    heads = (SkipHeads(1, values=4), Heads(2, values=6))
    problem = sma.Problem(*drawn(4), layers=heads)
    sweep = sma.solve_sweep(problem, widths=[1e3, np.inf, 1e4], temperatures=[TEMPERATURE, 1.0], tolerance=1e-10)
    limit = solved(heads, 4, width=np.inf)
    np.testing.assert_allclose(sweep[1, 0].order_parameter, limit.order_parameter, atol=1e-8)
    for numbers in (sweep.order_parameter[:, 0], sma.log_evidence(sweep)[:, 0]):
        gaps = np.abs(np.asarray(numbers) - np.asarray(numbers)[1]).reshape(3, -1).max(axis=1)
        assert gaps[0] / gaps[2] == pytest.approx(10, rel=0.05) and gaps[2] < 1e-3
    traced = jax.vmap(lambda width: sma.log_evidence(solved(heads, 4, width=width, throw=False)))(
        np.array([np.inf, 1e3])
    )
    np.testing.assert_allclose(traced, sma.log_evidence(sweep)[1::-1, 0], rtol=1e-9)


def weights_of(heads):
    return sma.sample_weights(key=jax.random.key(0), layers=heads, width=3, features=FEATURES)


INPUTS, LABELS = drawn(2)
SIZES = {"width": 4, "temperature": 1.0}
BAD = [
    (
        lambda: Heads(2, values=0.5),
        r"values: wanted a known head dimension of at least 1, got 0\.5\. Leave values out",
    ),
    (lambda: weights_of((Heads(2, values=2.5),)), "values, of weights: wanted a whole number of at least 1, got 2.5"),
    (
        lambda: sma.posterior(
            sma.Problem(INPUTS, LABELS, layers=(Heads(2, values=2.5),), **SIZES), key=jax.random.key(0)
        ),
        r"values: wanted a whole number of at least 1, got 2\.5",
    ),
    (
        lambda: sma.model.effective_weights(weights_of((Heads(2, values=2),)), layers=(2,)),
        r"weights: wanted shapes \(\(3, 3\), \(\(2, 3, 3\),\), \(3,\)\) for layers=\(2,\), got",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD, ids=range(len(BAD)))
def test_bad_input_is_refused_with_what_to_do(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_weights_alone_say_how_narrow_their_heads_are():
    heads = (Heads(2, values=2), 2)
    found, wanted = (sma.model.weights_order_parameters(weights_of(heads), layers=one) for one in (None, heads))
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
