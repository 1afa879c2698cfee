"""Samplers of mixed chains against importance sampling over all weights, at widths too narrow for some of the paths."""

from functools import cache, partial

import jax
import numpy as np
import pytest

import statmech_attention as sma
from layers import brute_force

EXAMPLES, FEATURES, TEMPERATURE, DRAWS, BLOCKS = 4, 3, 0.5, 40_000, 20
VARIANCES = (0.8, 1.5, 0.9, 1.2, 1.1)
CHAINS = {
    "skip, narrow heads, linear block": ([("skip", 1), ("narrow heads", 2), ("linear", 1)], (4, 4, 3, 3), None),
    "heads, skip, two outputs": ([("heads", 2), ("skip", 1)], (3, 3, 3), 2),
}
sampling = sma.sampling


def drawn(name):
    """The problem of a chain, and inputs for testing."""
    layers, widths, outputs = CHAINS[name]
    rng = np.random.default_rng(11)
    values = rng.normal(size=(EXAMPLES + 2, len(brute_force.paths(layers)), FEATURES))
    labels = rng.normal(size=(EXAMPLES,) if outputs is None else (EXAMPLES, outputs))
    problem = sma.Problem(
        values[:EXAMPLES],
        labels,
        layers=brute_force.shorthand(layers, outputs),
        width=widths,
        temperature=TEMPERATURE,
        variance=VARIANCES[: len(layers) + 2],
    )
    return problem, values[EXAMPLES:]


@cache
def truth(name):
    """Means of U and of the test outputs over the posterior of all weights, with their errors: weighted prior draws."""
    (problem, test), (layers, widths, outputs), rng = drawn(name), CHAINS[name], np.random.default_rng(12)
    inputs = np.concatenate([problem.attentioned.values, test])
    paths = brute_force.paths(layers)
    inputs *= np.array([brute_force.coefficient(path, layers) for path in paths])[:, None]

    def block():
        projection, values, readout = brute_force.weights(
            rng, layers, widths, outputs, problem.variance, FEATURES, (DRAWS,)
        )
        rows = brute_force.partial_weights(values, readout.reshape(DRAWS, widths[-1], -1), layers, 0)
        vectors = (rows @ projection).reshape(DRAWS, len(paths), -1, FEATURES) / np.sqrt(widths[0] * FEATURES)
        found = np.einsum("dpcf,epf->dec", vectors, inputs, optimize=True).reshape(DRAWS, -1, *problem.labels.shape[1:])
        misfit = np.sum((found[:, :EXAMPLES] - np.asarray(problem.labels)) ** 2, axis=tuple(range(1, found.ndim)))
        weights = np.exp(-misfit / (2 * TEMPERATURE))
        overlap = rows @ rows.swapaxes(1, 2) / widths[0]
        sides = {"order_parameter": overlap, "output": found[:, EXAMPLES:]}
        return weights.mean(), {side: np.tensordot(weights, value, 1) / DRAWS for side, value in sides.items()}

    sums = [block() for _ in range(BLOCKS)]
    weight = np.array([one for one, _ in sums])
    result = {}
    for quantity in ("order_parameter", "output"):
        sides = np.stack([np.asarray(found[quantity]) for _, found in sums])
        mean = sides.mean(axis=0) / weight.mean()
        rest = (sides - weight.reshape(-1, *(1,) * mean.ndim) * mean[None]) / weight.mean()
        result[quantity] = (mean, rest.std(axis=0, ddof=1) / np.sqrt(BLOCKS))
    evidence = weight.mean() / (2 * np.pi * TEMPERATURE) ** (problem.labels.size / 2)
    result["log_evidence"] = (np.log(evidence), weight.std(ddof=1) / np.sqrt(BLOCKS) / weight.mean())
    return result


def assert_same(found, wanted):
    """Within four standard errors in every entry."""
    mean, error = wanted
    assert np.shape(found.mean) == np.shape(mean)
    scale = np.hypot(found.error, error)
    assert np.all(scale > 0)
    np.testing.assert_array_less(np.abs(found.mean - mean), 4 * scale)


@pytest.mark.parametrize(
    ("function", "draws", "name"),
    [
        (sampling.posterior, 2000, "skip, narrow heads, linear block"),
        (sampling.weights_posterior, 500, "heads, skip, two outputs"),
        (partial(sampling.tempered_posterior, rungs=3), 1000, "skip, narrow heads, linear block"),
    ],
    ids=["order parameters", "weights", "tempered"],
)
def test_samplers_have_the_posterior_of_the_weights(function, draws, name):
    problem, test = drawn(name)
    settings = sma.SamplerSettings(draws=draws, warmup=200, warn=False)
    found = function(problem, key=jax.random.key(13), test=test, settings=settings)
    for quantity in ("order_parameter", "output"):
        assert_same(sampling.estimate(found[quantity]), truth(name)[quantity])
    assert sampling.prediction(found).mean.shape == truth(name)["output"][0].shape


@pytest.mark.parametrize("name", CHAINS)
def test_weighted_points_have_the_posterior_of_the_weights_and_its_evidence(name):
    problem, test = drawn(name)
    found = sampling.importance(problem, test=test, points=128, key=jax.random.key(14))
    for quantity in ("order_parameter", "output", "log_evidence"):
        assert_same(getattr(found, quantity), truth(name)[quantity])


def test_kept_weights_are_those_of_the_chain():
    problem, test = drawn("heads, skip, two outputs")
    options = {
        "test": test,
        "keep_weights": True,
        "settings": sma.SamplerSettings(draws=4, warmup=0, chains=2, warn=False),
    }
    found = sampling.weights_posterior(problem, key=jax.random.key(15), **options)
    assert found["readout"].dims == ("chain", "draw", "width_readout", "unit")
    assert found["output"].dims == ("chain", "draw", "example", "unit")
    one = found.isel(chain=1, draw=2)
    values = [one[f"values_{layer}"].values for layer in (1, 2)]
    overlaps = brute_force.order_parameters(values, one["readout"].values, CHAINS["heads, skip, two outputs"][0])
    for name, overlap in zip(("order_parameter", "order_parameter_2", "order_parameter_3"), overlaps, strict=True):
        np.testing.assert_allclose(one[name], overlap, rtol=1e-12, atol=1e-14)
