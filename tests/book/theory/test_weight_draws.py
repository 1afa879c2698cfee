"""Draws of all weights: against networks from the prior with weights of their own, and beside the theory."""

import jax
import numpy as np
import pytest

import statmech_attention as sma
from attention_book.theory.weight_draws import Network, Sampling, output_draws


def data(rng, examples, heads, features=4):
    """Three tokens, the first of which has the label, and random attention of two layers."""
    labels = np.where(np.arange(examples) % 2, 1.0, -1.0)
    x = rng.normal(size=(examples, 3, features))
    x[:, 0, 0] += np.sqrt(features) * labels
    logits = [2 * rng.normal(size=(1, heads, 3, 3)) + 0.5 * rng.normal(size=(examples, heads, 3, 3)) for _ in range(2)]
    return x, [np.exp(one) / np.exp(one).sum(axis=2, keepdims=True) for one in logits], labels


def layers(skips, heads):
    return [sma.SkipHeads(heads) if skips else heads] * 2


@pytest.mark.parametrize("skips", [True, False])
def test_mean_outputs_are_those_of_weighted_networks_from_the_prior(skips):
    known, networks, temperature, variance = 3, 100_000, 0.5, 0.7
    x, attention, labels = data(np.random.default_rng(0), 5, 2)
    numbers = {"width": 2, "variance": (variance, 1.0, 1.0, 1.0), "layers": layers(skips, 2), "features": 4}
    weights = jax.vmap(lambda key: sma.sample_weights(key=key, **numbers))(
        jax.random.split(jax.random.key(0), networks)
    )
    outputs = np.asarray(jax.vmap(lambda one: sma.forward(one, x, attention, layers=layers(skips, 2)))(weights))
    share = np.exp(-np.sum((outputs[:, :known] - labels[:known]) ** 2, axis=1) / (2 * temperature))
    share /= share.sum()
    expected = share @ outputs
    error = np.sqrt(share**2 @ (outputs - expected) ** 2)
    sampling = Sampling(np.random.default_rng(1), chains=4, warmup=100, draws=2000)
    drawn = output_draws(Network(attention, skips, 2, variance), x, labels[:known], temperature, sampling)
    found, spread = sma.sampling.estimate(drawn.mean)
    assert np.all(sma.sampling.r_hat(drawn.mean) < 1.02)
    assert np.all(np.abs(found - expected) < 4 * np.hypot(error, spread))
    variances = share @ outputs**2 - expected**2
    np.testing.assert_allclose(drawn.variance.mean((0, 1)) + drawn.mean.var((0, 1)), variances, rtol=0.05)


@pytest.mark.slow
def test_theory_without_paths_is_near_networks_of_more_paths_than_neurons():
    """16 paths with skips, six neurons: at most 3 % off, and the limit at least five times as much."""
    known, temperature = 20, 0.1
    x, attention, labels = data(np.random.default_rng(3), 40, 3, features=20)
    train, every = (
        sma.token_inputs(x[:count], [one[:count] for one in attention], layers=layers(True, 3)) for count in (known, 40)
    )
    problem = sma.Problem(train, labels[:known], temperature=temperature, variance=(0.5, 1.0, 1.0, 1.0))
    theory, limit = (np.asarray(sma.solve(problem.replace(width=width)).predict(every).mean) for width in (6, np.inf))
    sampling = Sampling(np.random.default_rng(1), chains=4, warmup=100, draws=800)
    drawn = output_draws(Network(attention, True, 6, 0.5), x, labels[:known], temperature, sampling)
    exact = drawn.mean.mean((0, 1))
    assert sma.sampling.r_hat(drawn.mean).max() < 1.02 and sma.sampling.effective_size(drawn.mean).min() > 400
    size, *apart = (np.sqrt(np.mean((one - exact)[known:] ** 2)) for one in (0.0, theory, limit))
    assert apart[0] < 0.03 * size and apart[0] < apart[1] / 5
