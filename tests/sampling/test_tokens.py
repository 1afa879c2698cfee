"""Samples and corrections on tokens against those along all paths, with all directions."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from statmech_attention import sampling

SETTINGS = sma.SamplerSettings(draws=500, chains=4, progress=False, warn=False)


LAYERS = [(sma.SkipHeads(2),), pytest.param((sma.SkipHeads(1), 2), marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=LAYERS, ids=["one layer", "two layers"])
def both(request):
    """A problem of heads beside a skip, or below two heads, along paths and on tokens, with test inputs of each."""
    rng, layers = np.random.default_rng(0), request.param
    tokens = rng.normal(size=(9, 3, 2))
    maps = [rng.dirichlet(np.ones(3), (9, getattr(layer, "heads", layer), 3)).swapaxes(2, 3) for layer in layers]
    labels, numbers = np.sign(rng.normal(size=6)), {"width": 30, "temperature": 0.3}

    def posed(make):
        known, new = (
            make(tokens[part], [one[part] for one in maps], layers=layers) for part in (slice(6), slice(6, 9))
        )
        return sma.Problem(known, labels, **numbers), new

    return posed(sma.attentioned_inputs), posed(sma.token_inputs)


def test_exact_evidence_and_outputs_are_those_along_paths(both):
    expected, found = (
        sampling.importance(problem, key=jax.random.key(1), points=128, test=test) for problem, test in both
    )
    assert found.order_parameter is None and found.effective_size > 1000
    apart = float(found.log_evidence.mean - expected.log_evidence.mean)
    assert abs(apart) < 4 * np.hypot(found.log_evidence.error, expected.log_evidence.error)
    assert found.theory == pytest.approx(expected.theory, abs=1e-8)
    error = np.hypot(found.output.error, expected.output.error)
    assert np.all(np.abs(found.output.mean - expected.output.mean) < 4 * error) and error.max() < 0.01


def test_drawn_outputs_are_those_along_paths(both):
    (along, paths), (problem, test) = both
    expected = sma.posterior(along, key=jax.random.key(2), test=paths, settings=SETTINGS)
    found = sma.posterior(problem, key=jax.random.key(3), test=test, settings=SETTINGS)
    assert found["kernel"].dims == ("chain", "draw", "row", "other_row") and "order_parameter" not in found
    for name in ("output", "output_variance"):
        (one, error), (other, noise) = (sampling.estimate(draws[name]) for draws in (found, expected))
        assert np.all(np.abs(one - other) < 4 * np.hypot(error, noise))


def test_the_next_order_is_that_along_paths(both):
    expected, found = (sampling.corrected(sma.solve(problem, tolerance=1e-10), test=test) for problem, test in both)
    np.testing.assert_allclose(found.prediction.mean, expected.prediction.mean, atol=1e-7)
    np.testing.assert_allclose(found.prediction.variance, expected.prediction.variance, atol=1e-7)
    assert found.order_parameters == ()


def test_what_cannot_be_sampled_is_refused(both):
    (along, _), (problem, test) = both
    with pytest.raises(ValueError, match="directions: wanted fewer columns than neurons"):
        sampling.importance(problem.replace(width=2), key=jax.random.key(0))
    with pytest.raises(ValueError, match="width: wanted a finite width"):
        sma.posterior(problem.replace(width=np.inf), key=jax.random.key(0))
    with pytest.raises(ValueError, match="directions: wanted for token_inputs alone"):
        sampling.importance(along, key=jax.random.key(0), directions=4)
    with pytest.raises(ValueError, match="test: wanted token_inputs"):
        sampling.importance(problem, key=jax.random.key(0), test=np.ones((2, 4, 2)))
    with pytest.raises(ValueError, match="attentioned: wanted attentioned_inputs"):
        sampling.tempered_posterior(problem, key=jax.random.key(0), test=test)
