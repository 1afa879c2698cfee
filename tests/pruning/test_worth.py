"""Evidence lost without a head: against networks whose values are zero, and exact evidences."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import statmech_attention as sma
from statmech_attention import sampling
from statmech_attention.layers.chains import order_parameters_on
from statmech_attention.pruning.heads import kept_heads
from statmech_attention.pruning.worth import head_worth, without_head

HEADS = (2, 2)
EXAMPLES = 5


@pytest.fixture(scope="module")
def problem():
    """Random attentioned inputs of four paths, and labels."""
    random = np.random.default_rng(0)
    values = random.normal(size=(EXAMPLES, 4, 3))
    return sma.AttentionedInputs(jnp.asarray(values), HEADS), jnp.asarray(np.where(np.arange(EXAMPLES) % 2, 1.0, -1.0))


def silenced(weights, layer, head):
    values = list(weights.values)
    values[layer] = values[layer].at[head].set(0.0)
    return weights._replace(values=tuple(values))


@pytest.mark.parametrize("heads", [(2, 3), (2, sma.SkipHeads(2)), (sma.SkipHeads(1), 2), (3, sma.Outputs(2))])
def test_without_a_head_is_the_whole_network_with_its_values_zero(heads):
    width = 6
    paths = sma.AttentionedInputs(jnp.zeros((1, 1, 1)), heads).chain.paths
    inputs = sma.AttentionedInputs(jnp.asarray(np.random.default_rng(1).normal(size=(4, paths, 3))), heads)
    weights = sma.sample_weights(key=jax.random.key(0), layers=heads, width=width, features=3)
    for head, (layer, number) in enumerate(sma.pruning.head_indices(layers=heads)):
        overlaps = sma.model.weights_order_parameters(silenced(weights, layer, number), layers=heads)
        whole = sma.kernel(inputs, inputs, overlaps[0])
        chain = inputs.chain
        left = order_parameters_on(overlaps, chain, chain.keep(kept_heads([head], layers=chain))[1])
        smaller = without_head(inputs, head)
        assert smaller.layers == sma.layers.Chain.of(heads).keep(kept_heads([head], layers=heads))[0].shorthand
        np.testing.assert_allclose(sma.kernel(smaller, smaller, left[0]), whole, rtol=1e-12, atol=1e-12)
        # Of the smaller network all order parameters are those of its weights.
        fewer = sma.keep_heads(weights, kept_heads([head], layers=heads), layers=heads)
        pruned = sma.model.weights_order_parameters(fewer, layers=smaller.layers)
        for ours, theirs in zip(left, pruned, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_head_that_sees_nothing_loses_nothing(problem):
    inputs, labels = problem
    for head, blind in ((1, [2, 3]), (2, [0, 2])):  # of layer 1, of layer 2
        dark = sma.AttentionedInputs(inputs.values.at[:, blind].set(0.0), HEADS)
        whole = sma.solve(sma.Problem(dark, labels, width=8, temperature=0.1))
        found = head_worth(whole)
        # Not by itself: the actions differ by the smallest entropies of 7 and 5 or 4 numbers.
        assert abs(float(whole.action - found.without[head].action)) > 1
        assert found.losses[head] == pytest.approx(0.0, abs=1e-8)
        others = np.delete(found.losses, head)
        assert np.abs(others).min() > 1e-3


def test_at_infinite_width_it_is_exact(problem):
    inputs, labels = problem
    whole = sma.solve(sma.Problem(inputs, labels, width=math.inf, temperature=0.3))
    found = head_worth(whole)

    def evidence(paths):
        # Of 4 paths and 3 features, all along.
        gram = sum(inputs.values[:, path] @ inputs.values[:, path].T for path in paths) / (4 * 3)
        return multivariate_normal(np.zeros(EXAMPLES), np.asarray(gram) + 0.3 * np.eye(EXAMPLES)).logpdf(labels)

    np.testing.assert_allclose(sma.log_evidence(whole), evidence(range(4)), rtol=1e-10)
    wanted = [evidence(range(4)) - evidence(left) for left in ([2, 3], [0, 1], [1, 3], [0, 2])]
    np.testing.assert_allclose(found.losses, wanted, rtol=1e-8)


@pytest.mark.slow
def test_the_exact_evidence_of_a_smaller_network_is_that_of_weights_with_zeros(problem):
    """The coefficients follow: nothing here is about smaller networks."""
    inputs, labels = problem
    width, temperature, draws = 5, 1.0, 20_000

    def log_likelihood(key, layer, head):
        weights = silenced(sma.sample_weights(key=key, layers=HEADS, width=width, features=3), layer, head)
        gram = sma.kernel(inputs, inputs, sma.model.weights_order_parameters(weights)[0])
        gram = gram + temperature * jnp.eye(EXAMPLES)
        return jax.scipy.stats.multivariate_normal.logpdf(labels, jnp.zeros(EXAMPLES), gram)

    keys = jax.random.split(jax.random.key(1), draws)
    for head, (layer, number) in ((1, (0, 1)), (2, (1, 0))):
        logs = jax.jit(jax.vmap(lambda key, at=(layer, number): log_likelihood(key, *at)))(keys)
        likelihoods = np.exp(np.asarray(logs))
        brute = math.log(likelihoods.mean())
        error = likelihoods.std(ddof=1) / math.sqrt(draws) / likelihoods.mean()
        found = sampling.importance(
            sma.Problem(without_head(inputs, head), labels, width=width, temperature=temperature),
            key=jax.random.key(2),
            points=128,
        )
        allowed = 4 * math.hypot(error, float(found.log_evidence.error))
        assert abs(float(found.log_evidence.mean) - brute) < allowed < 0.1


@pytest.mark.slow
def test_the_theory_comes_to_the_exact_loss_as_one_over_the_width(problem):
    inputs, labels = problem
    errors = []
    for width in (32, 64):
        exact = [
            sampling.importance(
                sma.Problem(seen, labels, width=width, temperature=0.3), key=jax.random.key(3), points=1024
            )
            for seen in (inputs, *(without_head(inputs, head) for head in range(4)))
        ]
        losses = [float(exact[0].log_evidence.mean - one.log_evidence.mean) for one in exact[1:]]
        whole = sma.solve(sma.Problem(inputs, labels, width=width, temperature=0.3))
        found = head_worth(whole)
        # The sampler's theory is this one.
        assert float(sma.log_evidence(whole)) == pytest.approx(exact[0].theory, abs=1e-8)
        np.testing.assert_allclose(found.losses, [exact[0].theory - one.theory for one in exact[1:]], atol=1e-7)
        errors.append(found.losses - losses)
        noise = max(float(one.log_evidence.error) for one in exact)
    assert noise < 0.05 * np.abs(errors[1]).max()
    np.testing.assert_allclose(np.abs(errors[0]).max() / np.abs(errors[1]).max(), 2, rtol=0.2)


@pytest.mark.parametrize("width", [pytest.param(4.0, marks=pytest.mark.slow), math.inf])
def test_heads_are_worth_the_same_on_tokens_and_along_paths(width):
    """Two layers beside skips, read at the mean; and the slope is that of differences in a gate."""
    rng = np.random.default_rng(3)
    tokens, maps = rng.normal(size=(8, 3, 2)), [rng.dirichlet(np.ones(3), (8, 2, 3)).swapaxes(2, 3) for _ in range(2)]
    layers, labels = (sma.SkipHeads(2), sma.SkipHeads(2)), rng.normal(size=8)

    def solved(make, attention=None):
        given = make(tokens, attention or maps, layers=layers, readout="mean")
        return sma.solve(sma.Problem(given, labels, width=width, temperature=0.2), tolerance=1e-10)

    expected, found = (head_worth(solved(make)) for make in (sma.attentioned_inputs, sma.token_inputs))
    np.testing.assert_allclose(found.slopes, expected.slopes, atol=1e-7)
    np.testing.assert_allclose(found.losses, expected.losses, atol=1e-7)

    def evidence(gate):
        gated = [maps[0], maps[1] * np.sqrt([gate, 1.0])[:, None, None]]
        return float(sma.log_evidence(solved(sma.attentioned_inputs, lambda _: gated)))

    assert found.slopes[2] == pytest.approx((evidence(1 + 1e-4) - evidence(1 - 1e-4)) / 2e-4, rel=1e-5)
    alone = head_worth(solved(sma.token_inputs), removal=False)
    assert alone.losses is None and len(alone.slopes) == 4
    assert found.heads.tolist() == alone.heads.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
